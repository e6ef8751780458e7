// WriteResults: what a transaction did, where some of it may have to wait.

import TidelineServerCore

/// The outcomes of a transaction's jobs, some of which were skipped because of contended locks.
struct WriteResults {
    /// By the places of the jobs; nil for those that are to wait.
    var outcomes: [[GroupOutcome]?] = []
    /// The locks that the waiting jobs need, by the indexes of the jobs.
    var heldUp: [Int: Set<HeldLock>] = [:]
    /// The clocks that have moved.
    var moved: [TableStamp] = []
}
