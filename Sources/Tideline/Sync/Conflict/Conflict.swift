// Conflict: what an app's handler is shown of a row that changed on both sides.

public import TidelineCore

/// A row that was changed on this device and, since it was last seen, on the server.
///
/// A handler of ``ConflictPolicy/custom(_:)`` gets it and says what becomes of the row.
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
    /// What the operation that met the conflict does.
    public let kind: OperationKind
    /// The server's row that the local change began at; nil for an insert, and where that state is
    /// not kept.
    public let base: Row?
    /// The row on this device, with all its edits; nil where it is deleted here.
    public let local: Row?
    /// The row on the server; nil where it is deleted there.
    public let server: Row?

    /// Makes a conflict, to test a handler with.
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

    /// The columns that both sides changed, to different values; without a base those that differ.
    ///
    /// None where one side deleted the row.
    public var columns: [String] {
        if case .contested(let columns, _) = joined([:]) { columns } else { [] }
    }

    /// The row that both changes make, as under ``ConflictPolicy/merge(_:)``.
    ///
    /// - Parameter rules: What becomes of columns that both sides changed, by their names.
    /// - Returns: Nil where such a column has no rule, or one side deleted the row.
    public func merged(_ rules: [String: MergeRule] = [:]) -> Row? {
        if case .joined(let row, _) = joined(rules) { row } else { nil }
    }

    private func joined(_ rules: [String: MergeRule]) -> RowMerge.Joined? {
        guard let local, let server else { return nil }
        return RowMerge.join(mine: local, base: base, theirs: server, rules: rules)
    }
}
