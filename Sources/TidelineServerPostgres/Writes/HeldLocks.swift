// HeldLocks: rows and clocks of owners that somebody else had for too long, so that other writes do not wait for
// them again and again.
//
// A transaction waits for all of its rows and clocks, for a moment. Where that takes longer it begins anew without
// those that somebody has, and the rest is done. What needs them waits outside of transactions (`JobsHeldUp`). What
// somebody still has when it was waited for as long as may be is remembered here: writes that need it are refused,
// for some seconds at once.

import TidelineServerCore

/// What a transaction locks that somebody else may have without holding up a whole table.
enum HeldLock: Hashable, Sendable {
    case row(RowKey)
    case clock(ClockKey)
}

struct HeldLocks {
    /// What waits for some.
    var jobs = JobsHeldUp()
    /// Until when, by the uptime.
    private var ends: [HeldLock: UInt64] = [:]

    /// How long one is remembered, in nanoseconds: about as long as a server that stands still keeps one.
    private static let time: UInt64 = 5_000_000_000

    /// Whether any is remembered, or waited for.
    mutating func isAny(at now: UInt64) -> Bool {
        if !ends.isEmpty { ends = ends.filter { $0.value > now } }
        return !ends.isEmpty || !jobs.isEmpty
    }

    func contains(_ lock: HeldLock) -> Bool { ends[lock] != nil }

    /// Remembers those of them that the same transaction had for long, while they were waited for in vain.
    mutating func remember(_ locks: Set<HeldLock>, at now: UInt64) {
        for lock in jobs.heldForLong(locks) { ends[lock] = now &+ Self.time }
    }
}
