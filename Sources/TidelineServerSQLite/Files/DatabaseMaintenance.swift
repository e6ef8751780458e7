// DatabaseMaintenance: maintenance commands; backups may run on an open database.

import Foundation
import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// The maintenance of a database while no server has it open.
package struct DatabaseMaintenance: Sendable {
    let path: String

    package init(path: String) {
        self.path = path
    }

    /// Gives the database a new epoch, so that clients pull everything again.
    ///
    /// - Returns: The epoch.
    package func renewEpoch() throws -> String {
        try alone { database in
            try SchemaChange(database: database, now: { 0 }).openWhole()
            try database.execute(ServerSchema.renewEpoch)
            try FileIdentity.remove(database)
            let statement = try database.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return try statement.step() ? statement.text(0) : ""
        }
    }

    /// Returns the steps that would make the tables match their declarations; a server may be running.
    package func plan(_ tables: [TableDefinition], isComplete: Bool) throws -> [SchemaStep] {
        try ServerFile(path: path).check(mayBeBlank: true)
        return try DatabaseError.naming(path) {
            let database = try Database(path: path, mode: .existing)
            return try database.snapshot {
                try SchemaChange.plan(tables, isComplete: isComplete, in: database)
            }
        }
    }

    /// Changes the tables to match their declarations, even if values are lost.
    ///
    /// - Parameters:
    ///   - tables: The tables.
    ///   - isComplete: Whether stored columns that are not declared are removed.
    ///   - now: The time in microseconds since 1970.
    ///   - report: Called repeatedly with the number of converted rows of a column.
    /// - Returns: The steps that were done.
    /// - Throws: ``DatabaseError``
    package func migrate(
        _ tables: [TableDefinition],
        isComplete: Bool,
        now: @escaping @Sendable () -> Int64,
        report: @escaping (_ part: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> [SchemaStep] {
        let lock = try ServerFile(path: path).lock(mayBeNew: false, mayBeBlank: true)
        defer { lock.release() }
        return try DatabaseError.naming(path) {
            let database = try Database(path: path)
            return try SchemaChange(database: database, now: now, report: report)
                .prepare(tables, isComplete: isComplete, hasConsent: true).steps
        }
    }

    /// Removes the tombstones of these tables that are old enough, and raises their horizons.
    ///
    /// - Parameters:
    ///   - names: The names in any letter case; nil for all tables.
    ///   - days: The minimum age of the tombstones; 0 for any age.
    ///   - now: The time, in microseconds since 1970.
    ///   - trustsClock: Whether to trust the wall clock, however far it is ahead of the newest commit.
    ///   - report: Called after each step with the number of tombstones removed from a table.
    /// - Returns: The tables with the numbers of removed tombstones.
    /// - Throws: ``DatabaseError``
    package func purgeTombstones(
        of names: [String]?,
        olderThan days: Int,
        now: Int64,
        trustsClock: Bool = false,
        report: (_ table: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> [(table: String, rows: Int)] {
        let lock = try ServerFile(path: path).lock(mayBeNew: false)
        defer { lock.release() }
        return try DatabaseError.naming(path) {
            let database = try Database(path: path)
            try database.transaction {
                try SchemaChange(database: database, now: { now }).openWhole()
            }
            let time = try removalTime(days, now, trustsClock, database)
            return try tables(names, database).map { table in
                let rows = try RetentionPurge.removeTombstones(
                    of: table,
                    receivedBefore: time,
                    database,
                    report: { report(table, $0) }
                )
                return (table, rows)
            }
        }
    }

    /// Returns the tables with these names, in any letter case; nil for all.
    private func tables(_ names: [String]?, _ database: Database) throws -> [String] {
        let known = try RetentionPurge.tables(in: database)
        if let missing = names?.first(where: { name in
            !known.contains { $0.lowercased() == name.lowercased() }
        }) {
            throw DatabaseError(
                .missing,
                "'\(path)' has no table '\(missing)'. Its tables: \(known.joined(separator: ", "))."
            )
        }
        return known.filter { table in
            names?.contains { $0.lowercased() == table.lowercased() } ?? true
        }
    }

    /// Returns the time before which a tombstone was received if it is older than this many days; nil to remove all
    /// tombstones.
    ///
    /// - Throws: ``DatabaseError`` if the wall clock is far ahead of the last time in the database.
    private func removalTime(
        _ days: Int,
        _ now: Int64,
        _ trustsClock: Bool,
        _ database: Database
    ) throws -> Int64? {
        guard days > 0 else { return nil }
        let memory = try ReceiptTimes.memory(database)
        let known = try memory?.time ?? ReceiptTimes.newest(database) ?? now
        guard trustsClock || now - known <= TrustedTime.nearness else {
            throw DatabaseError.doubtedClock(path, now: now, known: known)
        }
        let from = trustsClock ? 0 : memory?.agesFrom ?? 0
        return RemovalTime(now: now, agesFrom: from).end(days: days) ?? 0
    }

    /// Sets table clocks that are ahead back to the current time.
    ///
    /// Rows with future times get new versions, and the database gets a new epoch, so that clients pull again.
    ///
    /// - Parameters:
    ///   - names: The names in any letter case; nil for all tables.
    ///   - now: The time, in microseconds since 1970.
    /// - Returns: The epoch, nil if no clock was ahead, and the tables with the counts of their changed rows.
    /// - Throws: ``DatabaseError``
    package func resetClocks(
        of names: [String]?,
        now: Int64
    ) throws -> (epoch: String?, tables: [(table: String, rows: Int)]) {
        try alone { database in
            try SchemaChange(database: database, now: { now }).openWhole()
            var reset: [(table: String, rows: Int)] = []
            for table in try tables(names, database) {
                let timestamp =
                    try database.integer(ServerSchema.readTimestamp, [.text(table)]) ?? 0
                guard timestamp > now else { continue }
                let rows = try RowChange(database, table: table, report: { _, _ in })
                    .resetClock(to: now)
                reset.append((table, rows))
            }
            guard !reset.isEmpty else { return (nil, []) }
            try FileIdentity.remove(database)
            for sql in [
                ServerSchema.resetLedger, ServerSchema.resetLedgerHorizon,
                ServerSchema.lowerLedgerHorizons,
            ] {
                try database.prepare(sql).run([.integer(now)])
            }
            try database.execute(ServerSchema.renewEpoch)
            let statement = try database.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return (try statement.step() ? statement.text(0) : "", reset)
        }
    }

    /// Runs `body` in a transaction while no server uses the database.
    private func alone<Result>(_ body: (Database) throws -> Result) throws -> Result {
        let lock = try ServerFile(path: path).lock(mayBeNew: false)
        defer { lock.release() }
        return try DatabaseError.naming(path) {
            let database = try Database(path: path)
            let result = try database.transaction { try body(database) }
            if try FileIdentity.read(database) == nil { lock.note(nil) }
            return result
        }
    }
}
