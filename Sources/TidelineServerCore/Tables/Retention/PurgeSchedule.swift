// PurgeSchedule: decides when and in which order the purge searches for expired data.

/// A kind of data that the purge examines.
package enum PurgeStep: Hashable, Sendable {
    case tombstones(of: String, days: Int)
    case changes(of: String, days: Int)
    case ledger
    case audit
    /// Records the table clocks that are ahead of the wall clock.
    case clocks
}

/// The steps of a round of the purge: those for the database and those for each table.
package struct PurgeRound: Sendable {
    /// The steps; empty until the tables are known, because the database may not exist yet.
    package private(set) var steps: [PurgeStep] = []
    /// The tables that store replaced rows for merges.
    package private(set) var merging: Set<String> = []
    /// The tables that are examined, in lower case.
    private var names: Set<String> = []

    /// Adds tables to those that the purge examines.
    mutating func watch(_ tables: [TableDefinition], changeDays: Int) {
        if steps.isEmpty { steps = [.clocks, .ledger, .audit] }
        for table in tables where names.insert(table.name.lowercased()).inserted {
            if table.conflict == .merge { merging.insert(table.name) }
            if table.softDelete, let days = table.tombstoneDays {
                steps.append(.tombstones(of: table.name, days: days))
            }
            let days = table.tombstoneDays ?? changeDays
            steps.append(.changes(of: table.name, days: days))
        }
    }
}

/// A state machine that returns the next step of the purge, and when it is due.
///
/// Its only input is the uptime in nanoseconds.
package struct PurgeSchedule: Sendable {
    /// The maximum number of rows that a step removes.
    package static let rowsMax = 200

    /// The number of steps that a turn may run if they remove nothing.
    private static let stepsOfTurn = 16

    /// The remaining steps of the round, the next step last.
    private var left: [PurgeStep] = []
    /// When the next turn is due.
    package private(set) var due: UInt64 = 0

    package init() {}

    /// Runs a turn of the purge, between other work.
    ///
    /// - Parameters:
    ///   - now: The uptime.
    ///   - round: Returns all steps; called at the beginning of a round.
    ///   - next: The uptime at which the next round begins when this one ends.
    ///   - run: Performs a step; returns whether it removed nothing, something, or the maximum.
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

    /// Begins the next round immediately.
    package mutating func begin() {
        left = []
        due = 0
    }

    /// The amount that a step removed.
    package enum Removed: Hashable, Sendable {
        case nothing
        case some
        /// As much as one step removes; there may be more to remove.
        case all

        package init(_ count: Int) {
            self = count == 0 ? .nothing : count < PurgeSchedule.rowsMax ? .some : .all
        }
    }
}
