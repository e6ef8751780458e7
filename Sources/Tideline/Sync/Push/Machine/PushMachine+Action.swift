// The actions of PushMachine, and the reasons why it stops.

extension PushMachine {
    enum State: Sendable {
        case idle
        case preparing(PushSlice)
        case sending([QueuedOperation], inBatch: Bool)
        case applying([DecidedOperation])
        case reading(QueuedOperation, FollowUpRead)
        case waiting
        case finished
    }

    /// The reason why a push ended before it reached the end of the queue.
    package enum Stop: Sendable, Hashable {
        case network
        case unauthorized
        case cancelled
    }

    package enum Action: Sendable, Hashable {
        /// Freeze the operations of a slice.
        case prepare(PushSlice)
        /// Send the operations in one request, or each one in its own request.
        case send([QueuedOperation], inBatch: Bool)
        /// Make a follow-up read.
        case read(QueuedOperation, FollowUpRead)
        /// Store the outcomes in one transaction.
        case apply([DecidedOperation])
        case wait(Duration)
        /// End the push; the value is nil if the end of the queue was reached.
        case finish(Stop?)
    }
}
