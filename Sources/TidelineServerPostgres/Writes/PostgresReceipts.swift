// PostgresReceipts: records receipt times.
//
// It does the same as ReceiptTimes for a file. Entries of the ledger have no positions, so their times are corrected
// instead.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The times at which commits were received while a table clock was ahead of the wall clock.
enum PostgresReceipts {
    static let create = """
        CREATE TABLE IF NOT EXISTS tideline.receipts (
            "key"   text COLLATE "C",
            "time"  bigint,
            "place" bigint NOT NULL,
            PRIMARY KEY ("key", "time")
        );
        """

    static func isMissing(_ connection: PostgresConnection) throws -> Bool {
        try connection.run("SELECT to_regclass('tideline.receipts') IS NULL").boolean(0, 0)
    }

    /// Returns the commit timestamp of a table up to which all commits were received before a time.
    static func end(
        _ table: String,
        _ time: Int64,
        _ connection: PostgresConnection
    ) throws -> Int64 {
        try max(time, place(table.lowercased(), time, connection).map { $0 + 1 } ?? time)
    }

    /// Returns the position of a key in its last record up to a time; removes earlier records.
    static func place(
        _ key: String,
        _ time: Int64,
        _ connection: PostgresConnection
    ) throws -> Int64? {
        let found = try connection.run(
            """
            SELECT max("place"), count(*) FROM tideline.receipts WHERE "key" = $1 AND "time" <= $2
            """,
            [.text(key), .integer(time)]
        )
        guard !found.isNull(0, 0) else { return nil }
        if found.integer(0, 1) > 1 {
            try connection.run(
                """
                DELETE FROM tideline.receipts WHERE "key" = $1 AND "time" < (
                    SELECT max("time") FROM tideline.receipts WHERE "key" = $1 AND "time" <= $2
                )
                """,
                [.text(key), .integer(time)]
            )
        }
        return found.integer(0, 0)
    }

    /// Records the table clocks that are ahead, and the position of the audit log.
    static func note(now: Int64, _ connection: PostgresConnection) throws {
        try connection.run(
            """
            WITH ahead AS (
                SELECT "table" AS "key", "stamp" AS "place" FROM tideline.clocks
                WHERE "stamp" > $1::bigint + \(ClockAhead.tolerance)
            ), places AS (
                SELECT "key", "place" FROM ahead
                UNION ALL
                SELECT '\(ClockAhead.auditKey)', max("place") FROM tideline.audit
                WHERE EXISTS (SELECT FROM ahead) HAVING max("place") IS NOT NULL
            )
            INSERT INTO tideline.receipts ("key", "time", "place")
            SELECT p."key", $1::bigint, p."place" FROM places AS p WHERE NOT EXISTS (
                SELECT FROM tideline.receipts AS r
                WHERE r."key" = p."key" AND (
                    r."time" > $1::bigint - \(ClockAhead.notePause) AND r."time" <= $1::bigint
                    OR r."place" >= p."place"
                )
            )
            ON CONFLICT ("key", "time") DO NOTHING
            """,
            [.integer(now)]
        )
    }

    /// Sets future times of ledger entries, and of the ledger's horizon, to the current time.
    static func dateLedger(now: Int64, _ connection: PostgresConnection) throws {
        let end = SQLValue.integer(now + RepeatKey.aheadMax)
        try connection.run(
            """
            UPDATE tideline.ledger SET "received" = $1::bigint
            WHERE ("request", "caller") IN (
                SELECT "request", "caller" FROM tideline.ledger WHERE "received" > $1::bigint
                LIMIT $2 FOR UPDATE SKIP LOCKED
            )
            """,
            [end, PostgresPurge.rows]
        )
        try connection.run(
            "UPDATE tideline.ledger_callers SET \"horizon\" = $1 WHERE \"horizon\" > $1",
            [end]
        )
        try connection.run(
            """
            UPDATE tideline.state SET "value" = $1::bigint::text
            WHERE "key" = 'ledgerHorizon' AND "value"::bigint > $1::bigint
            """,
            [end]
        )
    }

    // MARK: - The time that is trusted

    /// The time of the database, its time record, and its newest commit timestamp.
    struct DatabaseTime {
        var now: Int64
        var memory: TrustedTime.Memory?
        /// The newest commit timestamp; nil if nothing was committed.
        var newest: Int64?
    }

    static func time(_ connection: PostgresConnection) throws -> DatabaseTime {
        let found = try connection.run(
            """
            SELECT \(PostgresClock.microseconds),
                (SELECT "value" FROM tideline.state WHERE "key" = '\(TrustedTime.key)'),
                (SELECT coalesce(max("stamp"), 0) FROM tideline.clocks)
            """
        )
        let newest = found.integer(0, 2)
        return DatabaseTime(
            now: found.integer(0, 0),
            memory: found.isNull(0, 1) ? nil : TrustedTime.Memory(text: found.text(0, 1)),
            newest: newest > 0 ? newest : nil
        )
    }

    /// Returns the newest commit timestamp of a database, which may be new.
    static func newest(_ connection: PostgresConnection) throws -> Int64? {
        let found = try connection.run("SELECT to_regclass('tideline.clocks') IS NULL")
        guard !found.boolean(0, 0) else { return nil }
        let newest = try connection.run("SELECT coalesce(max(\"stamp\"), 0) FROM tideline.clocks")
            .integer(0, 0)
        return newest > 0 ? newest : nil
    }

    /// Stores the time record; if ages start over, removes earlier receipt records.
    static func store(_ memory: TrustedTime.Memory, _ connection: PostgresConnection) throws {
        try connection.run(
            PostgresSchema.putState,
            [.text(TrustedTime.key), .text(memory.text)]
        )
        try connection.run(
            "DELETE FROM tideline.receipts WHERE \"time\" < $1",
            [.integer(memory.agesFrom)]
        )
    }

    /// Returns the clocks of all tables.
    static func timestamps(_ connection: PostgresConnection) throws -> [TableTimestamp] {
        let found = try connection.run(
            "SELECT \"table\", \"stamp\" FROM tideline.clocks ORDER BY \"table\""
        )
        return TableTimestamp.read(found)
    }
}
