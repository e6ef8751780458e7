// PushResult, PushError: the result of a push.

public import Foundation
import TidelineCore

/// The result of a push that emptied the queue.
public struct PushResult: Sendable, Hashable {
    /// The number of operations that the server accepted.
    public var completed: Int

    /// Creates a result, for an app's tests.
    public init(completed: Int = 0) { self.completed = completed }
}

/// The error of a push that left operations in the queue.
///
/// No change is lost: operations that the server accepted are complete, and all others are still in
/// the queue.
///
/// ```swift
/// do {
///     try await client.syncContext.push()
/// } catch let error as PushError where error.status == .networkFailure {
///     print("Offline: pending changes are sent later.")
/// }
/// ```
public struct PushError: LocalizedError, Sendable, CustomStringConvertible {
    /// The reason why a push ended.
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

        /// The server was not reached, did not respond in time, or responded with 408, 429 or 5xx.
        ///
        /// The status is also used if something other than the server responded; `cause` has the
        /// details.
        public static let networkFailure = Self(.networkFailure)
        /// The user has to sign in (401).
        public static let unauthorized = Self(.unauthorized)
        /// The store on the device failed.
        public static let storeFailure = Self(.storeFailure)
        /// The task was cancelled.
        public static let cancelled = Self(.cancelled)
        /// The server rejected operations, or some cannot be sent; `errors` has these operations,
        /// which wait for the app.
        public static let operationErrors = Self(.operationErrors)

        /// The name of the status.
        public var description: String { kind.rawValue }
    }

    /// The reason why the push ended.
    public var status: Status
    /// The operations that wait for the app, in the order of the queue, including operations of
    /// earlier pushes.
    public var errors: [TableOperationError]
    /// The number of operations that the server accepted before the push ended.
    public var completed: Int
    /// The underlying error, if there is one.
    public var cause: (any Error)?
    /// The rows whose operations were not accepted and will be resent.
    ///
    /// The server failed to process these operations, or a proxy or firewall rejected them.
    public internal(set) var failingRows: [FailingRow] = []
    /// The end of the wait that the server asked for (`Retry-After`); nil if it did not ask for a
    /// wait.
    ///
    /// A push before that time sends nothing and ends with `networkFailure`.
    public internal(set) var busyUntil: Date?

    /// Creates an error, for an app's tests.
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

    /// The status, the number of errors, and the recommended action.
    ///
    /// The message names a row that the server rejected first, before rows that only share its
    /// transaction.
    public var description: String {
        switch status.kind {
        case .operationErrors:
            "\(whatWaits). Resolve each with one of its actions: " + firstMessages
        case .unauthorized:
            (cause as? SyncError)?.message
                ?? "The server requires authentication. Sign in and push again."
        case .cancelled:
            (cause as? SyncError)?.message ?? "The push was cancelled. Push again to continue."
        case .storeFailure: (cause as? SyncError)?.message ?? "The store on the device failed."
        case .networkFailure: "\(reason) Nothing is lost. Push again later."
        }
    }

    /// The description, which is also the value of `localizedDescription`.
    public var errorDescription: String? { description }

    private var whatWaits: String {
        switch errors.count(where: { $0.statusCode != nil }) {
        case 0: "\(errors.count) operation(s) cannot be sent"
        case errors.count: "The server rejected \(errors.count) operation(s)"
        case let rejected:
            "The server rejected \(rejected) operation(s), \(errors.count - rejected) cannot be sent"
        }
    }

    /// The first few messages, because an error with a hundred thousand operations must not fill a
    /// log.
    private var firstMessages: String {
        let shown = errors.rejectedFirst.prefix(Self.messagesMax).map {
            String($0.message.prefix(300))
        }
        let rest = errors.count - shown.count
        let more = rest > 0 ? " And \(rest) more: see 'errors'." : ""
        return shown.joined(separator: " ") + more
    }

    private static var messagesMax: Int { 3 }

    /// The reason, taken from the network error or the server's response.
    private var reason: String {
        switch cause {
        case let error as SyncError: error.message
        case let error as TransportError: "The server could not be reached: \(error.message)"
        default: "The server could not be reached."
        }
    }
}

/// A row whose operation is not accepted although other operations are.
///
/// The server responds with 5xx, or a firewall or proxy rejects the contents.
///
/// The operation stays in the queue and is resent. If the server fails to process it in
/// ``SyncLimits/failedPushesMax`` pushes, the operation is parked with a ``TableOperationError``.
public struct FailingRow: Sendable, Hashable {
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The status of the last response.
    public var statusCode: Int

    /// Creates a row, for an app's tests.
    public init(table: String, itemID: String, statusCode: Int) {
        self.table = table
        self.itemID = itemID
        self.statusCode = statusCode
    }
}

extension [TableOperationError] {
    /// The same errors, with operations that only share a transaction with a rejected one at the
    /// end.
    var rejectedFirst: [TableOperationError] {
        filter { !$0.isConsequence } + filter(\.isConsequence)
    }
}

extension SyncError {
    /// Creates the reason why a sync was not completed; nil if only rejected operations are left.
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
