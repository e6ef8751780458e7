// RetentionPurge: removes what is older than it is kept: tombstones, what the change logs have, entries
// of the ledger.
//
// A device that was away for longer never learns of the deletes: that is the operator's choice. The
// horizon of the table says so. Everything is looked at in rounds, a round in steps, and a step
// removes a bounded number of rows of one kind, so that writes do not wait for it.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

package struct RetentionPurge: Sendable {
    /// One of the things that a round looks at.
    package enum Step: Hashable, Sendable {
        case tombstones(of: String, days: Int)
        case changes(of: String, days: Int)
        case ledger
    }

    /// The most rows that a step removes.
    package static let rowsMax = 200

    private let limits: ServerLimits
    /// None before the first tables are told: until then the database may have nothing in it.
    private var steps: [Step] = []
    /// The tables that are looked at.
    private var names: Set<String> = []
    /// The tables that keep the rows that writes replaced.
    private var merging: Set<String> = []
    private var heads: [String: TableHead] = [:]

    init(_ limits: ServerLimits) {
        self.limits = limits
    }

    /// From now on looks at these tables, too.
    mutating func watch(_ tables: [TableDefinition], heads: (String) -> TableHead) {
        if steps.isEmpty { steps = [.ledger] }
        for table in tables where names.insert(table.name.lowercased()).inserted {
            self.heads[table.name] = heads(table.name)
            if table.conflict == .merge { merging.insert(table.name) }
            if table.softDelete, let days = table.tombstoneDays {
                steps.append(.tombstones(of: table.name, days: days))
            }
            let days = table.tombstoneDays ?? limits.changeDays
            steps.append(.changes(of: table.name, days: days))
        }
    }

    /// Everything, to be looked at once.
    var round: [Step] { steps }

    /// Removes some.
    ///
    /// - Returns: How many rows; when it is `rowsMax`, more may be left.
    func run(_ step: Step, _ database: Database, now: Int64) throws -> Int {
        switch step {
        case .tombstones(let table, let days):
            let count = try database.transaction {
                try removeTombstones(table, upTo: Self.end(days, now), database)
            }
            heads[table]?.ties.transactionEnded()
            return count
        case .changes(let table, let days):
            let end = Self.end(days, now)
            return try database.transaction {
                let (count, last) = try ChangeLog.forget(
                    table,
                    upTo: end,
                    rows: Self.rowsMax,
                    database
                )
                heads[table]?.clock.raiseHorizon(to: last)
                return count
            }
        case .ledger:
            return try database.transaction {
                try Ledger(database: database, limits: limits)
                    .purge(atMost: Self.rowsMax, now: now)
            }
        }
    }

    /// What is older is removed.
    private static func end(_ days: Int, _ now: Int64) -> Int64 {
        now - Int64(days) * 86_400_000_000
    }

    private func removeTombstones(
        _ table: String,
        upTo end: Int64,
        _ database: Database
    ) throws -> Int {
        let bounds: [SQLValue] = [.integer(end), .integer(Int64(Self.rowsMax))]
        if merging.contains(table) {
            try database.prepare(ServerSchema.dropBasesOfTombstones(table))
                .run(bounds + [.text(table)])
        }
        let statement = try database.prepare(ServerSchema.purgeTombstones(table))
        defer { statement.reset() }
        try statement.bind(bounds)
        var count = 0
        var last: Int64 = 0
        while try statement.step() {
            let stamp = statement.integer(0)
            heads[table]?.ties.rowLeaves(stamp)
            last = max(last, stamp)
            count += 1
        }
        guard count > 0 else { return 0 }
        // Who held these rows cannot be told any more that they are gone.
        heads[table]?.clock.raiseHorizon(to: last)
        try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(last)])
        return count
    }
}

/// Which step of which round is next, and when.
///
/// Pure: time comes in as uptime in nanoseconds.
package struct PurgeSchedule: Sendable {
    /// Steps that remove nothing are small: so many of them make one turn.
    private static let stepsOfTurn = 16

    /// What is left of the round, the next step last.
    private var left: [RetentionPurge.Step] = []
    /// When the next turn is due.
    package private(set) var due: UInt64 = 0

    package init() {}

    /// A turn of the purge beside other work.
    ///
    /// - Parameters:
    ///   - now: The uptime.
    ///   - round: All steps, asked for when a round begins.
    ///   - next: The uptime at which the next round begins when this one ends.
    ///   - run: Takes a step; returns whether it removed nothing, some, or as much as it may.
    package mutating func turn(
        at now: UInt64,
        round: () -> [RetentionPurge.Step],
        next: () -> UInt64,
        run: (RetentionPurge.Step) -> Removed
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

    /// What a step removed.
    package enum Removed: Hashable, Sendable {
        case nothing
        case some
        /// As much as a step may: more may be left.
        case all

        package init(_ count: Int) {
            self = count == 0 ? .nothing : count < RetentionPurge.rowsMax ? .some : .all
        }
    }
}
