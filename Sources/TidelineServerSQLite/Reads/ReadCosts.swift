// ReadCosts: chooses the lane for the next read with a statement by the costs of its last reads.

import TidelineCore

/// The lane of a read; a read that takes too long for a lane restarts in the next one.
package enum ReadLane: Int, Comparable, Sendable {
    /// Runs on the thread of the caller's event loop, for about a millisecond.
    case loop
    /// Runs on a reader, for some milliseconds.
    case brief
    /// Runs on a reader that is not reserved for brief reads, for up to `limits.queryTime`.
    case long

    package static func < (left: ReadLane, right: ReadLane) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// The known costs of statements, by their SQL without the values.
package struct ReadCosts {
    private struct Known {
        var lane: ReadLane
        /// When the entry expires, in nanoseconds.
        var end: UInt64
    }

    /// The time for which a statement does not begin in a lane that was too short for it.
    package static let memory: UInt64 = 10_000_000_000
    private static let statementsMax = 512

    private var known = GenerationCache<String, Known>(countMax: statementsMax)

    package init() {}

    /// The number of recorded statements.
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
