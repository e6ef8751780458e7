// PostgresAudit: who changed what, in one table for all tables that are audited.
//
// What others write to the tables, past the servers, has no entries.

import TidelineCore
import TidelinePostgres
package import TidelineServerCore

enum PostgresAudit {
    static let create = """
        CREATE TABLE IF NOT EXISTS tideline.audit (
            "place"   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            "stamp"   bigint NOT NULL,
            "table"   text COLLATE "C" NOT NULL,
            "id"      text COLLATE "C" NOT NULL,
            "action"  text NOT NULL,
            "author"  text COLLATE "C",
            "columns" text NOT NULL
        );
        """

    static func put(_ entries: [AuditEntry]) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO tideline.audit ("stamp", "table", "id", "action", "author", "columns")
            SELECT * FROM unnest(
                $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]
            )
            """,
            [
                .array(entries.map { .integer($0.stamp) }),
                .array(entries.map { .text($0.table) }), .array(entries.map { .text($0.id) }),
                .array(entries.map { .text($0.action.rawValue) }),
                .array(entries.map { $0.author.map { SQLValue.text($0) } ?? .null }),
                .array(entries.map { .text($0.columnsText) }),
            ]
        )
    }

    /// Removes some of the oldest entries; returns how many.
    static func purge(
        before time: Int64,
        atMost count: Int,
        _ connection: PostgresConnection
    ) throws -> Int {
        let gone = try connection.run(
            """
            WITH gone AS (
                DELETE FROM tideline.audit WHERE "stamp" < $1 AND "place" IN (
                    SELECT "place" FROM tideline.audit ORDER BY "place" LIMIT $2
                    FOR UPDATE SKIP LOCKED
                )
                RETURNING 1
            )
            SELECT count(*) FROM gone
            """,
            [.integer(time), .integer(Int64(count))]
        )
        return Int(gone.integer(0, 0))
    }
}

extension PostgresCare {
    /// The newest entries of the audit that are asked for.
    package func audit(_ query: AuditQuery) throws -> [AuditEntry] {
        try connected { connection in
            let found = try connection.run("SELECT to_regclass('tideline.audit') IS NULL")
            guard !found.boolean(0, 0) else { return [] }
            let rows = try connection.run(
                """
                SELECT "stamp", "table", "id", "action", "author", "columns" FROM tideline.audit
                WHERE ($1::text IS NULL OR lower("table") = lower($1::text))
                AND ($2::text IS NULL OR "id" = $2::text)
                AND ($3::text IS NULL OR "author" = $3::text)
                ORDER BY "place" DESC LIMIT $4
                """,
                [
                    query.table.map { SQLValue.text($0) } ?? .null,
                    query.id.map { SQLValue.text($0) } ?? .null,
                    query.author.map { SQLValue.text($0) } ?? .null,
                    .integer(Int64(query.countMax)),
                ]
            )
            return (0..<rows.count).compactMap { row in
                AuditEntry(
                    stamp: rows.integer(row, 0),
                    table: rows.text(row, 1),
                    id: rows.text(row, 2),
                    action: rows.text(row, 3),
                    author: rows.isNull(row, 4) ? nil : rows.text(row, 4),
                    columnsText: rows.text(row, 5)
                )
            }
        }
    }
}
