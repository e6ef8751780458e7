// RetentionPurge: removes data that exceeds its retention time: tombstones, entries of the change logs and
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
    private let limits: ServerLimits
    /// Empty until the tables are known: before that the database may be empty.
    private var steps: [PurgeStep] = []
    /// The tables that are examined.
    private var names: Set<String> = []
    /// The tables that keep the rows that writes replaced.
    private var merging: Set<String> = []
    private var heads: [String: TableHead] = [:]

    init(_ limits: ServerLimits) {
        self.limits = limits
    }

    /// Adds tables to the ones that are examined.
    mutating func watch(_ tables: [TableDefinition], heads: (String) -> TableHead) {
        if steps.isEmpty { steps = [.clocks, .ledger, .audit] }
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

    /// Returns all steps, for one round.
    var round: [PurgeStep] { steps }

    /// Removes some.
    ///
    /// - Returns: How many rows; when it is `PurgeSchedule.rowsMax`, more may be left.
    func run(_ step: PurgeStep, _ database: Database, time: RemovalTime) throws -> Int {
        switch step {
        case .clocks:
            try database.transaction { try ReceiptTimes.note(now: time.now, database) }
            return 0
        case .tombstones(let table, let days):
            guard let time = time.end(days: days) else { return 0 }
            let count = try database.transaction {
                let end = try ReceiptTimes.end(table, time, database)
                return try removeTombstones(table, upTo: end, database)
            }
            heads[table]?.ties.transactionEnded()
            return count
        case .changes(let table, let days):
            guard let time = time.end(days: days) else { return 0 }
            return try database.transaction {
                let (count, last) = try ChangeLog.forget(
                    table,
                    upTo: ReceiptTimes.end(table, time, database),
                    rows: PurgeSchedule.rowsMax,
                    database
                )
                heads[table]?.clock.raiseHorizon(to: last)
                return count
            }
        case .audit:
            guard let end = time.end(days: limits.auditDays) else { return 0 }
            return try database.transaction {
                let place = try ReceiptTimes.place(ClockAhead.auditKey, end, database)
                return try AuditLog.purge(
                    before: end,
                    upTo: place,
                    atMost: PurgeSchedule.rowsMax,
                    database
                )
            }
        case .ledger:
            return try database.transaction {
                try Ledger(database: database, limits: limits)
                    .purge(atMost: PurgeSchedule.rowsMax, time: time)
            }
        }
    }

    /// The tables of a database.
    static func tables(in database: Database) throws -> [String] {
        let statement = try database.prepare(ServerSchema.readTables)
        defer { statement.reset() }
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }

    /// Removes all tombstones of a table that were received before a time, some in each transaction, and
    /// reports each; with nil all of them.
    ///
    /// - Returns: How many.
    static func removeTombstones(
        of table: String,
        receivedBefore time: Int64?,
        _ database: Database,
        report: (_ rows: Int) -> Void
    ) throws -> Int {
        var purge = RetentionPurge(ServerLimits())
        // Whether it keeps what writes replaced, only its configuration says.
        purge.merging = [table]
        var total = 0
        while true {
            let count = try database.transaction {
                let end = try time.map { try ReceiptTimes.end(table, $0, database) } ?? .max
                return try purge.removeTombstones(table, upTo: end, database)
            }
            total += count
            report(count)
            if count < PurgeSchedule.rowsMax { return total }
        }
    }

    private func removeTombstones(
        _ table: String,
        upTo end: Int64,
        _ database: Database
    ) throws -> Int {
        let bounds: [SQLValue] = [.integer(end), .integer(Int64(PurgeSchedule.rowsMax))]
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
        // Devices that have these rows cannot be notified any more that they are gone.
        heads[table]?.clock.raiseHorizon(to: last)
        try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(last)])
        return count
    }
}
