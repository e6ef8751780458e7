// TableHooks: an app's code around the operations on a table.

public import TidelineCore

/// Code that runs around the operations on a table; `docs/hooks.md` explains when, and what it may do.
///
/// ```swift
/// var hooks = TableHooks()
/// hooks.beforeWrite = { change in
///     if change.operation == .insert { change.values["team"] = change.user?.claims["team"] }
/// }
/// configuration.hooks["TodoItem"] = hooks
/// ```
public struct TableHooks: Sendable {
    /// Returns the filter for the rows that a caller may see; nil for all rows.
    ///
    /// If it throws, all rows are hidden.
    public var rowFilter: (@Sendable (_ user: User?) async throws -> RowFilter?)?
    /// Runs before each write, outside of its transaction; may change or reject it.
    public var beforeWrite: (@Sendable (_ change: inout TableChange) async throws -> Void)?
    /// Runs after each write that was committed, before its answer is sent.
    public var afterWrite: (@Sendable (_ event: TableEvent) async throws -> Void)?
    /// Runs before lists and single rows; may reject them.
    public var beforeRead: (@Sendable (_ read: TableRead) async throws -> Void)?
    /// Runs after lists and single rows, with the number of returned rows.
    public var afterRead: (@Sendable (_ read: TableRead, _ rows: Int) async throws -> Void)?
    /// Resolves a conflict: a write whose version is not the stored one.
    public var conflict: (@Sendable (_ conflict: TableConflict) async throws -> ConflictResolution)?

    /// Creates hooks without any code.
    public init() {}

    /// Whether a hook runs before or after a write, or resolves its conflicts.
    var surroundWrites: Bool { beforeWrite != nil || afterWrite != nil || conflict != nil }
}

/// The operation of a write.
public enum TableOperation: String, Hashable, Sendable, CaseIterable {
    /// A row is inserted.
    case insert
    /// Some columns of a row are changed.
    case update
    /// All columns of a row are replaced; absent columns get their defaults.
    case replace
    /// A row is deleted, possibly by an update that sets `deleted`.
    case delete
    /// A deleted row is restored.
    case undelete
}

/// A write before it is executed.
public struct TableChange: Sendable {
    /// The operation of the write.
    public let operation: TableOperation
    /// The table.
    public let table: String
    /// The row's id.
    public let id: String
    /// The user who sent the write; nil for a caller without a token.
    public let user: User?
    /// The id of the request in the log.
    public let requestID: String
    /// The columns that the request sets.
    ///
    /// A column that the hook removes is treated as not sent.
    public var values: Row
    let reader: StoredRowReader

    /// Returns the row as the caller may see it, deleted or not; nil if there is none.
    ///
    /// If the row is changed after a hook has called this method, the write is not executed; instead the hook
    /// runs again with the current row.
    public func stored() async throws -> Row? { try await reader.row() }
}

/// A write that was committed.
public struct TableEvent: Sendable {
    /// The executed operation.
    public let operation: TableOperation
    /// The table.
    public let table: String
    /// The row's id.
    public let id: String
    /// The user who sent the write; nil for a caller without a token.
    public let user: User?
    /// The id of the request in the log.
    public let requestID: String
    /// The row as it was committed; nil if it was removed permanently.
    public let row: Row?
}

/// A read of a list or of one row.
public struct TableRead: Sendable {
    /// The table.
    public let table: String
    /// The row's id; nil for a list.
    public let id: String?
    /// The user who reads; nil for a caller without a token.
    public let user: User?
    /// The id of the request in the log.
    public let requestID: String
}

/// A write whose version is not the stored one.
public struct TableConflict: Sendable {
    /// The table.
    public let table: String
    /// The row's id.
    public let id: String
    /// The user who sent the write; nil for a caller without a token.
    public let user: User?
    /// The id of the request in the log.
    public let requestID: String
    /// The operation of the write.
    public let operation: TableOperation
    /// Whether the write deletes the row.
    public var isDelete: Bool { operation == .delete }
    /// The stored row with the values of the write.
    public let client: Row
    /// The stored row.
    public let server: Row
}

/// The resolution of a conflict.
public enum ConflictResolution: Sendable {
    /// The write is executed as if it had the stored version.
    case client
    /// The columns of this row are written instead.
    case write(Row)
    /// The write is dropped; the caller gets the stored row as if it had been written.
    case server
    /// The table's conflict rule applies.
    case policy
}

/// An error that a hook or an endpoint throws to reject a request.
///
/// ```swift
/// throw Rejection(422, "A team has at most ten members.")
/// ```
public struct Rejection: Error, Hashable, Sendable {
    /// The status of the answer: 400 to 499, except 401, 409 and 412.
    public var status: Int
    /// The text for the caller, without contents of rows.
    public var message: String

    /// Rejects the operation with a status and a reason.
    public init(_ status: Int, _ message: String) {
        self.status = status
        self.message = message
    }

    /// The response; nil for a status that has another meaning for clients.
    var answer: ServerError? {
        guard (400...499).contains(status), ![401, 409, 412].contains(status) else { return nil }
        return ServerError(status, message)
    }
}
