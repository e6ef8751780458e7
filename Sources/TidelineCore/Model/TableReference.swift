// TableReference: a column whose values are ids of rows of another table, and the rule for a delete of such a row.

/// A column whose values are ids of rows of a table, the parents of its own rows.
///
/// Null means that a row has no parent. A server rejects a write whose reference names a parent that does not exist,
/// is deleted, or is not visible to the caller. A device stores such a row, because the parent may still
/// arrive.
///
/// ```swift
/// table.references = [TableReference("customerID", to: "Customer", onDelete: .cascade)]
/// ```
public struct TableReference: Hashable, Sendable {
    /// The column, of type `string` or `guid`.
    public var column: String
    /// The table of the parents; it may be the column's own table.
    public var table: String
    /// The rule for a delete of a parent.
    public var onDelete: DeleteRule

    /// Declares a reference.
    public init(_ column: String, to table: String, onDelete: DeleteRule = .restrict) {
        self.column = column
        self.table = table
        self.onDelete = onDelete
    }
}

/// A rule for the delete of a row that other rows refer to.
public enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// The delete is rejected if a row that is not deleted refers to the row.
    case restrict
    /// The references of other rows become null.
    case setNull
    /// The other rows are deleted as well, and so are the rows that refer to them by this rule.
    case cascade
    /// Nothing happens: the reference is declared, but never checked.
    case none
}
