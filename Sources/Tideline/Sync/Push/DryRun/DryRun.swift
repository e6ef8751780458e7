// DryRun: the result of a dry run.

public import TidelineCore

/// The result of a dry run: the operations that a push would send, and the outcome of each one.
///
/// ```swift
/// let run = try await client.syncContext.dryRun()
/// for operation in run.operations {
///     switch operation.outcome {
///     case .accepted: break
///     case .conflict(let server): print(operation.itemID, "was changed by another device", server as Any)
///     case .rejected(let refusal): print(operation.itemID, refusal.message)
///     case .notExecuted, .waiting, .parked, .failed: print(operation.itemID, "is not sent")
///     }
/// }
/// ```
public struct DryRun: Sendable, Hashable {
    /// The operations of the account that is signed in, in the order of the queue.
    ///
    /// If ``isComplete`` is false, the array has only the first operations.
    public var operations: [Operation]
    /// The number of batches that were sent.
    ///
    /// The server rolls back each batch, so the operations of a later batch do not see the changes
    /// of earlier batches. If an operation needs a row that an earlier batch inserts, or the delete
    /// of a row that refers to its row, its outcome is ``Outcome/waiting``. The server may report a
    /// `unique` rule as broken although an earlier batch frees the value.
    public var batches: Int
    /// Whether the whole queue was examined.
    ///
    /// The property is false if the queue has more than ``SyncLimits/dryRunRowsMax`` operations, or
    /// if their requests have more than ``SyncLimits/dryRunBytesMax`` bytes.
    public var isComplete: Bool

    /// Whether the server would accept all operations that can be sent at once; false if the result
    /// is not complete.
    ///
    /// An operation that waits for another one (``Outcome/waiting``) does not count, because the
    /// same push sends it later.
    public var isAccepted: Bool {
        isComplete && operations.allSatisfy { $0.outcome == .accepted || $0.outcome == .waiting }
    }

    /// Creates a result, for an app's tests.
    public init(operations: [Operation] = [], batches: Int = 0, isComplete: Bool = true) {
        self.operations = operations
        self.batches = batches
        self.isComplete = isComplete
    }
}

extension DryRun {
    /// An operation with the outcome that a push would have for it.
    public struct Operation: Sendable, Hashable {
        /// The operation in the queue.
        public var pending: PendingOperation
        /// The values that would be sent; nil for a delete, or if the operation would not be sent.
        public var values: Row?
        /// The outcome that the operation would have.
        public var outcome: Outcome

        /// The table's name.
        public var table: String { pending.table }
        /// The row's id.
        public var itemID: String { pending.itemID }
        /// The kind of the operation.
        public var kind: OperationKind { pending.kind }

        /// Creates an operation, for an app's tests.
        public init(pending: PendingOperation, values: Row? = nil, outcome: Outcome) {
            self.pending = pending
            self.values = values
            self.outcome = outcome
        }
    }

    /// The outcome that an operation would have.
    public enum Outcome: Sendable, Hashable {
        /// The server would accept the operation.
        case accepted
        /// The row was changed on the server since this device read it.
        ///
        /// The value is the server's row with its `version`; nil if the row is deleted there. A
        /// push resolves the conflict by the table's ``ConflictPolicy``.
        case conflict(Row?)
        /// The server would reject the operation.
        case rejected(Rejection)
        /// The server would not execute the operation, because it would reject another operation of
        /// the same transaction.
        case notExecuted
        /// A push would send the operation after an earlier operation, on whose outcome it depends.
        ///
        /// The earlier operation is on the same row, on a row of the same transaction, on its
        /// parent, or on a row that refers to it.
        case waiting
        /// A push would not send the operation: it was rejected before and waits for the app, or it
        /// cannot be sent.
        case parked
        /// The server did not process the operation and returned this status; a push would retry
        /// the operation.
        case failed(status: Int)
    }

    /// The rejection of an operation.
    public struct Rejection: Sendable, Hashable {
        /// The status of the response.
        public var statusCode: Int
        /// The rule that the row breaks; nil if there is another reason.
        public var brokenRule: BrokenRule?
        /// The reference that the operation breaks on the server; nil if there is another reason.
        ///
        /// Either the row's parent is missing, or other rows refer to the row.
        public var brokenReference: BrokenReference?
        /// The server's message.
        public var message: String

        /// Creates a rejection, for an app's tests.
        public init(
            statusCode: Int,
            brokenRule: BrokenRule? = nil,
            brokenReference: BrokenReference? = nil,
            message: String = ""
        ) {
            self.statusCode = statusCode
            self.brokenRule = brokenRule
            self.brokenReference = brokenReference
            self.message = message
        }
    }
}

extension SyncContext {
    /// Asks the server what outcome a push would have, without changing anything.
    ///
    /// The server executes the operations in a transaction and rolls it back. No row or operation
    /// changes, no request id is used up, and no event is sent. A push that runs at the same time
    /// is not affected.
    ///
    /// The result describes the moment of the dry run. Operations on the same row wait for each
    /// other, so only the first one is checked. An operation also waits if an earlier batch inserts
    /// its parent.
    ///
    /// The queue is read in parts, each of which blocks local changes only briefly. The limits are
    /// ``SyncLimits/dryRunRowsMax`` and ``SyncLimits/dryRunBytesMax``; see ``DryRun/isComplete``.
    ///
    /// ```swift
    /// let run = try await client.syncContext.dryRun()
    /// print(run.isAccepted ? "Everything can be sent." : "Some changes need a decision.")
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`, `storeFailure`, `offline`,
    ///   `unauthorized`, `tooManyRequests`, `insecureEndpoint`, `cancelled` or `suspended`. If the
    ///   server does not support dry runs, as is the case for the original servers, the code is
    ///   `serverError` or `badRequest`.
    public func dryRun() async throws -> DryRun { try await DryRunRunner(engine: engine()).run() }
}
