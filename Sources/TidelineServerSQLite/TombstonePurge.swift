// TombstonePurge: removes tombstones that are older than their table keeps them, and what the
// change logs have from before their time.
//
// A device that was away for longer never learns of these deletes: that is the operator's choice.
// The horizon of the table says so. Each run removes a bounded number, so that writes do not wait
// for it.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct TombstonePurge: Sendable {
    /// The most tombstones of a table that one run removes.
    static let rowsMax = 200

    /// The days that each table keeps its tombstones, by name; absent for ever.
    private(set) var days: [String: Int] = [:]
    /// The days that each table keeps its change log.
    private(set) var logDays: [String: Int] = [:]

    /// The tables that keep the rows that writes replaced.
    private var merging: Set<String> = []
    private var heads: [String: TableHead] = [:]

    mutating func take(
        _ tables: [TableDefinition],
        changeDays: Int,
        heads: (String) -> TableHead
    ) {
        for table in tables {
            logDays[table.name] = table.tombstoneDays ?? changeDays
            self.heads[table.name] = heads(table.name)
            days[table.name] = table.softDelete ? table.tombstoneDays : nil
            if table.conflict == .merge { merging.insert(table.name) }
        }
    }

    /// Removes some.
    ///
    /// - Returns: Whether more may be left.
    func run(_ database: Database, now: Int64) throws -> Bool {
        var isFull = false
        for (table, days) in days.sorted(by: { $0.key < $1.key }) {
            let end = now - Int64(days) * 86_400_000_000
            let bounds: [SQLValue] = [.integer(end), .integer(Int64(Self.rowsMax))]
            try database.transaction {
                if merging.contains(table) {
                    try database.prepare(ServerSchema.dropBasesOfTombstones(table))
                        .run(bounds + [.text(table)])
                }
                let purge = try database.prepare(ServerSchema.purgeTombstones(table))
                defer { purge.reset() }
                try purge.bind(bounds)
                var count = 0
                var last: Int64 = 0
                while try purge.step() {
                    let stamp = purge.integer(0)
                    heads[table]?.ties.rowLeaves(stamp)
                    last = max(last, stamp)
                    count += 1
                }
                if count == Self.rowsMax { isFull = true }
                guard count > 0 else { return }
                // Who held these rows cannot be told any more that they are gone.
                heads[table]?.clock.raiseHorizon(to: last)
                try database.prepare(ServerSchema.raiseHorizon)
                    .run([.text(table), .integer(last)])
            }
            heads[table]?.ties.settle()
        }
        let isLogFull = try forgetChanges(database, now: now)
        return isFull || isLogFull
    }

    private func forgetChanges(_ database: Database, now: Int64) throws -> Bool {
        var isFull = false
        for (table, days) in logDays.sorted(by: { $0.key < $1.key }) {
            let end = now - Int64(days) * 86_400_000_000
            try database.transaction {
                let (count, last) = try ChangeLog.forget(
                    table,
                    upTo: end,
                    rows: Self.rowsMax,
                    database
                )
                heads[table]?.clock.raiseHorizon(to: last)
                if count == Self.rowsMax { isFull = true }
            }
        }
        return isFull
    }
}
