// PostgresAudit: audited changes.
//
// External writes, which bypass the servers, have no entries.

import TidelineCore
import TidelinePostgres
package import TidelineServerCore

/// The audit log, in one table for all audited tables.
enum PostgresAudit {
    /// Creates the audit log.
    ///
    /// If several servers write, or a clock was set, timestamps are not in the order of positions.
    static let create = """
        CREATE TABLE IF NOT EXISTS tideline.audit (
            "place"     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            "stamp"     bigint NOT NULL,
            "table"     text COLLATE "C" NOT NULL,
            "id"        text COLLATE "C" NOT NULL,
            "action"    text COLLATE "C" NOT NULL,
            "user"      text COLLATE "C",
            "device"    text COLLATE "C",
            "dashboard" boolean NOT NULL,
            "columns"   text COLLATE "C" NOT NULL
        );
        DO $$ BEGIN
            IF to_regclass('tideline.tideline_audit_stamp') IS NULL THEN
                CREATE INDEX "tideline_audit_stamp" ON tideline.audit ("stamp");
            END IF;
        END $$;
        """

    static func put(_ entries: [AuditEntry]) -> PostgresStatement {
        func texts(_ text: (AuditEntry) -> String?) -> PostgresParameter {
            .array(entries.map { text($0).map { SQLValue.text($0) } ?? .null })
        }
        return PostgresStatement(
            """
            INSERT INTO tideline.audit (
                "stamp", "table", "id", "action", "user", "device", "dashboard", "columns"
            )
            SELECT s, t, i, a, u, v, d <> 0, c FROM unnest(
                $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                $7::bigint[], $8::text[]
            ) WITH ORDINALITY AS x(s, t, i, a, u, v, d, c, number) ORDER BY number
            """,
            [
                .array(entries.map { .integer($0.timestamp) }), texts(\.table), texts(\.id),
                texts(\.action.rawValue), texts(\.author.user), texts(\.author.device),
                .array(entries.map { .integer($0.author.isDashboard ? 1 : 0) }),
                texts(\.columnsText),
            ]
        )
    }

    /// Removes some expired entries; returns their number.
    ///
    /// Entries up to `place` were received earlier, regardless of their timestamps.
    static func purge(
        before time: Int64,
        upTo place: Int64?,
        atMost count: Int,
        _ connection: PostgresConnection
    ) throws -> Int {
        let removed = try purge("\"stamp\" < $1", "\"stamp\"", time, atMost: count, connection)
        guard let place, removed < count else { return removed }
        let left = count - removed
        return try removed
            + purge("\"place\" <= $1", "\"place\"", place, atMost: left, connection)
    }

    private static func purge(
        _ condition: String,
        _ order: String,
        _ bound: Int64,
        atMost count: Int,
        _ connection: PostgresConnection
    ) throws -> Int {
        let gone = try connection.run(
            """
            WITH gone AS (
                DELETE FROM tideline.audit WHERE "place" IN (
                    SELECT "place" FROM tideline.audit WHERE \(condition)
                    ORDER BY \(order) LIMIT $2 FOR UPDATE SKIP LOCKED
                )
                RETURNING 1
            )
            SELECT count(*) FROM gone
            """,
            [.integer(bound), .integer(Int64(count))]
        )
        return Int(gone.integer(0, 0))
    }

    static func isMissing(_ connection: PostgresConnection) throws -> Bool {
        try connection.run("SELECT to_regclass('tideline.audit') IS NULL").boolean(0, 0)
    }

    /// Returns the entries that a query finds, with their positions.
    static func entries(
        _ end: String,
        _ values: [SQLValue],
        _ connection: PostgresConnection
    ) throws -> [(place: Int64, entry: AuditEntry)] {
        let found = try connection.run(
            """
            SELECT "place", "stamp", "table", "id", "action", "user", "device", "dashboard",
                "columns"
            FROM tideline.audit \(end)
            """,
            values
        )
        return (0..<found.count).map { row in
            let author = WriteAuthor(
                user: found.isNull(row, 5) ? nil : found.text(row, 5),
                device: found.isNull(row, 6) ? nil : found.text(row, 6),
                isDashboard: found.boolean(row, 7)
            )
            let entry = AuditEntry(
                timestamp: found.integer(row, 1),
                table: found.text(row, 2),
                id: found.text(row, 3),
                action: found.text(row, 4),
                author: author,
                columnsText: found.text(row, 8)
            )
            return (found.integer(row, 0), entry)
        }
    }
}

extension PostgresMaintenance {
    /// Returns the newest audit entries that match a query.
    ///
    /// - Throws: ``DatabaseError``
    package func audit(_ query: AuditQuery) throws -> [AuditEntry] {
        try connected { connection in
            let found = try connection.run("SELECT to_regclass('tideline.state') IS NULL")
            guard !found.boolean(0, 0) else {
                throw DatabaseError(
                    .missing,
                    "\(address): this database has no tables of a server."
                )
            }
            // No server with an audit log has used this database.
            if try PostgresAudit.isMissing(connection) { return [] }
            return try PostgresAudit.entries(
                """
                WHERE ($1::text IS NULL OR lower("table") = lower($1::text))
                AND ($2::text IS NULL OR "id" = $2::text)
                AND ($3::text IS NULL OR "user" = $3::text)
                ORDER BY "place" DESC LIMIT $4
                """,
                [
                    query.table.map { SQLValue.text($0) } ?? .null,
                    query.id.map { SQLValue.text($0) } ?? .null,
                    query.user.map { SQLValue.text($0) } ?? .null,
                    .integer(Int64(query.countMax)),
                ],
                connection
            ).map(\.entry)
        }
    }
}
