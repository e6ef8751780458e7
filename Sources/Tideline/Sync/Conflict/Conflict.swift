// Conflict: describes a row that changed on both sides, for an app's handler.

public import TidelineCore

/// A row that was changed both on this device and on the server since the base version.
///
/// A handler of ``ConflictPolicy/custom(_:)`` receives it and decides what happens to the row.
///
/// ```swift
/// let conflict = Conflict(
///     table: "TodoItem", itemID: "1", kind: .update,
///     base: ["id": "1", "rank": 1],
///     local: ["id": "1", "rank": 3],
///     server: ["id": "1", "rank": 2]
/// )
/// let merged = conflict.merged(["rank": .max])
/// ```
public struct Conflict: Sendable, Hashable {
    /// The table's name.
    public let table: String
    /// The row's id.
    public let itemID: String
    /// The kind of the operation that is in conflict.
    public let kind: OperationKind
    /// The base row of the local change; nil for an insert, or if it is not stored.
    public let base: Row?
    /// The row on this device, with all its edits; nil if it is deleted here.
    public let local: Row?
    /// The row on the server; nil if it is deleted there.
    public let server: Row?

    /// Creates a conflict, for tests of a handler.
    public init(
        table: String,
        itemID: String,
        kind: OperationKind,
        base: Row?,
        local: Row?,
        server: Row?
    ) {
        self.table = table
        self.itemID = itemID
        self.kind = kind
        self.base = base
        self.local = local
        self.server = server
    }

    /// The columns that both sides changed to different values; without a base row, the columns
    /// that differ.
    ///
    /// The array is empty if one side deleted the row.
    public var columns: [String] {
        if case .contested(let columns, _) = joined([:]) { columns } else { [] }
    }

    /// Returns the merged row, like ``ConflictPolicy/merge(_:)``.
    ///
    /// - Parameter rules: The rules for columns that both sides changed, by column name.
    /// - Returns: The merged row; nil if a column that both sides changed has no rule, or if one
    ///   side deleted the row.
    public func merged(_ rules: [String: MergeRule] = [:]) -> Row? {
        if case .joined(let row, _) = joined(rules) { row } else { nil }
    }

    private func joined(_ rules: [String: MergeRule]) -> RowMerge.Joined? {
        guard let local, let server else { return nil }
        return RowMerge.join(mine: local, base: base, theirs: server, rules: rules)
    }
}
