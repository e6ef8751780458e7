// PushMemory: the facts that a push passes to the next one, in memory only.

import Synchronization

/// The facts that a push passes to the next one.
///
/// Without them, a push takes longer, with the same result.
final class PushMemory: Sendable {
    /// The batch sizes that succeeded in the last push.
    let budget = Mutex<PushBudget?>(nil)
    /// Operations that the server failed to process in the last push, until it processes another request.
    let failing = Mutex<[(operation: QueuedOperation, answer: PushAnswer)]>([])
    /// Operations that a proxy or firewall rejected in the last push; the next push sends them last.
    let rejectedByProxy = Mutex<[QueuedOperation]>([])
}
