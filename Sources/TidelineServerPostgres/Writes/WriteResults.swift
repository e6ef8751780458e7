// WriteResults: what a transaction did, where some of it may have to wait.

import TidelineServerCore

/// What became of the jobs of a transaction that left out what somebody else has.
struct WriteResults {
    /// By the places of the jobs; nil for those that are to wait in a transaction of their own.
    var outcomes: [[GroupOutcome]?] = []
    /// The clocks that have moved.
    var moved: [ClockStamp] = []
}
