// PushRound: the responses to the last request whose outcomes are not stored yet.

import TidelineCore

/// The responses of a push that have not been handled.
struct PushRound: Sendable {
    /// The follow-up reads that are to be made.
    var reads: [(operation: QueuedOperation, read: FollowUpRead)] = []
    /// The responses that did not show the outcome, by operation.
    var unclear: [Int64: PushAnswer] = [:]
    /// The responses after which an operation is sent again.
    var failures: [PushMachine.Failure] = []
    /// Whether an outcome was stored.
    var hasMoved = false

    /// Removes the failures after they were handled.
    mutating func end() {
        failures = []
        hasMoved = false
    }
}
