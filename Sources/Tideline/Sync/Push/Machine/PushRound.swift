// PushRound: the responses to the last request that still have to be handled.

import TidelineCore

/// The responses of a push that have not been handled.
struct PushRound: Sendable {
    /// The follow-up reads that still have to be made.
    var reads: [(operation: QueuedOperation, read: FollowUpRead)] = []
    /// The responses that did not reveal the outcome, by operation.
    var unclear: [Int64: PushAnswer] = [:]
    /// The operations that have to be resent, with the responses that are the reason.
    var failures: [PushMachine.Failure] = []
    /// Whether an outcome was stored.
    var hasMoved = false

    /// Removes the failures after they have been handled.
    mutating func end() {
        failures = []
        hasMoved = false
    }
}
