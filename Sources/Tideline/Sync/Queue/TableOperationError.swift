// TableOperationError: an operation that waits for the app, and what that can do about it.

public import Foundation
public import TidelineCore

/// An operation that the server rejected, or that cannot be sent: its entry is damaged, its row is
/// gone, or the app does not name its table.
///
/// It is durable: after a restart ``SyncContext/operationErrors()`` returns it again, and its
/// actions still work. One of them, or a new edit of the row, releases the operation.
///
/// ```swift
/// for error in try await client.syncContext.operationErrors() {
///     let mine = try error.item?.decode(TodoItem.self)
///     let theirs = try error.serverItem?.decode(TodoItem.self)
///     print(error.message, mine?.text ?? "", theirs?.text ?? "", error.differingColumns)
/// }
/// ```
public struct TableOperationError: LocalizedError, Sendable, Identifiable, CustomStringConvertible {
    /// The id of the error.
    public var id: String
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// What the operation does.
    public var kind: OperationKind
    /// The status of the answer.
    public var statusCode: Int?
    /// What kind of refusal it was, as the same answer is told of a pull or a ``RemoteTable``; nil
    /// where no answer refused it.
    public var code: SyncError.Code? { statusCode.map(SyncError.Code.init(answer:)) }
    /// The local row; nil for a delete.
    public var item: Row?
    /// The server's row; nil when the answer had none or the row is deleted there.
    public var serverItem: Row?
    /// The server's row that the local change began at; nil for an insert, and where that state is
    /// not kept.
    public var base: Row?
    /// The columns in which ``item`` and ``serverItem`` differ; none where either is missing.
    public var differingColumns: [String] {
        guard let item, let serverItem else { return [] }
        return RowMerge.differing(item, serverItem)
    }
    /// What happened and what can be done; never the contents of a row.
    public var message: String
    /// What the server is known to have of the row.
    ///
    /// It is what ``cancelOperationAndDiscardItem()`` would leave. With `neverSeen` the local row
    /// may be the only copy.
    public var serverCopy: ServerCopy
    /// Whether ``updateOperationAndRetry(with:)-(Row)`` can work: not where the entry of the operation
    /// is damaged, nor where the app does not name its table.
    public var canRetry: Bool

    /// The transaction that the operation was made in, as ``PendingOperation/groupID``.
    ///
    /// When the server refuses one operation of a transaction, all of it waits, each row with an error
    /// of its own; a retry or an edit of one of the rows sends all of them again.
    public var groupID: String?

    /// What is known of a row on the server.
    public enum ServerCopy: Sendable, Hashable {
        /// The server had this row when it was last seen.
        case row(Row)
        /// The row is deleted on the server.
        case deleted
        /// The server never showed the row.
        case neverSeen
    }

    var operationID: Int64
    /// Nil for an error of a test, which has no operation.
    let engine: SyncEngine?

    /// An error, for a test of an app.
    ///
    /// It belongs to no client: its actions throw ``SyncError`` with code `notFound`, as those of an
    /// error that is settled do.
    ///
    /// ```swift
    /// let conflict = TableOperationError(
    ///     table: "TodoItem",
    ///     itemID: "1",
    ///     kind: .update,
    ///     statusCode: 412,
    ///     message: "Somebody else changed it.",
    ///     item: try Row(TodoItem(id: "1", text: "Buy soy milk")),
    ///     serverItem: try Row(TodoItem(id: "1", text: "Buy oat milk"))
    /// )
    /// let error = PushError(status: .operationErrors, errors: [conflict])
    /// ```
    ///
    /// - Parameters:
    ///   - id: The id of the error; nil for one made of table and row.
    ///   - table: The table's name.
    ///   - itemID: The row's id.
    ///   - kind: What the operation does.
    ///   - statusCode: The status of the answer; nil where none refused it.
    ///   - message: What happened.
    ///   - item: The local row.
    ///   - serverItem: The server's row.
    ///   - base: The row that the local change began at.
    ///   - serverCopy: What the server is known to have; nil for `serverItem`.
    ///   - canRetry: Whether it could be sent again.
    ///   - groupID: The transaction that it was made in.
    public init(
        id: String? = nil,
        table: String,
        itemID: String,
        kind: OperationKind,
        statusCode: Int? = nil,
        message: String = "",
        item: Row? = nil,
        serverItem: Row? = nil,
        base: Row? = nil,
        serverCopy: ServerCopy? = nil,
        canRetry: Bool = true,
        groupID: String? = nil
    ) {
        self.id = id ?? "\(table)/\(itemID)"
        (self.table, self.itemID, self.kind) = (table, itemID, kind)
        (self.statusCode, self.message) = (statusCode, message)
        (self.item, self.serverItem, self.base) = (item, serverItem, base)
        self.serverCopy = serverCopy ?? serverItem.map(ServerCopy.row) ?? .neverSeen
        (self.canRetry, self.groupID) = (canRetry, groupID)
        (operationID, engine) = (0, nil)
    }

    private func client() throws -> SyncEngine {
        guard let engine else { throw SyncError.errorSettled() }
        return engine
    }

    /// The message.
    public var description: String { message }

    /// The message, as `localizedDescription` shows it.
    public var errorDescription: String? { message }

    /// Drops the operation and puts the last known server row back, or deletes the row where there
    /// is none; ``serverCopy`` says which.
    ///
    /// Where the entry of the operation is damaged, or the app does not name its table, only the
    /// operation goes: the row stays until the next pull, which reads the table anew.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already, or
    ///   `otherAccount`; nothing is changed then.
    public func cancelOperationAndDiscardItem() async throws {
        try await client().discard(self)
    }

    /// Drops the operation; the local row becomes `item`.
    ///
    /// Nothing is queued: use it with what the server has. Columns that `item` does not have become what
    /// the server is known to have, and stay as they are where it has no row, or never showed one.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already,
    ///   `rowDoesNotFit` or `otherAccount`; nothing is changed then.
    public func cancelOperationAndUpdateItem(_ item: Row) async throws {
        try await client().cancel(self, item)
    }

    /// Drops the operation; the local row becomes `item`.
    ///
    /// Nothing is queued: use it with what the server has. Columns that `item` does not have become what
    /// the server is known to have, and stay as they are where it has no row, or never showed one.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already,
    ///   `rowDoesNotFit` or `otherAccount`; nothing is changed then.
    public func cancelOperationAndUpdateItem<Record: SyncRecord>(_ item: Record) async throws {
        try await client().cancel(self, Row(item))
    }

    /// Sends the operation again with the next push, unchanged, and with it what was parked in the same
    /// transaction.
    ///
    /// Use it if the server rejected the operation for a reason that has passed: a table or a column
    /// Use it if the server rejected the operation for a reason that has passed. Operations that
    /// it rejected for a missing table, column or right are also sent again without this call, when that changes.
    /// A conflict comes back as it was.
    ///
    /// ```swift
    /// for error in try await client.syncContext.operationErrors() where error.statusCode == 403 {
    ///     try await error.retry()
    /// }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is resolved already, `otherAccount`,
    ///   and if ``canRetry`` is false; nothing is changed then.
    public func retry() async throws { try await client().retry(self) }

    /// The local row becomes `item`, and the operation is sent with the next push, based on the
    /// server's row as last seen.
    ///
    /// A delete stays a delete: then `item` is not stored. Columns that `item` does not have stay as this
    /// device has changed them, else as the server has them.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already,
    ///   `rowDoesNotFit`, `otherAccount`, and where ``canRetry`` is false; nothing is changed then.
    public func updateOperationAndRetry(with item: Row) async throws {
        try await client().retry(self, item)
    }

    /// The local row becomes `item`, and the operation is sent with the next push, based on the
    /// server's row as last seen.
    ///
    /// A delete stays a delete: then `item` is not stored. A record has every column of its type: begin
    /// with the server's row, or what others changed there is taken back. Columns that the type does not
    /// have stay as this device has changed them, else as the server has them.
    ///
    /// ```swift
    /// for error in try await client.syncContext.operationErrors() where error.canRetry {
    ///     let row = error.serverItem ?? error.item
    ///     guard var item = try row?.decode(TodoItem.self) else { continue }
    ///     item.rank = 0
    ///     try await error.updateOperationAndRetry(with: item)
    /// }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already,
    ///   `rowDoesNotFit`, `otherAccount`, and where ``canRetry`` is false; nothing is changed then.
    public func updateOperationAndRetry<Record: SyncRecord>(with item: Record) async throws {
        try await client().retry(self, Row(item))
    }
}
