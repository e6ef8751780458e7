// SyncError: the errors of the client, with an extensible code and a message that explains how to fix them.
//
// The texts of fixed messages are in SyncErrorMessages.swift. The contents of records never
// enter a message.

public import Foundation
public import TidelineCore

/// An error of the client.
///
/// `code` is for programs; `message` is for people and explains how to fix the error.
///
/// ```swift
/// do {
///     try await todos.insert(milk)
/// } catch let error as SyncError where error.code == .alreadyExists {
///     try await todos.update(milk)
/// }
/// ```
public struct SyncError: Error, Sendable {
    /// The kind of the error.
    ///
    /// More kinds may be added.
    public var code: Code
    /// A description of the failure and how to fix it.
    public var message: String
    /// The underlying error.
    public var cause: (any Error)?
    /// The HTTP status of the response, if the server sent one.
    public var statusCode: Int?
    /// The row that the server sent with a conflict.
    public var serverItem: Row?
    /// The rule that the row breaks, for the code `ruleBroken`.
    public internal(set) var brokenRule: BrokenRule?
    /// For the code `rowIsReferenced`, the reference that prevents the delete; for the code `conflict` of a
    /// ``RemoteTable``, the reference whose parent the server does not have.
    public internal(set) var brokenReference: BrokenReference?

    /// Creates an error.
    public init(
        _ code: Code,
        _ message: String,
        cause: (any Error)? = nil,
        statusCode: Int? = nil,
        serverItem: Row? = nil
    ) {
        self.code = code
        self.message = message
        self.cause = cause
        self.statusCode = statusCode
        self.serverItem = serverItem
    }
}

extension SyncError {
    /// The kind of an error.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        package enum Kind: String, Sendable, CaseIterable {
            case storeNotInitialized
            case alreadyExists
            case notFound
            case unsupportedQuery
            case rowDoesNotFit
            case ruleBroken
            case partialRecord
            case defaultRequired
            case invalidID
            case invalidQueryID
            case unknownTable
            case pendingOperations
            case conflict
            case versionRequired
            case offline
            case unauthorized
            case otherAccount
            case forbidden
            case tooManyRequests
            case serverError
            case badRequest
            case badResponse
            case storeFailure
            case storeUnavailable
            case newerStore
            case wrongKey
            case insecureEndpoint
            case invalidModel
            case cancelled
            case suspended
            case transactionEnded
            case transactionTooLarge
            case sumTooLarge
            case rowIsReferenced
        }

        private let kind: Kind

        private init(_ kind: Kind) { self.kind = kind }

        /// The store has not been opened yet.
        public static let storeNotInitialized = Self(.storeNotInitialized)
        /// A row with this id already exists.
        public static let alreadyExists = Self(.alreadyExists)
        /// No row has this id.
        public static let notFound = Self(.notFound)
        /// A store or a server cannot run the query.
        public static let unsupportedQuery = Self(.unsupportedQuery)
        /// A row does not decode into the model, or a record does not fit into a row.
        public static let rowDoesNotFit = Self(.rowDoesNotFit)
        /// A row breaks a rule of its model or of the server; see ``SyncError/brokenRule``.
        public static let ruleBroken = Self(.ruleBroken)
        /// A record that was read with selected columns would overwrite columns that were not read.
        public static let partialRecord = Self(.partialRecord)
        /// A property was added to a table that has rows, and the property has no known default.
        public static let defaultRequired = Self(.defaultRequired)
        /// The text cannot be the id of a row.
        public static let invalidID = Self(.invalidID)
        /// The text cannot name a pull query.
        public static let invalidQueryID = Self(.invalidQueryID)
        /// The store was opened without this table.
        public static let unknownTable = Self(.unknownTable)
        /// Operations are waiting to be pushed.
        public static let pendingOperations = Self(.pendingOperations)
        /// The row changed on the server since it was last pulled, or refers to a row that the server does not have;
        /// see ``SyncError/brokenReference``.
        public static let conflict = Self(.conflict)
        /// The record type declares neither `version` nor `updatedAt`, so an update could overwrite a newer change.
        public static let versionRequired = Self(.versionRequired)
        /// The server cannot be reached.
        public static let offline = Self(.offline)
        /// The server does not accept the token, or requires a token.
        public static let unauthorized = Self(.unauthorized)
        /// The changes belong to an account other than the one that is signed in.
        public static let otherAccount = Self(.otherAccount)
        /// The server does not permit the account to make this request (403).
        public static let forbidden = Self(.forbidden)
        /// The client exceeded the server's rate limit (429); try again later.
        public static let tooManyRequests = Self(.tooManyRequests)
        /// The server failed, or timed out (408).
        public static let serverError = Self(.serverError)
        /// The server rejected the request.
        public static let badRequest = Self(.badRequest)
        /// The response does not follow the protocol.
        public static let badResponse = Self(.badResponse)
        /// The local store failed.
        public static let storeFailure = Self(.storeFailure)
        /// The local store cannot be read or written at this moment, for example because its file is protected on a
        /// locked phone.
        ///
        /// Nothing is lost. Observers and automatic sync resume as soon as the store can be read again.
        public static let storeUnavailable = Self(.storeUnavailable)
        /// A newer version of the library wrote the store's file.
        public static let newerStore = Self(.newerStore)
        /// The key cannot decrypt the store's file.
        public static let wrongKey = Self(.wrongKey)
        /// The endpoint is plain http on another machine, and the client does not allow that.
        public static let insecureEndpoint = Self(.insecureEndpoint)
        /// The columns of a model cannot be found.
        public static let invalidModel = Self(.invalidModel)
        /// The task was cancelled.
        public static let cancelled = Self(.cancelled)
        /// The client is suspended (``SyncClient/suspend()``).
        public static let suspended = Self(.suspended)

        /// A table of a transaction was used after the transaction ended.
        public static let transactionEnded = Self(.transactionEnded)
        /// A transaction creates more operations than fit into one batch of a push.
        public static let transactionTooLarge = Self(.transactionTooLarge)
        /// The sum of a column is out of the range of its type.
        public static let sumTooLarge = Self(.sumTooLarge)
        /// The row cannot be deleted: other rows refer to it by a reference with the delete rule `restrict`.
        public static let rowIsReferenced = Self(.rowIsReferenced)

        /// Creates the code for a rejection with this status, whatever the request was.
        init(answer status: Int) {
            switch status {
            case 401: self = .unauthorized
            case 403: self = .forbidden
            case 404, 410: self = .notFound
            case 409, 412: self = .conflict
            case 429: self = .tooManyRequests
            case 408, 500...: self = .serverError
            default: self = .badRequest
            }
        }

        /// The name of the kind.
        public var description: String { kind.rawValue }
    }
}

extension SyncError: CustomStringConvertible, LocalizedError {
    /// The code and the message.
    public var description: String { "\(code): \(message)" }

    /// The message.
    public var errorDescription: String? { message }
}
