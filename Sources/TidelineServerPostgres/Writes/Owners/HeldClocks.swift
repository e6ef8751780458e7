// HeldClocks: the clocks of owners that somebody else had for too long, so that writes of other owners do not
// wait for them again and again.
//
// A transaction waits for all of its clocks, for a moment. Where that takes longer it begins anew without the
// clocks that somebody has, and the rest is done. What needs them waits outside of transactions (`JobsHeldUp`).
// Clocks that somebody still has when it has waited for as long as it may are remembered here: what needs them
// is refused, for some seconds at once.

import TidelineServerCore

struct HeldClocks {
    /// What waits for clocks.
    var jobs = JobsHeldUp()
    /// Until when, by the uptime.
    private var ends: [ClockKey: UInt64] = [:]

    /// How long one is remembered, in nanoseconds: about as long as a server that stands still keeps one.
    private static let time: UInt64 = 5_000_000_000

    /// Whether any is remembered, or waited for.
    mutating func isAny(at now: UInt64) -> Bool {
        if !ends.isEmpty { ends = ends.filter { $0.value > now } }
        return !ends.isEmpty || !jobs.isEmpty
    }

    func contains(_ key: ClockKey) -> Bool { ends[key] != nil }

    /// Remembers clocks that somebody has for more than a moment, and that were waited for in vain.
    mutating func remember(_ keys: Set<ClockKey>, at now: UInt64) {
        for key in keys { ends[key] = now &+ Self.time }
    }
}
