// WriteResults: what a transaction did, where some of it may have to wait.

import TidelineServerCore

/// What became of the jobs of a transaction that left out what somebody else has.
struct WriteResults {
    /// By the places of the jobs; nil for those that are to wait.
    var outcomes: [[GroupOutcome]?] = []
    /// What those are to wait for, by their places.
    var heldUp: [Int: Set<HeldLock>] = [:]
    /// The clocks that have moved.
    var moved: [ClockStamp] = []
}
