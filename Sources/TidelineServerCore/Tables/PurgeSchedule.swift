// PurgeSchedule: the times and the order of the searches for expired data.

/// A kind of data that a round of the purge examines.
package enum PurgeStep: Hashable, Sendable {
    case tombstones(of: String, days: Int)
    case changes(of: String, days: Int)
    case ledger
    case audit
    /// Notes how far table clocks had come that are ahead of the wall clock.
    case clocks
}

/// Which step of which round is next, and when.
///
/// Pure: time comes in as uptime in nanoseconds.
package struct PurgeSchedule: Sendable {
    /// The most rows that a step removes.
    package static let rowsMax = 200

    /// Steps that remove nothing are small: so many of them make one turn.
    private static let stepsOfTurn = 16

    /// The remaining steps of the round, the next step last.
    private var left: [PurgeStep] = []
    /// When the next turn is due.
    package private(set) var due: UInt64 = 0

    package init() {}

    /// Runs a turn of the purge between other work.
    ///
    /// - Parameters:
    ///   - now: The uptime.
    ///   - round: All steps, asked for when a round begins.
    ///   - next: The uptime at which the next round begins when this one ends.
    ///   - run: Takes a step; returns whether it removed nothing, some, or as much as it may.
    package mutating func turn(
        at now: UInt64,
        round: () -> [PurgeStep],
        next: () -> UInt64,
        run: (PurgeStep) -> Removed
    ) {
        guard now >= due else { return }
        if left.isEmpty { left = round().reversed() }
        for _ in 0..<Self.stepsOfTurn {
            guard let step = left.last else { break }
            let removed = run(step)
            if removed != .all { left.removeLast() }
            if removed != .nothing { break }
        }
        due = left.isEmpty ? next() : now
    }

    /// Begins the next round at once.
    package mutating func begin() {
        left = []
        due = 0
    }

    /// The amount that a step removed.
    package enum Removed: Hashable, Sendable {
        case nothing
        case some
        /// As much as a step may: more may be left.
        case all

        package init(_ count: Int) {
            self = count == 0 ? .nothing : count < PurgeSchedule.rowsMax ? .some : .all
        }
    }
}
