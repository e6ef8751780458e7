// What PushMachine is doing, what it asks for, and why it ends.

extension PushMachine {
    enum State: Sendable {
        case idle
        case preparing(PushSlice)
        case sending([QueuedOperation], inBatch: Bool)
        case settling([PushSettling])
        case looking(QueuedOperation, PushLook)
        case waiting
        case finished
    }

    /// Why a push ended before the end of the queue.
    package enum Stop: Sendable, Hashable {
        case network
        case unauthorized
        case cancelled
    }

    package enum Action: Sendable, Hashable {
        /// Freeze the operations of a slice.
        case prepare(PushSlice)
        /// In one request, or each in its own.
        case send([QueuedOperation], inBatch: Bool)
        /// Ask the server what an answer did not say.
        case look(QueuedOperation, PushLook)
        /// Store what came of the answers, in one transaction.
        case settle([PushSettling])
        case wait(Duration)
        /// nil: the end of the queue.
        case finish(Stop?)
    }
}
