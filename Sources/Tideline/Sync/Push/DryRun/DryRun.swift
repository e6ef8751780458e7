// DryRun: results of dry runs.

public import TidelineCore

/// The result of a dry run: the operations that a push would send, and the outcome that each would have.
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
    /// If ``isComplete`` is false, these are the first ones.
    public var operations: [Operation]
    /// The number of batches that were sent.
    ///
    /// The server rolls each one back, so an operation of a later batch is applied to rows without the changes of the
    /// earlier batches. One that needs a row that an earlier batch inserts, or the delete of a row that refers to it,
    /// has the outcome ``Outcome/waiting``. A `unique` rule may be reported as broken although an earlier batch frees
    /// the value.
    public var batches: Int
    /// Whether the whole queue was examined.
    ///
    /// It is false if the queue has more than ``SyncLimits/dryRunRowsMax`` operations, or if their requests have more
    /// than ``SyncLimits/dryRunBytesMax`` bytes.
    public var isComplete: Bool

    /// Whether the server would accept all operations that could be sent at once; false if the result is not complete.
    ///
    /// An operation that waits for another one (``Outcome/waiting``) is not counted, because the same push sends it
    /// afterward.
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
    /// An operation with the outcome that it would have.
    public struct Operation: Sendable, Hashable {
        /// The operation in the queue.
        public var pending: PendingOperation
        /// The values that would be sent; nil for a delete, and for an operation that would not be sent.
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

    /// An outcome that an operation would have.
    public enum Outcome: Sendable, Hashable {
        /// The server would accept the operation.
        case accepted
        /// The row was changed since this device read it. The row is that of the server, with its `version`; nil if the
        /// row is deleted there.
        ///
        /// A push resolves the conflict by the table's ``ConflictPolicy``.
        case conflict(Row?)
        /// The server would reject the operation.
        case rejected(Rejection)
        /// The server would not execute the operation, because it rejects another one of its transaction.
        case notExecuted
        /// A push sends it after an earlier operation of its row, of a row of its transaction, of its parent, or of
        /// a row that refers to it. Its outcome depends on that of the earlier one.
        case waiting
        /// A push does not send it: it was rejected before and waits for the app, or it cannot be sent.
        case parked
        /// The server did not process it; a push retries such an operation. The value is the status of the response.
        case failed(status: Int)
    }

    /// The rejection of an operation.
    public struct Rejection: Sendable, Hashable {
        /// The status of the response.
        public var statusCode: Int
        /// The rule that the row breaks; nil for another reason.
        public var brokenRule: BrokenRule?
        /// The reference that the operation breaks on the server: its parent is missing, or other rows refer to the
        /// row; nil for another reason.
        public var brokenReference: BrokenReference?
        /// The message of the server.
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
    /// Asks the server for the outcome that a push would have, and changes nothing.
    ///
    /// The server executes the operations in a transaction and rolls it back. Nothing changes there or on this device:
    /// no row, no operation, no request id, and no event is sent. A push that runs at the same time is not affected.
    ///
    /// The result describes the moment of the dry run. Operations of one row wait for each other, so only the
    /// first one is checked. An operation also waits for the insert of its parent in an earlier batch.
    ///
    /// The queue is read in parts, each of which blocks local changes only briefly. The limits are
    /// ``SyncLimits/dryRunRowsMax`` and ``SyncLimits/dryRunBytesMax``; see ``DryRun/isComplete``.
    ///
    /// ```swift
    /// let run = try await client.syncContext.dryRun()
    /// print(run.isAccepted ? "Everything can be sent." : "Some changes need a decision.")
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`, `storeFailure`, `offline`, `unauthorized`,
    ///   `tooManyRequests`, `insecureEndpoint`, `cancelled` or `suspended`; and with code `serverError` or `badRequest`
    ///   if the server has no dry runs, like the original servers.
    public func dryRun() async throws -> DryRun { try await DryRunRunner(engine: engine()).run() }
}
