// TableReference: a column with ids of another table's rows, and the rule for deleting such a row.

/// A column with the ids of parent rows in another table or in its own.
///
/// Null means that a row has no parent. A server rejects a write if the parent does not exist, is
/// deleted, or is not visible to the caller. A device stores such a row, because the parent may
/// still arrive.
///
/// ```swift
/// table.references = [TableReference("customerID", to: "Customer", onDelete: .cascade)]
/// ```
public struct TableReference: Hashable, Sendable {
    /// The column, of type `string` or `guid`.
    public var column: String
    /// The table that contains the parents; it may be the column's own table.
    public var table: String
    /// The rule for deleting a parent.
    public var onDelete: DeleteRule

    /// Declares a reference.
    public init(_ column: String, to table: String, onDelete: DeleteRule = .restrict) {
        self.column = column
        self.table = table
        self.onDelete = onDelete
    }
}

/// A rule for deleting a row that other rows refer to.
public enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// The delete is rejected while a row that is not deleted refers to the row.
    case restrict
    /// The references of other rows become null.
    case setNull
    /// The referring rows are deleted as well, and so are the rows that refer to those rows by this
    /// rule.
    case cascade
    /// Nothing happens: the reference is declared but never checked.
    case none
}
