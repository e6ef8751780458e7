// PushResult, PushError: how a push ended.

public import Foundation
import TidelineCore

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
public struct PushError: LocalizedError, Sendable, CustomStringConvertible {
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
    /// The operations that wait for the app, those of earlier pushes too, in the order of the queue.
    public var errors: [TableOperationError]
    /// How many operations the server accepted before.
    public var completed: Int
    /// What went wrong below, where there is more to know.
    public var cause: (any Error)?
    /// The rows whose operations were not accepted and are sent again: the server failed to process them,
    /// or something between client and server refused them.
    public internal(set) var failingRows: [FailingRow] = []
    /// Until when the server asked to be sent no requests (`Retry-After`); nil if it did not.
    ///
    /// A push before that time sends nothing and ends with `networkFailure`.
    public internal(set) var busyUntil: Date?

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
    ///
    /// The row that is named first is one that the server rejected, not one that only shares its transaction.
    public var description: String {
        switch status {
        case .operationErrors:
            "\(whatWaits). Settle each with one of its actions: " + firstMessages
        case .unauthorized:
            (cause as? SyncError)?.message ?? "The server wants a sign-in. Sign in and push again."
        case .cancelled:
            (cause as? SyncError)?.message ?? "The push was cancelled. Push again to go on."
        case .storeFailure: (cause as? SyncError)?.message ?? "The store on the device failed."
        default: "\(reason) Nothing is lost; push again later."
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

    /// The first messages, cut: a queue of a hundred thousand must not fill a log.
    private var firstMessages: String {
        let shown = errors.rejectedFirst.prefix(Self.messagesMax).map {
            String($0.message.prefix(300))
        }
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

/// A row whose operation is not accepted, while other work goes on: the server answers with 5xx, or a
/// firewall or proxy refuses its contents.
///
/// The operation stays in the queue and is sent again. If it is the server that fails, the operation is
/// parked after ``SyncLimits/failedPushesMax`` pushes, with a ``TableOperationError``.
public struct FailingRow: Sendable, Hashable {
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The status of the last answer.
    public var statusCode: Int

    /// A row, for a test of an app.
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
    /// Whether the operation was not done only because another one of its transaction was rejected (424).
    fileprivate var isOfGroup: Bool { statusCode == 424 && groupID != nil }
}

extension SyncError {
    /// Why a sync did not come to its end; nil for one that is whole but for rejected operations.
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
