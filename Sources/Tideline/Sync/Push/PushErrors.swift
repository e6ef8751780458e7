// PushResult, PushError, TableOperationError: how a push ended, and what the app can do about it.

import Foundation
public import TidelineCore

/// A push that emptied the queue.
public struct PushResult: Sendable, Hashable {
    /// How many operations the server accepted.
    public var completed: Int

    /// A result, for a test of an app.
    public init(completed: Int = 0) { self.completed = completed }
}

/// A push that left something behind.
///
/// Nothing is lost: what was accepted is accepted, everything else is in the queue.
///
/// ```swift
/// do {
///     try await client.syncContext.push()
/// } catch let error as PushError where error.status == .networkFailure {
///     print("Offline: what waits is sent later.")
/// }
/// ```
public struct PushError: Error, Sendable, CustomStringConvertible {
    /// Why a push ended.
    public struct Status: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String, Sendable {
            case networkFailure
            case unauthorized
            case storeFailure
            case cancelled
            case operationErrors
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The server was not reached, or did not answer in time, or answered 408, 429 or 5xx, or
        /// something else answered; `cause` says which.
        public static let networkFailure = Self(.networkFailure)
        /// The server wants a sign-in (401).
        public static let unauthorized = Self(.unauthorized)
        /// The store on the device failed.
        public static let storeFailure = Self(.storeFailure)
        /// The task was cancelled.
        public static let cancelled = Self(.cancelled)
        /// The server rejected operations, or some cannot be sent; they wait for the app and stand
        /// in `errors`.
        public static let operationErrors = Self(.operationErrors)

        /// The name of the status.
        public var description: String { kind.rawValue }
    }

    /// Why the push ended.
    public var status: Status
    /// The operations that wait for the app, those of earlier pushes too.
    public var errors: [TableOperationError]
    /// How many operations the server accepted before.
    public var completed: Int
    /// What went wrong below, where there is more to know.
    public var cause: (any Error)?

    /// An error, for a test of an app.
    public init(
        status: Status,
        errors: [TableOperationError] = [],
        completed: Int = 0,
        cause: (any Error)? = nil
    ) {
        self.status = status
        self.errors = errors
        self.completed = completed
        self.cause = cause
    }

    /// The status, the number of errors, and the remedy.
    public var description: String {
        switch status {
        case .operationErrors:
            "\(whatWaits). Settle each with one of its actions: " + firstMessages
        case .unauthorized:
            (cause as? SyncError)?.message ?? "The server wants a sign-in. Sign in and push again."
        case .cancelled: "The push was cancelled. Push again to go on."
        case .storeFailure: (cause as? SyncError)?.message ?? "The store on the device failed."
        default: "\(reason) Nothing is lost; push again later."
        }
    }

    private var whatWaits: String {
        switch errors.count(where: { $0.statusCode != nil }) {
        case 0: "\(errors.count) operation(s) cannot be sent"
        case errors.count: "The server rejected \(errors.count) operation(s)"
        case let rejected:
            "The server rejected \(rejected) operation(s), \(errors.count - rejected) cannot be sent"
        }
    }

    /// The first messages, cut: a queue of a hundred thousand must not fill a log.
    private var firstMessages: String {
        let shown = errors.prefix(Self.messagesMax).map { String($0.message.prefix(300)) }
        let rest = errors.count - shown.count
        let more = rest > 0 ? " And \(rest) more: see 'errors'." : ""
        return shown.joined(separator: " ") + more
    }

    private static var messagesMax: Int { 3 }

    /// What the network said, or the server where one answered.
    private var reason: String {
        switch cause {
        case let error as SyncError: error.message
        case let error as TransportError: "The server could not be reached: \(error.message)"
        default: "The server could not be reached."
        }
    }
}

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
public struct TableOperationError: Error, Sendable, Identifiable, CustomStringConvertible {
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
    let engine: SyncEngine

    /// The message.
    public var description: String { message }

    /// Drops the operation and puts the last known server row back, or deletes the row where there
    /// is none; ``serverCopy`` says which.
    ///
    /// Where the entry of the operation is damaged, or the app does not name its table, only the
    /// operation goes: the row stays until the next pull, which reads the table anew.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already, or
    ///   `otherAccount`; nothing is changed then.
    public func cancelOperationAndDiscardItem() async throws {
        try await engine.discard(self)
    }

    /// Drops the operation; the local row becomes `item`.
    ///
    /// Nothing is queued: use it with what the server has.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already, or
    ///   `otherAccount`; nothing is changed then.
    public func cancelOperationAndUpdateItem(_ item: Row) async throws {
        try await engine.cancel(self, item)
    }

    /// Drops the operation; the local row becomes `item`.
    ///
    /// Nothing is queued: use it with what the server has.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already, or
    ///   `otherAccount`; nothing is changed then.
    public func cancelOperationAndUpdateItem<Record: SyncRecord>(_ item: Record) async throws {
        try await engine.cancel(self, Row(item))
    }

    /// The local row becomes `item`, and the operation is sent with the next push, based on the
    /// server's row as last seen.
    ///
    /// A delete stays a delete: then `item` is not stored. Columns that `item` does not have stay as the
    /// server has them; those that it has replace the server's.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the error is settled already,
    ///   `rowDoesNotFit`, `otherAccount`, and where ``canRetry`` is false; nothing is changed then.
    public func updateOperationAndRetry(with item: Row) async throws {
        try await engine.retry(self, item)
    }

    /// The local row becomes `item`, and the operation is sent with the next push, based on the
    /// server's row as last seen.
    ///
    /// A delete stays a delete: then `item` is not stored. A record has every column: begin with the
    /// server's row, or what others changed there is taken back.
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
        try await engine.retry(self, Row(item))
    }
}
