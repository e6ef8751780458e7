// PostgresMaintenance+Inspection: reports counts, times and sizes of a database, and removes tombstones on request;
// servers may run.

import TidelineCore
import TidelinePostgres
package import TidelineServerCore

extension PostgresMaintenance {
    /// Returns counts, times and names, but no values of rows.
    ///
    /// - Throws: ``DatabaseError``
    package func report() throws -> Report {
        try connected { connection in
            try checkWhole(connection)
            try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            let state = try connection.run(
                """
                SELECT (SELECT "value" FROM tideline.state WHERE "key" = 'format'),
                    (SELECT "value" FROM tideline.state WHERE "key" = 'epoch'),
                    (SELECT count(*) FROM tideline.ledger), (SELECT count(*) FROM tideline.bases),
                    pg_database_size(current_database()), \(PostgresClock.microseconds)
                """
            )
            var report = Report([
                "kind": .text("server"),
                "format": state.isNull(0, 0) ? .none : .text(state.text(0, 0)),
                "epoch": state.isNull(0, 1) ? .none : .text(state.text(0, 1)),
                "ledgerEntries": .integer(state.integer(0, 2)),
                "mergeBases": .integer(state.integer(0, 3)),
            ])
            report["auditEntries"] = .integer(
                try PostgresAudit.isMissing(connection)
                    ? 0 : connection.run("SELECT count(*) FROM tideline.audit").integer(0, 0)
            )
            report["bytes"] = .report(Report(["database": .integer(state.integer(0, 4))]))
            report["tables"] = .list(try tableReports(connection, now: state.integer(0, 5)))
            try connection.run("COMMIT")
            return report
        }
    }

    private func tableReports(_ connection: PostgresConnection, now: Int64) throws -> [Report] {
        let timestamps = try PostgresReceipts.timestamps(connection)
        let found = try connection.run(
            """
            SELECT t."relation", t."name", c."horizon" FROM tideline.tables AS t
            JOIN tideline.clocks AS c ON c."table" = t."name"
            WHERE to_regclass(quote_ident(t."relation")) IS NOT NULL ORDER BY t."name"
            """
        )
        return try (0..<found.count).map { row in
            let name = found.text(row, 0)
            let log = PostgresName.log(name)
            let hasLog = try !connection.run("SELECT to_regclass($1) IS NULL", [.text(log)])
                .boolean(0, 0)
            let counts = try connection.run(
                """
                SELECT count(*) FILTER (WHERE NOT "deleted"), count(*) FILTER (WHERE "deleted"),
                    \(hasLog ? "(SELECT count(*) FROM \(log))" : "0::bigint")
                FROM \(PostgresName.quoted(name))
                """
            )
            let key = found.text(row, 1)
            let timestamp = timestamps.first { $0.table == key }?.timestamp ?? 0
            return Report([
                "name": .text(name), "rows": .integer(counts.integer(0, 0)),
                "deleted": .integer(counts.integer(0, 1)),
                "changeLog": .integer(counts.integer(0, 2)),
                "lastWrite": .time(timestamp),
                "clockAheadSeconds": .integer(ClockAhead.seconds(timestamp, now: now)),
                "horizon": .time(found.integer(row, 2)),
            ])
        }
    }

    /// Removes the tombstones of these tables that are old enough, and raises the horizons.
    ///
    /// - Parameters:
    ///   - names: The names in any letter case; nil for all tables.
    ///   - days: The minimum age of the tombstones; 0 for any age.
    ///   - trustsClock: Whether to trust the wall clock, however far it is ahead of the newest commit.
    ///   - report: Called after each step with the number of tombstones removed from a table.
    /// - Returns: The tables with the counts of removed rows.
    /// - Throws: ``DatabaseError``
    package func purgeTombstones(
        of names: [String]?,
        olderThan days: Int,
        trustsClock: Bool = false,
        report: (_ table: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> [(table: String, rows: Int)] {
        try connected { connection in
            try checkWhole(connection)
            let current = try PostgresReceipts.time(connection)
            let known = current.memory?.time ?? current.newest ?? current.now
            guard days == 0 || trustsClock || current.now - known <= TrustedTime.nearness else {
                throw DatabaseError.doubtedClock("\(address)", now: current.now, known: known)
            }
            let from = trustsClock ? 0 : current.memory?.agesFrom ?? 0
            let time = RemovalTime(now: current.now, agesFrom: from)
            let purge = PostgresPurge(limits: ServerLimits())
            return try self.named(names, connection).map { table in
                var total = 0
                while true {
                    let count = try purge.removeTombstones(
                        of: table,
                        olderThan: days,
                        connection,
                        time: time
                    )
                    total += count
                    report(table, count)
                    if count < PurgeSchedule.rowsMax { return (table, total) }
                }
            }
        }
    }

    /// Returns the tables with these names, in any letter case; nil for all.
    private func named(
        _ names: [String]?,
        _ connection: PostgresConnection
    ) throws -> [String] {
        let found = try connection.run(
            """
            SELECT "relation", "columns" FROM tideline.tables
            WHERE to_regclass(quote_ident("relation")) IS NOT NULL ORDER BY "name"
            """
        )
        if (0..<found.count).contains(where: { OwnerClockRemoval.isNeeded(found.text($0, 1)) }) {
            throw OwnerClockRemoval.rejection
        }
        let known = (0..<found.count).map { found.text($0, 0) }
        if let missing = names?.first(where: { name in
            !known.contains { $0.lowercased() == name.lowercased() }
        }) {
            throw DatabaseError(
                .missing,
                "\(address): table '\(missing)' does not exist. Existing tables: "
                    + "\(known.joined(separator: ", "))."
            )
        }
        return known.filter { table in
            names?.contains { $0.lowercased() == table.lowercased() } ?? true
        }
    }
}
