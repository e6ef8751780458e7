// ReadCosts: chooses the lane for the next read with a statement by the costs of its last reads.

import TidelineCore

/// The lane of a read; a read that takes too long for one restarts in the next.
package enum ReadLane: Int, Comparable, Sendable {
    /// On the thread of the caller's event loop, about a millisecond.
    case loop
    /// On a reader, some milliseconds.
    case brief
    /// On a reader that is not reserved for brief reads, up to `limits.queryTime`.
    case long

    package static func < (left: ReadLane, right: ReadLane) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// The known costs of statements, by their text without the values.
package struct ReadCosts {
    private struct Known {
        var lane: ReadLane
        /// When the entry expires, in nanoseconds.
        var end: UInt64
    }

    /// For how long a statement is not tried in a lane that was too short for it.
    package static let memory: UInt64 = 10_000_000_000
    private static let statementsMax = 512

    private var known = GenerationCache<String, Known>(countMax: statementsMax)

    package init() {}

    /// How many statements are remembered.
    package var count: Int { known.count }

    /// Returns the lane in which the statement begins.
    package mutating func lane(of statement: String, at now: UInt64) -> ReadLane {
        guard known.count > 0, let found = known.value(statement) else { return .loop }
        if now < found.end { return found.lane }
        known.remove(statement)
        return .loop
    }

    /// Records that the statement took too long for a lane.
    package mutating func exceeded(_ lane: ReadLane, _ statement: String, at now: UInt64) {
        let next: ReadLane = lane == .loop ? .brief : .long
        known.put(Known(lane: next, end: now &+ Self.memory), for: statement)
    }
}
