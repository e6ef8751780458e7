// PostgresPurge: removes tombstones, entries of the change logs and of the ledger, and counts of rows that left a
// millisecond.
//
// A device that was offline for longer misses the deletes. So the same transaction raises the horizon of the table,
// which makes such a device start over. Several servers may run the purge at once; each removes the rows that it locks.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The purge of data that exceeds its retention time.
struct PostgresPurge: RetentionSteps {
    let limits: ServerLimits
    /// Returns the time in microseconds since 1970; nil for the time of the database.
    var now: (@Sendable () -> Int64)?

    func readTime(
        _ connection: PostgresConnection
    ) throws -> (wall: Int64, memory: TrustedTime.Memory?) {
        let time = try PostgresReceipts.time(connection)
        return (now?() ?? time.now, time.memory)
    }

    func store(_ memory: TrustedTime.Memory, _ connection: PostgresConnection) throws {
        try PostgresReceipts.store(memory, connection)
    }

    func timestamps(_ connection: PostgresConnection) throws -> [TableTimestamp] {
        try PostgresReceipts.timestamps(connection)
    }

    func run(
        _ step: PurgeStep,
        of round: PurgeRound,
        _ connection: PostgresConnection,
        time: RemovalTime?
    ) throws -> RemovedData {
        try time.map { try remove(step, connection, time: $0) } ?? RemovedData(0)
    }

    /// Removes some rows of a step.
    private func remove(
        _ step: PurgeStep,
        _ connection: PostgresConnection,
        time: RemovalTime
    ) throws -> RemovedData {
        try connection.execute(
            """
            BEGIN; SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '10s';
            SET LOCAL tideline.own = 'on'
            """
        )
        var removed = RemovedData(0)
        switch step {
        case .clocks: try PostgresReceipts.note(now: time.now, connection)
        case .tombstones(let table, let days):
            if let end = time.end(days: days) {
                removed.count = try removeTombstones(table, before: end, time.now, connection)
            }
        case .changes(let table, let days):
            if let end = time.end(days: days) {
                removed.count = try forgetChanges(table, before: end, connection)
            }
        case .ledger: removed = try trimLedger(time, connection)
        case .audit:
            if let end = time.end(days: limits.auditDays) {
                removed.count = try PostgresAudit.purge(
                    before: end,
                    upTo: PostgresReceipts.place(ClockAhead.auditKey, end, connection),
                    atMost: PurgeSchedule.rowsMax,
                    connection
                )
            }
        }
        try connection.run("COMMIT")
        return removed
    }

    /// Removes some tombstones of a table that are older than this many days, or of any age for 0.
    ///
    /// - Returns: The number of tombstones; if it is `PurgeSchedule.rowsMax`, there may be more.
    func removeTombstones(
        of table: String,
        olderThan days: Int,
        _ connection: PostgresConnection,
        time: RemovalTime
    ) throws -> Int {
        guard days == 0 else {
            return try remove(.tombstones(of: table, days: days), connection, time: time).count
        }
        try connection.execute(
            "BEGIN; SET LOCAL lock_timeout = '10s'; SET LOCAL tideline.own = 'on'"
        )
        let count = try removeTombstones(table, before: Self.lastTime, time.now, connection)
        try connection.run("COMMIT")
        return count
    }

    /// The end of the year 9999; no row has a later time.
    private static let lastTime: Int64 = 253_402_300_799_000_000

    /// The maximum number of rows that a step removes.
    static let rows = SQLValue.integer(Int64(PurgeSchedule.rowsMax))

    private func removeTombstones(
        _ table: String,
        before time: Int64,
        _ now: Int64,
        _ connection: PostgresConnection
    ) throws -> Int {
        let relation = PostgresName.quoted(table)
        let name = SQLValue.text(table.lowercased())
        try lock(table, "ROW EXCLUSIVE", connection)
        let end = try PostgresReceipts.end(table, time, connection)
        var old = "FROM \(relation) AS r WHERE \"deleted\" AND \"updatedAt\" < $1::timestamptz"
        for reference in try references(to: relation, connection) { old += " AND NOT \(reference)" }
        let gone = try connection.run(
            """
            DELETE FROM \(relation) AS r WHERE "id" IN (
                SELECT "id" \(old) ORDER BY "updatedAt" LIMIT $2 FOR UPDATE SKIP LOCKED
            )
            RETURNING "id", "version"
            """,
            [.text(Timestamp(microseconds: end).exactText), Self.rows]
        )
        guard gone.count > 0 else { return 0 }
        let timestamps = (0..<gone.count).map { gone.integer($0, 1) }
        try connection.run(
            PostgresStatement(
                "DELETE FROM tideline.bases WHERE \"table\" = $1 AND \"id\" = ANY($2::text[])",
                [.value(name), .array((0..<gone.count).map { .text(gone.text($0, 0)) })]
            )
        )
        try leave(name, timestamps, now, connection)
        // No pull can report these deletes any more.
        try connection.run(PostgresSchema.raiseHorizon, [name, .integer(timestamps.max() ?? 0)])
        return gone.count
    }

    /// Locks a table against changes of its schema.
    ///
    /// The purge does not wait for a schema change in progress, because the next round follows soon.
    private func lock(
        _ table: String,
        _ mode: String,
        _ connection: PostgresConnection
    ) throws {
        try connection.execute("LOCK TABLE \(PostgresName.quoted(table)) IN \(mode) MODE NOWAIT")
    }

    /// Returns the conditions under which rows reference a row `r`, which must then be kept.
    ///
    /// Foreign keys with SET NULL or SET DEFAULT do not prevent a removal, and neither do those with CASCADE of tables
    /// that the server does not know. The rows of the server's own tables must not be removed with a
    /// tombstone: some of them are not deleted, and their tables have their own retention times.
    private func references(
        to relation: String,
        _ connection: PostgresConnection
    ) throws -> [String] {
        let found = try connection.run(
            """
            SELECT format('EXISTS (SELECT 1 FROM %s AS x WHERE %s)', c.conrelid::regclass, (
                SELECT string_agg(format('x.%I = r.%I', own.attname, its.attname), ' AND ')
                FROM unnest(c.conkey, c.confkey) AS k(own, its)
                JOIN pg_attribute AS own ON own.attrelid = c.conrelid AND own.attnum = k.own
                JOIN pg_attribute AS its ON its.attrelid = c.confrelid AND its.attnum = k.its
            ) || CASE WHEN c.conrelid = c.confrelid THEN ' AND x."id" <> r."id"' ELSE '' END)
            FROM pg_constraint AS c
            WHERE c.contype = 'f' AND c.confrelid = to_regclass($1) AND (
                c.confdeltype IN ('a', 'r') OR c.confdeltype = 'c' AND c.conrelid IN (
                    SELECT to_regclass(quote_ident("relation")) FROM tideline.tables
                )
            )
            ORDER BY 1
            """,
            [.text(relation)]
        )
        return (0..<found.count).map { found.text($0, 0) }
    }

    /// Counts tombstones with these timestamps as removed.
    private func leave(
        _ name: SQLValue,
        _ timestamps: [Int64],
        _ now: Int64,
        _ connection: PostgresConnection
    ) throws {
        // This runs under the clock's lock, so that a reader that counts the rows of a millisecond sees the removal
        // and the count together.
        let clock = try connection.run(
            "SELECT \"counted\" FROM tideline.clocks WHERE \"table\" = $1 FOR UPDATE",
            [name]
        )
        guard clock.count > 0, now - clock.integer(0, 0) < PostgresClock.countedTime else { return }
        try connection.run(
            PostgresStatement(
                """
                INSERT INTO tideline.departures AS d ("table", "millisecond", "count", "last")
                SELECT $1, stamp / 1000, count(*), $3 FROM unnest($2::bigint[]) AS stamp
                GROUP BY 2 ORDER BY 2
                ON CONFLICT ("table", "millisecond") DO UPDATE
                SET "count" = d."count" + excluded."count", "last" = excluded."last"
                """,
                [.value(name), .array(timestamps.map { .integer($0) }), .value(.integer(now))]
            )
        )
    }

    private func forgetChanges(
        _ table: String,
        before end: Int64,
        _ connection: PostgresConnection
    ) throws -> Int {
        let log = PostgresName.log(table)
        let name = SQLValue.text(table.lowercased())
        try lock(table, "ROW SHARE", connection)
        let gone = try connection.run(
            """
            WITH gone AS (
                DELETE FROM \(log) WHERE "tideline_stamp" IN (
                    SELECT "tideline_stamp" FROM \(log)
                    WHERE "tideline_stamp" < $1 AND "tideline_stamp" > 0
                    ORDER BY "tideline_stamp" LIMIT $2 FOR UPDATE SKIP LOCKED
                )
                RETURNING "tideline_stamp"
            )
            SELECT count(*), coalesce(max("tideline_stamp"), 0)::bigint FROM gone
            """,
            [.integer(try PostgresReceipts.end(table, end, connection)), Self.rows]
        )
        let count = Int(gone.integer(0, 0))
        guard count > 0 else { return 0 }
        try connection.run(PostgresSchema.raiseHorizon, [name, .integer(gone.integer(0, 1))])
        return count
    }

    // MARK: - The ledger

    /// How much longer an entry lives than the oldest accepted First-Sent, so that a delayed repeat is still known.
    private static let margin: Int64 = 86_400_000_000

    /// The accounts may be wrong by one part in this many of the ledger's size.
    private static let accountsPart: Int64 = 100

    /// Removes expired entries and, if there are too many, those of the callers with the most bytes.
    private func trimLedger(
        _ time: RemovalTime,
        _ connection: PostgresConnection
    ) throws -> RemovedData {
        let now = time.now
        if time.isProven { try PostgresReceipts.dateLedger(now: now, connection) }
        let found = try connection.run(
            "SELECT coalesce(sum(\"size\"), 0)::bigint, count(*) FROM tideline.ledger"
        )
        let (size, entries) = (found.integer(0, 0), found.integer(0, 1))
        // Older servers do not charge callers.
        let drift = try abs(LedgerAccounts.bytes(connection) - size)
        if drift > size / Self.accountsPart + Int64(LedgerRules.entryBytes) {
            try LedgerAccounts.recount(connection)
        }
        var removed = RemovedData(0)
        removed.ledgerBytes = Int(clamping: size)
        removed.ledgerEntries = Int(clamping: entries)
        removed.count = try LedgerAccounts.trim(
            to: limits.ledgerBytes,
            atMost: PurgeSchedule.rowsMax,
            connection
        )
        try connection.run(
            "DELETE FROM tideline.departures WHERE \"last\" < $1",
            [.integer(now - PostgresClock.countedTime)]
        )
        let left = PurgeSchedule.rowsMax - removed.count
        guard left > 0, let end = time.end(days: limits.ledgerDays) else { return removed }
        removed.count += try dropOld(before: end - Self.margin, left, connection)
        return removed
    }

    private func dropOld(
        before end: Int64,
        _ count: Int,
        _ connection: PostgresConnection
    ) throws -> Int {
        try LedgerAccounts.forget(before: end, connection)
        let gone = try connection.run(
            """
            WITH gone AS (
                DELETE FROM tideline.ledger WHERE ("request", "caller") IN (
                    SELECT "request", "caller" FROM tideline.ledger WHERE "received" < $1
                    ORDER BY "received" LIMIT $2 FOR UPDATE SKIP LOCKED
                )
                RETURNING "caller", "size", "received"
            )
            SELECT "caller", sum("size")::bigint, count(*), max("received") FROM gone
            GROUP BY "caller"
            """,
            [.integer(end), .integer(Int64(count))]
        )
        guard gone.count > 0 else { return 0 }
        let rows = 0..<gone.count
        let credits = rows.map { (gone.text($0, 0), -Int(clamping: gone.integer($0, 1))) }
        try connection.run(LedgerAccounts.charge(Dictionary(credits) { $0 + $1 }))
        try connection.run(
            """
            INSERT INTO tideline.state ("key", "value") VALUES ('ledgerHorizon', $1::bigint::text)
            ON CONFLICT ("key") DO UPDATE SET "value" = greatest(
                state."value"::bigint, excluded."value"::bigint
            )::text
            """,
            [.integer(rows.map { gone.integer($0, 3) }.max() ?? 0)]
        )
        return rows.reduce(0) { $0 + Int(clamping: gone.integer($1, 2)) }
    }
}
