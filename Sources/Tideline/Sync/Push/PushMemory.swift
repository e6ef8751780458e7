// PushMemory: facts that one push passes to the next, in memory only.

import Synchronization

/// The facts that one push passes to the next.
///
/// If they are lost, the next push takes longer, but has the same result.
final class PushMemory: Sendable {
    /// The batch sizes that the last push reached.
    let budget = Mutex<PushBudget?>(nil)
    /// The operations that the server failed to process in the last push, until it processes
    /// another request.
    let failing = Mutex<[(operation: QueuedOperation, answer: PushAnswer)]>([])
    /// The operations that a proxy or firewall rejected in the last push, which the next push sends
    /// last.
    let rejectedByProxy = Mutex<[QueuedOperation]>([])
}
