// PendingCascade: a deleted row whose children are not all deleted yet, stored in the database until they are.

/// A deleted row whose children are deleted, or lose their reference, in later transactions.
package struct PendingCascade: Hashable, Sendable {
    /// The position in the order in which the entries were stored; 0 before that.
    package var place: Int64 = 0
    package var table: String
    package var id: String
    /// The author of the delete.
    package var author: WriteAuthor

    package init(place: Int64 = 0, table: String, id: String, author: WriteAuthor) {
        self.place = place
        self.table = table
        self.id = id
        self.author = author
    }

    /// The maximum number of entries that a step reads.
    package static let entriesMax = 200
}

/// The result of a step that continues pending cascades.
package struct CascadeProgress: Sendable {
    /// The number of rows that the step changed.
    package var rows = 0
    /// Whether entries may be left.
    package var isPending = false

    package init(rows: Int = 0, isPending: Bool = false) {
        self.rows = rows
        self.isPending = isPending
    }
}
