// PushResult, PushError: how a push ended.

public import Foundation
import TidelineCore

/// The result of a push that emptied the queue.
public struct PushResult: Sendable, Hashable {
    /// How many operations the server accepted.
    public var completed: Int

    /// Makes a result for a test of an app.
    public init(completed: Int = 0) { self.completed = completed }
}

/// The error of a push that left operations in the queue.
///
/// Nothing is lost: accepted operations stay accepted, and all others are in the queue.
///
/// ```swift
/// do {
///     try await client.syncContext.push()
/// } catch let error as PushError where error.status == .networkFailure {
///     print("Offline: what waits is sent later.")
/// }
/// ```
public struct PushError: LocalizedError, Sendable, CustomStringConvertible {
    /// Why a push ended.
    public struct Status: Sendable, Hashable, CustomStringConvertible {
        enum Kind: String, Sendable {
            case networkFailure
            case unauthorized
            case storeFailure
            case cancelled
            case operationErrors
        }
        let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The server was not reached, did not respond in time, or responded with 408, 429 or 5xx, or
        /// something else responded; `cause` says which.
        public static let networkFailure = Self(.networkFailure)
        /// The server asks for a sign-in (401).
        public static let unauthorized = Self(.unauthorized)
        /// The store on the device failed.
        public static let storeFailure = Self(.storeFailure)
        /// The task was cancelled.
        public static let cancelled = Self(.cancelled)
        /// The server rejected operations, or some cannot be sent; they wait for the app and are
        /// in `errors`.
        public static let operationErrors = Self(.operationErrors)

        /// The name of the status.
        public var description: String { kind.rawValue }
    }

    /// Why the push ended.
    public var status: Status
    /// The operations that wait for the app, those of earlier pushes too, in the order of the queue.
    public var errors: [TableOperationError]
    /// How many operations the server accepted before.
    public var completed: Int
    /// The underlying error, if there is one.
    public var cause: (any Error)?
    /// The rows whose operations were not accepted and are sent again: the server failed to process them,
    /// or something between client and server rejected them.
    public internal(set) var failingRows: [FailingRow] = []
    /// The end of the wait that the server asked for (`Retry-After`); nil if it asked for none.
    ///
    /// A push before that time sends nothing and ends with `networkFailure`.
    public internal(set) var busyUntil: Date?

    /// Makes an error for a test of an app.
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
    ///
    /// The row that is named first is one that the server rejected, not one that only shares its transaction.
    public var description: String {
        switch status.kind {
        case .operationErrors:
            "\(whatWaits). Settle each with one of its actions: " + firstMessages
        case .unauthorized:
            (cause as? SyncError)?.message ?? "The server wants a sign-in. Sign in and push again."
        case .cancelled:
            (cause as? SyncError)?.message ?? "The push was cancelled. Push again to go on."
        case .storeFailure: (cause as? SyncError)?.message ?? "The store on the device failed."
        case .networkFailure: "\(reason) Nothing is lost; push again later."
        }
    }

    /// The description, as `localizedDescription` shows it.
    public var errorDescription: String? { description }

    private var whatWaits: String {
        switch errors.count(where: { $0.statusCode != nil }) {
        case 0: "\(errors.count) operation(s) cannot be sent"
        case errors.count: "The server rejected \(errors.count) operation(s)"
        case let rejected:
            "The server rejected \(rejected) operation(s), \(errors.count - rejected) cannot be sent"
        }
    }

    /// The first messages only, because a queue of a hundred thousand operations must not fill a log.
    private var firstMessages: String {
        let shown = errors.rejectedFirst.prefix(Self.messagesMax).map {
            String($0.message.prefix(300))
        }
        let rest = errors.count - shown.count
        let more = rest > 0 ? " And \(rest) more: see 'errors'." : ""
        return shown.joined(separator: " ") + more
    }

    private static var messagesMax: Int { 3 }

    /// The reason that the network, or the server's response, gives.
    private var reason: String {
        switch cause {
        case let error as SyncError: error.message
        case let error as TransportError: "The server could not be reached: \(error.message)"
        default: "The server could not be reached."
        }
    }
}

/// A row whose operation is not accepted, while other work continues: the server responds with 5xx, or a
/// firewall or proxy rejects its contents.
///
/// The operation stays in the queue and is sent again. If it is the server that fails, the operation is
/// parked after ``SyncLimits/failedPushesMax`` pushes, with a ``TableOperationError``.
public struct FailingRow: Sendable, Hashable {
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The status of the last response.
    public var statusCode: Int

    /// Makes a row for a test of an app.
    public init(table: String, itemID: String, statusCode: Int) {
        self.table = table
        self.itemID = itemID
        self.statusCode = statusCode
    }
}

extension [TableOperationError] {
    /// The same errors; those of operations that only share a transaction with a rejected one come last.
    var rejectedFirst: [TableOperationError] {
        filter { !$0.isOfGroup } + filter(\.isOfGroup)
    }
}

extension TableOperationError {
    /// Whether the operation was not executed only because another one of its transaction was rejected (424).
    fileprivate var isOfGroup: Bool { statusCode == 424 && groupID != nil }
}

extension SyncError {
    /// The reason why a sync was not completed; nil if it was, apart from rejected operations.
    init?(endOfSync error: any Error) {
        switch error {
        case let error as SyncError: self = error
        case let error as TransportError: self = .offline(error)
        case let error as PushError:
            switch (error.status, error.cause) {
            case (.operationErrors, _): return nil
            case (_, let cause as SyncError): self = cause
            case (_, let cause as TransportError): self = .offline(cause)
            case (.unauthorized, _): self = SyncError(.unauthorized, error.description)
            case (.storeFailure, _): self = SyncError(.storeFailure, error.description)
            case (.cancelled, _): self = SyncError(.cancelled, error.description)
            default: self = SyncError(.offline, error.description)
            }
        case let error as CancellationError: self = .cancelled("sync", error)
        default: self = .storeFailure(error)
        }
    }
}
