// TombstonePurge: removes tombstones that are older than their table keeps them.
//
// A device that was away for longer never learns of these deletes: that is the operator's choice.
// Each run removes a bounded number, so that writes do not wait for it.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct TombstonePurge: Sendable {
    /// The most tombstones of a table that one run removes.
    static let rowsMax = 200

    /// The days that each table keeps its tombstones, by name; absent for ever.
    private(set) var days: [String: Int] = [:]

    /// The tables that keep the rows that writes replaced.
    private var merging: Set<String> = []
    private var ties: [String: TieCounts] = [:]

    mutating func take(_ tables: [TableDefinition], ties: (String) -> TieCounts) {
        for table in tables {
            self.ties[table.name] = ties(table.name)
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
                while try purge.step() {
                    ties[table]?.rowLeaves(purge.integer(0))
                    count += 1
                }
                if count == Self.rowsMax { isFull = true }
            }
            ties[table]?.settle()
        }
        return isFull
    }
}
