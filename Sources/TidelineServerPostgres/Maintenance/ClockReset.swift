// ClockReset: sets back a table's clock that a wrong wall clock has put ahead.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The reset of one table, in an open transaction.
struct ClockReset {
    private let table: TableDefinition
    private let now: Int64

    init(_ table: TableDefinition, now: Int64) {
        self.table = table
        self.now = now
    }

    private var relation: String { PostgresName.quoted(table.name) }
    private var name: SQLValue { .text(table.name.lowercased()) }

    /// Gives rows with future times new versions, in the same order; returns the number of rows.
    func run(_ connection: PostgresConnection) throws -> Int {
        try connection.execute("LOCK TABLE \(relation) IN EXCLUSIVE MODE")
        try connection.run(PostgresSchema.lockClock, [name])
        let rows = try connection.run(
            "SELECT count(*) FROM \(relation) WHERE \"version\" > $1",
            [.integer(now)]
        ).integer(0, 0)
        try resetRows(rows, connection)
        try connection.run(
            "UPDATE \(relation) SET \"createdAt\" = \"updatedAt\" WHERE \"createdAt\" > \"updatedAt\""
        )
        // Earlier links are invalid in the new epoch, and the clocks restart.
        let log = PostgresName.log(table.name)
        if try !connection.run("SELECT to_regclass($1) IS NULL", [.text(log)]).boolean(0, 0) {
            try connection.execute("DELETE FROM \(log)")
        }
        for sql in [
            "DELETE FROM tideline.bases WHERE \"table\" = $1 AND \"version\" > $2::bigint",
            "DELETE FROM tideline.receipts WHERE \"key\" = $1 AND $2::bigint > 0",
            "DELETE FROM tideline.departures WHERE \"table\" = $1 AND \"millisecond\" > $2::bigint / 1000",
        ] {
            try connection.run(sql, [name, .integer(now)])
        }
        return Int(clamping: rows)
    }

    private func resetRows(_ rows: Int64, _ connection: PostgresConnection) throws {
        let last = try connection.run(
            "SELECT coalesce(max(\"version\"), 0) FROM \(relation) WHERE \"version\" <= $1",
            [.integer(now)]
        ).integer(0, 0)
        let spacing = PostgresClock.spacing
        let first = max(last, now - rows * spacing)
        try connection.run(
            """
            UPDATE \(relation) AS t
            SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
            FROM (
                SELECT "id", $1::bigint
                    + $2::bigint * row_number() OVER (ORDER BY "updatedAt", "id") AS stamp
                FROM \(relation) WHERE "version" > $3
            ) AS n
            WHERE t."id" = n."id"
            """,
            [.integer(first), .integer(spacing), .integer(now)]
        )
        try connection.run(
            """
            UPDATE tideline.clocks
            SET "stamp" = $2::bigint, "horizon" = $2::bigint, "counted" = least("counted", $3::bigint)
            WHERE "table" = $1
            """,
            [name, .integer(max(now, first + rows * spacing)), .integer(now)]
        )
    }

    /// Sets future times of ledger entries, and of the ledger's horizon, to the current time.
    static func dateLedger(_ now: Int64, _ connection: PostgresConnection) throws {
        try connection.run(
            "UPDATE tideline.ledger SET \"received\" = $1 WHERE \"received\" > $1",
            [.integer(now)]
        )
        try connection.run(
            "UPDATE tideline.ledger_callers SET \"horizon\" = $1 WHERE \"horizon\" > $1",
            [.integer(now)]
        )
        try connection.run(
            """
            UPDATE tideline.state SET "value" = $1::bigint::text
            WHERE "key" = 'ledgerHorizon' AND "value"::bigint > $1::bigint
            """,
            [.integer(now)]
        )
    }
}
