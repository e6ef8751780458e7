// PushMemory: the facts that a push leaves to the next one, in memory only.

import Synchronization

/// The facts that a push leaves to the next one; if they are lost, a push takes longer, and its result is the same.
final class PushMemory: Sendable {
    /// The batch sizes that the last push found to work.
    let budget = Mutex<PushBudget?>(nil)
    /// Operations that the server failed to process in the last push, until it processes another request.
    let failing = Mutex<[(operation: QueuedOperation, answer: PushAnswer)]>([])
    /// Operations that something between client and server rejected in the last push; this affects only
    /// their order.
    let refusedInBetween = Mutex<[QueuedOperation]>([])
}
