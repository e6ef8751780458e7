// LedgerAccounts: bounds the ledger.
//
// Several servers charge the same caller at once. So each caller has several accounts, and a server uses one of them;
// otherwise each commit would wait for those of the other servers. If all entries together exceed
// `limits.ledgerBytes`, the oldest entries of the caller with the most bytes are dropped first.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The accounts of each caller's bytes in the idempotency ledger.
enum LedgerAccounts {
    static let create = """
        DO $$ BEGIN
            IF to_regclass('tideline.ledger_callers') IS NULL THEN
                CREATE TABLE tideline.ledger_callers (
                    "caller"  text COLLATE "C",
                    "account" bigint,
                    "bytes"   bigint NOT NULL,
                    "horizon" bigint NOT NULL DEFAULT 0,
                    PRIMARY KEY ("caller", "account")
                ) WITH (fillfactor = 50);
                INSERT INTO tideline.ledger_callers ("caller", "account", "bytes")
                SELECT "caller", 0, sum("size") FROM tideline.ledger GROUP BY "caller";
            END IF;
            IF to_regclass('tideline.tideline_caller') IS NULL THEN
                CREATE INDEX "tideline_caller" ON tideline.ledger ("caller", "received");
            END IF;
        END $$;
        """

    /// The number of accounts of a caller.
    private static let accounts: Int64 = 8

    /// The account of a connection.
    private static let account = "pg_backend_pid() % \(accounts)"

    /// Charges new entries to their callers, ordered by name, as on all servers.
    static func charge(_ bytes: [String: Int], horizon: Int64 = 0) -> PostgresStatement {
        let callers = bytes.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        return PostgresStatement(
            """
            INSERT INTO tideline.ledger_callers AS a ("caller", "account", "bytes", "horizon")
            SELECT c, \(account), b, $3::bigint
            FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS x(c, b, number)
            ORDER BY number
            ON CONFLICT ("caller", "account") DO UPDATE SET
                "bytes" = a."bytes" + excluded."bytes",
                "horizon" = greatest(a."horizon", excluded."horizon")
            """,
            [
                .array(callers.map { .text($0) }),
                .array(callers.map { .integer(Int64(bytes[$0] ?? 0)) }), .value(.integer(horizon)),
            ]
        ).prepared
    }

    /// Returns the bytes of all entries.
    static func bytes(_ connection: PostgresConnection) throws -> Int64 {
        try connection.run(
            "SELECT coalesce(sum(\"bytes\"), 0)::bigint FROM tideline.ledger_callers"
        ).integer(0, 0)
    }

    /// Removes entries of the callers with the most bytes if there are too many, within a transaction.
    ///
    /// - Returns: The number of removed entries; if it is `count` or more, there may be more to remove.
    static func trim(
        to bound: Int,
        atMost count: Int,
        _ connection: PostgresConnection
    ) throws -> Int {
        var dropped = 0
        while dropped < count {
            let excess = try bytes(connection) - Int64(bound)
            guard excess > 0 else { break }
            let most = try connection.run(
                """
                SELECT "caller", sum("bytes")::bigint FROM tideline.ledger_callers
                GROUP BY "caller" ORDER BY 2 DESC LIMIT 2
                """
            )
            guard most.count > 0, most.integer(0, 1) > 0 else { break }
            let next = most.count > 1 ? most.integer(1, 1) : 0
            let wanted = min(excess, max(1, most.integer(0, 1) - next))
            let found = try drop(of: most.text(0, 0), wanted, count - dropped, connection)
            guard found > 0 else {
                // The accounts exceed the ledger, or another server is about to drop these entries.
                try recount(connection)
                break
            }
            dropped += found
        }
        return dropped
    }

    private static func drop(
        of caller: String,
        _ wanted: Int64,
        _ most: Int,
        _ connection: PostgresConnection
    ) throws -> Int {
        let gone = try connection.run(
            """
            WITH gone AS (
                DELETE FROM tideline.ledger AS l USING (
                    SELECT "request", "caller", sum("size") OVER (ORDER BY "received", "request")
                        - "size" AS before
                    FROM (
                        SELECT "request", "caller", "size", "received" FROM tideline.ledger
                        WHERE "caller" = $1 ORDER BY "received", "request" LIMIT $3
                    ) AS o
                ) AS o
                WHERE l."request" = o."request" AND l."caller" = o."caller" AND o.before < $2
                RETURNING l."size", l."received"
            )
            SELECT count(*), coalesce(sum("size"), 0)::bigint, coalesce(max("received"), 0)::bigint
            FROM gone
            """,
            [.text(caller), .integer(wanted), .integer(Int64(most))]
        )
        let bytes = Int(clamping: gone.integer(0, 1))
        try connection.run(charge([caller: -bytes], horizon: gone.integer(0, 2)))
        return Int(clamping: gone.integer(0, 0))
    }

    /// Counts the bytes of all callers; writes with idempotency keys wait in the meantime.
    static func recount(_ connection: PostgresConnection) throws {
        try connection.execute("LOCK TABLE tideline.ledger_callers IN EXCLUSIVE MODE")
        try connection.run(
            """
            INSERT INTO tideline.ledger_callers ("caller", "account", "bytes")
            SELECT "caller", 0, 0 FROM tideline.ledger GROUP BY "caller"
            ON CONFLICT ("caller", "account") DO NOTHING
            """
        )
        try connection.run(
            """
            UPDATE tideline.ledger_callers AS a SET "bytes" = CASE
                WHEN a."account" = (
                    SELECT min(b."account") FROM tideline.ledger_callers AS b
                    WHERE b."caller" = a."caller"
                )
                THEN coalesce((
                    SELECT sum("size") FROM tideline.ledger AS l WHERE l."caller" = a."caller"
                ), 0)
                ELSE 0
            END
            """
        )
    }

    /// Removes the accounts of callers whose entries have all expired.
    static func forget(before time: Int64, _ connection: PostgresConnection) throws {
        try connection.run(
            """
            DELETE FROM tideline.ledger_callers WHERE "horizon" < $1 AND "caller" IN (
                SELECT a."caller" FROM tideline.ledger_callers AS a
                WHERE NOT EXISTS (
                    SELECT FROM tideline.ledger AS l WHERE l."caller" = a."caller"
                )
                GROUP BY a."caller" HAVING max(a."horizon") < $1 LIMIT 200
            )
            """,
            [.integer(time)]
        )
    }
}

/// The schedule by which a server measures the ledger, to which other servers also add entries.
struct LedgerBound: Sendable {
    private let bound: Int
    /// The bytes at the last measurement plus those that this server has added; nil before the first one.
    private var known: Int?
    private var added = 0

    init(bytes: Int) { bound = bytes }

    /// The target size of a trim, which is below the limit because other servers also add entries.
    var target: Int { bound - bound / 20 }

    /// Whether a measurement is due after this many bytes were added.
    mutating func isDue(after bytes: Int) -> Bool {
        added += bytes
        guard let known else { return true }
        return known + added > target || added > bound / 64
    }

    /// Records a measurement; returns true if the ledger is too large.
    mutating func isOver(_ bytes: Int64) -> Bool {
        known = Int(clamping: bytes)
        added = 0
        return bytes > Int64(target)
    }
}
