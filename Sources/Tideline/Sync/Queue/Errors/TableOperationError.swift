// TableOperationError: an operation that waits for the app, with the actions that the app can take.

public import Foundation
public import TidelineCore

/// An operation that the server rejected, or that cannot be sent.
///
/// An operation cannot be sent if it cannot be decoded, if its row is not in the store, or if the
/// app does not declare its table.
///
/// The error is stored. After a restart, ``SyncContext/operationErrors()`` returns it again, and
/// its actions still work. An action, or a new edit of the row, releases the operation.
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
    /// The kind of the operation.
    public var kind: OperationKind
    /// The status of the response; nil if no response rejected the operation.
    public var statusCode: Int?
    /// The kind of rejection, as the code that a pull would report for the status; nil if no
    /// response rejected the operation.
    ///
    /// The code does not distinguish broken rules and references from other rejections; for these,
    /// see ``brokenRule`` and ``brokenReference``.
    public var code: SyncError.Code? { statusCode.map(SyncError.Code.init(answer:)) }
    /// The local row; nil for a delete.
    public var item: Row?
    /// The server's row; nil if the response did not contain it, or if the row is deleted on the
    /// server.
    ///
    /// Columns that stay on the device have the values of this device.
    public var serverItem: Row?
    /// The base row of the local change; nil for an insert, or if it is not stored.
    public var base: Row?
    /// The columns in which ``item`` and ``serverItem`` differ; empty if either is missing.
    public var differingColumns: [String] {
        guard let item, let serverItem else { return [] }
        return RowMerge.differing(item, serverItem).filter { !localColumns.contains($0) }
    }
    /// The cause and the possible actions; never the contents of a row.
    public var message: String
    /// The server's rule that the row breaks; nil if there is another reason.
    ///
    /// The device checks the rules of its model before it queues an operation. Therefore this is
    /// usually `notUnique`, or a rule that the model does not have.
    public internal(set) var brokenRule: BrokenRule?
    /// The newest known state of the row on the server.
    ///
    /// ``cancelOperationAndDiscardItem()`` restores this state. If it is `neverSeen`, the local row
    /// may be the only copy.
    public var serverCopy: ServerCopy
    /// Whether ``updateOperationAndRetry(with:)-(Row)`` can be used.
    ///
    /// The property is false if the operation cannot be decoded, or if the app does not declare its
    /// table.
    public var canRetry: Bool

    /// The transaction of the operation, as in ``PendingOperation/groupID``.
    ///
    /// If the server rejects one operation of a transaction, all of them are parked, each with its
    /// own error. If one of them is retried, or one of their rows is edited, all of them are
    /// resent.
    public var groupID: String?

    /// Whether the operation was not executed only because another operation of its transaction was
    /// rejected.
    ///
    /// The error of the other operation has the reason, and the actions that resolve it. That error
    /// has a ``statusCode`` other than 424.
    ///
    /// ```swift
    /// let errors = try await client.syncContext.operationErrors().filter { !$0.isConsequence }
    /// ```
    public var isConsequence: Bool { statusCode == 424 && groupID != nil }

    /// The reference because of which the server rejected the operation; nil if there is another
    /// reason.
    ///
    /// If a parent is missing, use ``restoreParent()``, ``moveToParent(_:)`` or
    /// ``cancelOperationAndDiscardItem()`` to resolve the error. If a row cannot be deleted because
    /// other rows refer to it, use ``retry()`` or ``cancelOperationAndDiscardItem()``.
    public internal(set) var brokenReference: BrokenReference?

    /// The known state of a row on the server.
    public enum ServerCopy: Sendable, Hashable {
        /// The row exists on the server; the value is its last known state.
        case row(Row)
        /// The row is deleted on the server.
        case deleted
        /// The client has never seen the row on the server.
        case neverSeen
    }

    /// The columns that stay on the device.
    var localColumns: Set<String> = []
    var operationID: Int64
    /// The engine; nil for an error that a test created.
    let engine: SyncEngine?

    /// Creates an error, for an app's tests.
    ///
    /// The error does not belong to a client. Its actions throw ``SyncError`` with code `notFound`,
    /// like those of an error that is already resolved.
    ///
    /// ```swift
    /// let conflict = TableOperationError(
    ///     table: "TodoItem",
    ///     itemID: "1",
    ///     kind: .update,
    ///     statusCode: 412,
    ///     message: "Another device changed it.",
    ///     item: try Row(TodoItem(id: "1", text: "Buy soy milk")),
    ///     serverItem: try Row(TodoItem(id: "1", text: "Buy oat milk"))
    /// )
    /// let error = PushError(status: .operationErrors, errors: [conflict])
    /// ```
    ///
    /// - Parameters:
    ///   - id: The id of the error; if nil, the id is made from the table and the row's id.
    ///   - table: The table's name.
    ///   - itemID: The row's id.
    ///   - kind: The kind of the operation.
    ///   - statusCode: The status of the response; nil if no response rejected the operation.
    ///   - message: The message of the error.
    ///   - item: The local row.
    ///   - serverItem: The server's row.
    ///   - base: The base row of the local change.
    ///   - serverCopy: The newest known state of the row on the server; if nil, `serverItem`.
    ///   - canRetry: Whether the operation can be sent again.
    ///   - groupID: The transaction of the operation.
    ///   - brokenRule: The rule that the row breaks.
    ///   - brokenReference: The reference because of which the server rejected the operation.
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
        groupID: String? = nil,
        brokenRule: BrokenRule? = nil,
        brokenReference: BrokenReference? = nil
    ) {
        self.id = id ?? "\(table)/\(itemID)"
        (self.table, self.itemID, self.kind) = (table, itemID, kind)
        (self.statusCode, self.message) = (statusCode, message)
        (self.item, self.serverItem, self.base) = (item, serverItem, base)
        self.serverCopy = serverCopy ?? serverItem.map(ServerCopy.row) ?? .neverSeen
        (self.canRetry, self.groupID) = (canRetry, groupID)
        self.brokenRule = brokenRule
        self.brokenReference = brokenReference
        (operationID, engine) = (0, nil)
    }

    func errors() throws -> OperationErrors {
        guard let engine else { throw SyncError.errorResolved() }
        return engine.operationErrors
    }

    /// The message.
    public var description: String { message }

    /// The message, which is also the value of `localizedDescription`.
    public var errorDescription: String? { message }

    /// Discards the operation, and restores the newest known server row, or deletes the row if the
    /// server has none.
    ///
    /// To find out which of these will happen, see ``serverCopy``.
    ///
    /// If a restored server may have lost the state that the operation was based on, the row gets
    /// that state instead. If the server has an older state, the row becomes a lost row
    /// (``SyncContext/lostRows()``). If the server has no row, the next pull finds out whether the
    /// row is lost.
    ///
    /// If the server rejected a delete because other rows refer to the row, the related rows that
    /// were deleted in the same transaction also come back, and references that became null get
    /// their former values.
    ///
    /// If the operation cannot be decoded, or if the app does not declare its table, only the
    /// operation is removed. The row is kept until the next pull, which reloads the table.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved, or with code
    ///   `otherAccount`. If an error is thrown, nothing is changed.
    public func cancelOperationAndDiscardItem() async throws {
        try await errors().discard(self)
    }

    /// Discards the operation, and replaces the local row with `item`.
    ///
    /// Nothing is queued, so `item` should be the server's row. Columns that `item` does not have
    /// get the values of the newest known server row; if there is no such row, they are not
    /// changed. Columns that stay on the device change only if `item` has them.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved,
    ///   `rowDoesNotFit` or `otherAccount`. If an error is thrown, nothing is changed.
    public func cancelOperationAndUpdateItem(_ item: Row) async throws {
        try await errors().cancel(self, item)
    }

    /// Discards the operation, and replaces the local row with `item`.
    ///
    /// Nothing is queued, so `item` should be the server's row. Columns that `item` does not have
    /// get the values of the newest known server row; if there is no such row, they are not
    /// changed. Columns that stay on the device change only if `item` has them.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved,
    ///   `rowDoesNotFit` or `otherAccount`. If an error is thrown, nothing is changed.
    public func cancelOperationAndUpdateItem<Record: SyncRecord>(_ item: Record) async throws {
        try await errors().cancel(self, Row(item))
    }

    /// Resends the unchanged operation with the next push, together with the other parked
    /// operations of its transaction.
    ///
    /// Use this method if the reason for the rejection no longer exists. If the server rejected the
    /// operation because of a missing table, column or right, it is also resent without this call
    /// when that has changed. A conflict that was not resolved is rejected again.
    ///
    /// ```swift
    /// for error in try await client.syncContext.operationErrors() where error.statusCode == 403 {
    ///     try await error.retry()
    /// }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved, with code
    ///   `otherAccount`, or if ``canRetry`` is false. If an error is thrown, nothing is changed.
    public func retry() async throws { try await errors().retry(self) }

    /// Replaces the local row with `item`, and sends the operation with the next push, based on the
    /// newest known server row.
    ///
    /// A delete remains a delete, and `item` is not stored. Columns that `item` does not have keep
    /// this device's change, or get the server's values if the device did not change them. Columns
    /// that stay on the device change only if `item` has them.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved, with code
    ///   `rowDoesNotFit`, `ruleBroken` or `otherAccount`, or if ``canRetry`` is false. If an error
    ///   is thrown, nothing is changed.
    public func updateOperationAndRetry(with item: Row) async throws {
        try await errors().retry(self, item)
    }

    /// Sends this device's changes with the next push, on top of the newest known server row.
    ///
    /// Columns that this device has not changed get the server's values. If the change was made to
    /// an older record, all columns of the record count as changed. If the row is deleted on the
    /// server, it is restored. A delete remains a delete.
    ///
    /// ```swift
    /// for error in try await client.syncContext.operationErrors() where error.serverCopy != .neverSeen {
    ///     try await error.keepMine()
    /// }
    /// ```
    ///
    /// - Throws: The errors of ``updateOperationAndRetry(with:)-(Row)``.
    public func keepMine() async throws {
        try await errors().keepMine(self)
    }

    /// Replaces the local row with `item`, and sends the operation with the next push, based on the
    /// newest known server row.
    ///
    /// A delete remains a delete, and `item` is not stored. A record has every column of its type,
    /// so start with the server's row; otherwise changes of other writers are reverted. Columns
    /// that the type does not have keep this device's change, or get the server's values if the
    /// device did not change them.
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
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved, with code
    ///   `rowDoesNotFit`, `ruleBroken` or `otherAccount`, or if ``canRetry`` is false. If an error
    ///   is thrown, nothing is changed.
    public func updateOperationAndRetry<Record: SyncRecord>(with item: Record) async throws {
        try await errors().retry(self, Row(item))
    }
}
