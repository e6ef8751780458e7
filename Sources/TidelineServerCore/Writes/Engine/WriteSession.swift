// WriteSession: the transactions of a backend, as the WriteEngine runs them.

/// A writing connection, confined to the thread of its ``WriteEngine``.
package protocol WriteSession: AnyObject, SendableMetatype {
    /// The type that the backend derives from a table.
    associatedtype Backend: Sendable
    associatedtype Connection
    associatedtype Transaction: WriteTransaction where Transaction.Backend == Backend
    associatedtype Retention: RetentionSteps where Retention.Connection == Connection
    typealias Batch = QueuedBatch<Backend>

    /// Returns the uptime in nanoseconds after a duration from now.
    static func uptime(after time: Duration) -> UInt64

    /// The error for all writes while the database cannot be written; nil otherwise.
    var rejection: (any Error)? { get }

    /// Returns whether a batch is committed after all others, because it changes tables or has large rows.
    func isLarge(_ batch: Batch) -> Bool

    /// Runs a task that needs exclusive use of the connection.
    func perform(_ task: (Result<Connection, any Error>) -> Void)

    /// Begins a commit of batches that have not been tried yet.
    func begin()

    /// Runs `body` in a transaction and commits it.
    ///
    /// - Returns: The changed clocks.
    /// - Throws: An error if nothing was committed, as far as the session knows.
    func transaction(
        _ batches: [Batch],
        _ body: (inout Transaction) throws -> Void
    ) throws -> [TableTimestamp]

    /// Returns how to continue after a failed transaction.
    func failed(_ error: any Error, _ batches: [Batch]) -> WriteRecovery<Backend>

    /// Reports a commit, before its batches are answered.
    ///
    /// Batches without outcomes are kept for a later retry, or get their outcomes here.
    ///
    /// - Throws: The error that all batches are answered with.
    func committed(
        _ timestamps: [TableTimestamp],
        _ batches: [Batch],
        _ outcomes: inout [[GroupOutcome]?]
    ) throws

    /// Ends what ``begin()`` began, after the batches were answered; without `timestamps` if nothing was committed.
    func end(_ timestamps: [TableTimestamp])

    /// The uptime at which blocked batches are retried.
    var blockedDue: UInt64 { get }

    /// Calls `commit` with the blocked batches that are due, or with all of them if `isLast`.
    func retryBlocked(isLast: Bool, _ commit: ([Batch]) -> Void)

    /// Returns whether a commit has stored new pending cascades since the last call.
    func takeNewCascades() -> Bool

    /// Continues pending cascades in one transaction, and reports its commit.
    func cascade(in graph: ReferenceGraph?, _ step: inout CascadeStep) throws -> CascadeProgress

    /// The time between two searches for cascades that another server has left; nil if only one server can use the
    /// database.
    static var cascadePause: Duration? { get }

    /// Records an error of the purge.
    func purgeFailed(_ error: any Error)

    /// Closes the connection.
    func close()
}

extension WriteSession {
    package var rejection: (any Error)? { nil }
    package var blockedDue: UInt64 { .max }
    package func retryBlocked(isLast: Bool, _ commit: ([Batch]) -> Void) {}
    package static var cascadePause: Duration? { nil }
    package func purgeFailed(_ error: any Error) {}
    package func close() {}
}

/// The decision whether a batch is executed when its turn comes in a transaction.
package enum WriteAdmission {
    case run
    case reject(any Error)
    /// The batch needs a lock that another transaction holds.
    case wait
}

/// The way to continue after a failed transaction.
package enum WriteRecovery<Backend: Sendable> {
    case `repeat`
    /// Reject some of the batches, and retry the transaction with the others; without any, the transaction
    /// fails.
    case exclude([QueuedBatch<Backend>], any Error, others: [QueuedBatch<Backend>])
    case reject(any Error)
}
