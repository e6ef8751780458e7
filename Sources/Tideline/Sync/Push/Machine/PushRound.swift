// PushRound: the responses to the last request whose outcomes are not stored yet.

import TidelineCore

/// The open responses of a push.
struct PushRound: Sendable {
    /// The follow-up reads that are due.
    var looks: [(operation: QueuedOperation, look: PushLook)] = []
    /// The responses that did not show the outcome, by their operations.
    var unclear: [Int64: PushAnswer] = [:]
    /// The responses after which an operation is sent again.
    var failures: [PushMachine.Failure] = []
    /// Whether the outcome of an operation was stored.
    var hasMoved = false

    /// Removes the failures once they are judged.
    mutating func end() {
        failures = []
        hasMoved = false
    }
}
