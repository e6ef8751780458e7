// PostgresReceipts: when commits were received whose table clock was ahead of the wall clock.
//
// The twin of ReceiptTimes in a file. Entries of the ledger are dated here instead, for they have no
// places.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

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

    /// The commit timestamp up to which all commits of a table were received before a time.
    static func end(
        _ table: String,
        _ time: Int64,
        _ connection: PostgresConnection
    ) throws -> Int64 {
        try max(time, place(table.lowercased(), time, connection).map { $0 + 1 } ?? time)
    }

    /// How far a key had come at the last note that is not younger than a time; earlier notes are
    /// dropped.
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

    /// Notes how far the clocks of tables have come that are ahead, and the audit with them.
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

    /// Dates entries of the ledger now that seem to come later, and its horizon.
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

    /// The time of the database, what it remembers, and how far its clocks have come.
    struct Look {
        var now: Int64
        var memory: TrustedTime.Memory?
        /// The newest commit timestamp; nil without commits.
        var newest: Int64?
    }

    static func look(_ connection: PostgresConnection) throws -> Look {
        let found = try connection.run(
            """
            SELECT \(PostgresClock.microseconds),
                (SELECT "value" FROM tideline.state WHERE "key" = '\(TrustedTime.key)'),
                (SELECT coalesce(max("stamp"), 0) FROM tideline.clocks)
            """
        )
        let newest = found.integer(0, 2)
        return Look(
            now: found.integer(0, 0),
            memory: found.isNull(0, 1) ? nil : TrustedTime.Memory(text: found.text(0, 1)),
            newest: newest > 0 ? newest : nil
        )
    }

    /// The newest commit timestamp of a database that may be new.
    static func newest(_ connection: PostgresConnection) throws -> Int64? {
        let found = try connection.run("SELECT to_regclass('tideline.clocks') IS NULL")
        guard !found.boolean(0, 0) else { return nil }
        let newest = try connection.run("SELECT coalesce(max(\"stamp\"), 0) FROM tideline.clocks")
            .integer(0, 0)
        return newest > 0 ? newest : nil
    }

    /// Stores the memory; where ages start over, notes from before say nothing.
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

    /// The clocks of all tables.
    static func stamps(_ connection: PostgresConnection) throws -> [TableStamp] {
        let found = try connection.run(
            "SELECT \"table\", \"stamp\" FROM tideline.clocks ORDER BY \"table\""
        )
        return TableStamp.read(found)
    }
}
