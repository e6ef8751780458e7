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
    static let rowsMax = 500
    /// How many seconds the writer waits for work before it looks for tombstones again.
    static let interval = 600

    /// The days that each table keeps its tombstones, by name; absent for ever.
    private(set) var days: [String: Int] = [:]

    mutating func take(_ tables: [TableDefinition]) {
        for table in tables { days[table.name] = table.softDelete ? table.tombstoneDays : nil }
    }

    /// Removes some.
    ///
    /// - Returns: Whether more may be left.
    func run(_ database: Database, now: Int64) throws -> Bool {
        var isFull = false
        for (table, days) in days.sorted(by: { $0.key < $1.key }) {
            let end = now - Int64(days) * 86_400_000_000
            try database.transaction {
                try database.prepare(ServerSchema.purgeTombstones(table)).run([
                    .integer(end), .integer(Int64(Self.rowsMax)),
                ])
            }
            if database.changes == Self.rowsMax { isFull = true }
        }
        return isFull
    }
}
