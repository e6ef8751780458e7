// HeldClocks: the clocks of owners that somebody else had for too long, so that writes of other owners do not
// wait for them again and again.
//
// A transaction waits for all of its clocks. Where that takes too long it begins anew without the clocks that
// somebody has, and the rest is done. Clocks that somebody still has at its end are remembered here: what needs
// them is refused, for some seconds at once. What needs others that were missing waits in another transaction.

import TidelineServerCore

struct HeldClocks {
    /// Until when, by the uptime.
    private var ends: [ClockKey: UInt64] = [:]

    /// How long one is remembered, in nanoseconds: about as long as a server that stands still keeps one.
    private static let time: UInt64 = 5_000_000_000

    /// Whether any is remembered.
    mutating func isAny(at now: UInt64) -> Bool {
        if !ends.isEmpty { ends = ends.filter { $0.value > now } }
        return !ends.isEmpty
    }

    func contains(_ key: ClockKey) -> Bool { ends[key] != nil }

    /// Remembers clocks that somebody has for more than a moment, while a transaction has waited in vain.
    mutating func remember(_ keys: Set<ClockKey>, at now: UInt64) {
        for key in keys { ends[key] = now &+ Self.time }
    }
}
