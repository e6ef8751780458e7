// RetentionPurge: removes tombstones, and entries of the change logs and of the ledger.
//
// A device that was offline for longer misses the deletes, which the horizon of the table reports to it. The purge
// works in rounds, a round in steps, and a step removes a bounded number of rows of one kind, so that writes do not
// wait for it.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The purge of data that exceeds its retention time.
struct RetentionPurge: RetentionSteps {
    let limits: ServerLimits
    let now: @Sendable () -> Int64
    let heads: TableHeads

    func readTime(_ database: Database) throws -> (wall: Int64, memory: TrustedTime.Memory?) {
        let memory = try ReceiptTimes.memory(database)
        // Read last: the caller reads the steady clock right after it, and the two readings must belong together.
        return (now(), memory)
    }

    func store(_ memory: TrustedTime.Memory, _ database: Database) throws {
        try database.transaction { try ReceiptTimes.store(memory, database) }
    }

    func timestamps(_ database: Database) throws -> [TableTimestamp] {
        try ReceiptTimes.timestamps(database)
    }

    func run(
        _ step: PurgeStep,
        of round: PurgeRound,
        _ database: Database,
        time: RemovalTime?
    ) throws -> RemovedData {
        var removed = RemovedData(0)
        if let time { removed.count = try remove(step, of: round, database, time) }
        if step == .ledger {
            let (bytes, entries) = try Ledger.measure(database)
            removed.ledgerBytes = Int(clamping: bytes)
            removed.ledgerEntries = Int(clamping: entries)
        }
        return removed
    }

    /// Removes some rows of a step.
    ///
    /// - Returns: The number of removed rows.
    private func remove(
        _ step: PurgeStep,
        of round: PurgeRound,
        _ database: Database,
        _ time: RemovalTime
    ) throws -> Int {
        switch step {
        case .clocks:
            try database.transaction { try ReceiptTimes.note(now: time.now, database) }
            return 0
        case .tombstones(let table, let days):
            guard let time = time.end(days: days) else { return 0 }
            let head = heads.head(of: table)
            let count = try database.transaction {
                try Self.removeTombstones(
                    table,
                    upTo: ReceiptTimes.end(table, time, database),
                    keepsBases: round.merging.contains(table),
                    head,
                    database
                )
            }
            head.ties.transactionEnded()
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
                heads.head(of: table).clock.raiseHorizon(to: last)
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

    /// Returns the tables of a database.
    static func tables(in database: Database) throws -> [String] {
        let statement = try database.prepare(ServerSchema.readTables)
        defer { statement.reset() }
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }

    /// Removes the tombstones of deletes that were received before `time`; nil removes all of them.
    ///
    /// Each transaction removes a limited number of rows.
    ///
    /// - Returns: The number of removed tombstones.
    static func removeTombstones(
        of table: String,
        receivedBefore time: Int64?,
        _ database: Database,
        report: (_ rows: Int) -> Void
    ) throws -> Int {
        var total = 0
        while true {
            let count = try database.transaction {
                let end = try time.map { try ReceiptTimes.end(table, $0, database) } ?? .max
                // Only its configuration knows whether a table keeps replaced rows.
                return try removeTombstones(table, upTo: end, keepsBases: true, nil, database)
            }
            total += count
            report(count)
            if count < PurgeSchedule.rowsMax { return total }
        }
    }

    private static func removeTombstones(
        _ table: String,
        upTo end: Int64,
        keepsBases: Bool,
        _ head: TableHead?,
        _ database: Database
    ) throws -> Int {
        let bounds: [SQLValue] = [.integer(end), .integer(Int64(PurgeSchedule.rowsMax))]
        if keepsBases {
            try database.prepare(ServerSchema.dropBasesOfTombstones(table))
                .run(bounds + [.text(table)])
        }
        let statement = try database.prepare(ServerSchema.purgeTombstones(table))
        defer { statement.reset() }
        try statement.bind(bounds)
        var count = 0
        var last: Int64 = 0
        while try statement.step() {
            let timestamp = statement.integer(0)
            head?.ties.rowLeaves(timestamp)
            last = max(last, timestamp)
            count += 1
        }
        guard count > 0 else { return 0 }
        // Devices that have these rows cannot learn any more that they are deleted.
        head?.clock.raiseHorizon(to: last)
        try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(last)])
        return count
    }
}
