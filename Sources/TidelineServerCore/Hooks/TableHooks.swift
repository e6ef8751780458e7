// TableHooks: an app's own additions to a table: code around its operations.

public import TidelineCore

/// Code around the operations on a table; `docs/HOOKS.md` explains when each runs and what it may do.
///
/// ```swift
/// var hooks = TableHooks()
/// hooks.beforeWrite = { change in
///     if change.operation == .insert { change.values["team"] = change.user?.claims["team"] }
/// }
/// configuration.hooks["TodoItem"] = hooks
/// ```
public struct TableHooks: Sendable {
    /// The rows that a caller sees, nil for all; if it throws, all rows are hidden.
    public var rowFilter: (@Sendable (_ user: User?) async throws -> RowFilter?)?
    /// Runs before each write, outside of its transaction; may change or reject it.
    public var beforeWrite: (@Sendable (_ change: inout TableChange) async throws -> Void)?
    /// Runs after each write that was committed, before its answer is sent.
    public var afterWrite: (@Sendable (_ event: TableEvent) async throws -> Void)?
    /// Runs before lists and single rows; may reject them.
    public var beforeRead: (@Sendable (_ read: TableRead) async throws -> Void)?
    /// Runs after lists and single rows, with the number of rows that are sent.
    public var afterRead: (@Sendable (_ read: TableRead, _ rows: Int) async throws -> Void)?
    /// Decides about a write whose version is not the stored one.
    public var conflict: (@Sendable (_ conflict: TableConflict) async throws -> ConflictAnswer)?

    /// No code at all.
    public init() {}

    /// Whether something runs before or after a write, or decides about its conflicts.
    var surroundWrites: Bool { beforeWrite != nil || afterWrite != nil || conflict != nil }
}

/// The operation of a write.
public enum TableOperation: String, Hashable, Sendable, CaseIterable {
    /// A new row.
    case insert
    /// Some columns of a row change.
    case update
    /// All columns of a row change: those that are absent become their defaults.
    case replace
    /// A row is deleted; also an update that sets `deleted`.
    case delete
    /// A deleted row comes back.
    case undelete
}

/// A write that is about to be done.
public struct TableChange: Sendable {
    /// The operation of the write.
    public let operation: TableOperation
    /// The table.
    public let table: String
    /// The row's id.
    public let id: String
    /// The user who sent it; nil for a caller without a token.
    public let user: User?
    /// The name of the request in the log.
    public let requestID: String
    /// The columns that the request gives; a member that is taken out is as if it had not been sent.
    public var values: Row
    let reader: StoredRowReader

    /// The row as the caller may see it, deleted or not; nil when there is none.
    ///
    /// If a hook calls this method, the row is guaranteed to be unchanged when the write is done: otherwise
    /// the hook runs again, with the row as it is then.
    public func stored() async throws -> Row? { try await reader.row() }
}

/// A write that was committed.
public struct TableEvent: Sendable {
    /// The operation that was done.
    public let operation: TableOperation
    /// The table.
    public let table: String
    /// The row's id.
    public let id: String
    /// The user who sent it; nil for a caller without a token.
    public let user: User?
    /// The name of the request in the log.
    public let requestID: String
    /// The row as it was committed; nil when it was removed for good.
    public let row: Row?
}

/// A read of a list or of one row.
public struct TableRead: Sendable {
    /// The table.
    public let table: String
    /// The row's id; nil for a list.
    public let id: String?
    /// The user who asks; nil for a caller without a token.
    public let user: User?
    /// The name of the request in the log.
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
    /// The name of the request in the log.
    public let requestID: String
    /// The operation of the write.
    public let operation: TableOperation
    /// Whether the write deletes the row.
    public var isDelete: Bool { operation == .delete }
    /// The stored row with the columns of the write put in.
    public let mine: Row
    /// The stored row.
    public let theirs: Row
}

/// The resolution of a write whose version is not the stored one.
public enum ConflictAnswer: Sendable {
    /// It is done as if it had carried the stored version.
    case mine
    /// The columns of this row are written instead.
    case write(Row)
    /// It is dropped; the caller gets the stored row as if it had been written.
    case keep
    /// The policy of the table decides.
    case refuse
}

/// An error that a hook or an endpoint throws to reject a request.
///
/// ```swift
/// throw Refusal(422, "A team has at most ten members.")
/// ```
public struct Refusal: Error, Hashable, Sendable {
    /// The status of the answer: 400 to 499, but for 401, 409 and 412.
    public var status: Int
    /// The text for the caller, without contents of rows.
    public var message: String

    /// Says no with a status and a reason.
    public init(_ status: Int, _ message: String) {
        self.status = status
        self.message = message
    }

    /// Nil for a status that means something else to clients.
    var answer: ServerError? {
        guard (400...499).contains(status), ![401, 409, 412].contains(status) else { return nil }
        return ServerError(status, message)
    }
}
