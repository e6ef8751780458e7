// PostgresMaintenance+Users: removes the rows of a user, or transfers them to another user. Servers may run; their
// writes to these tables wait until it is done.
//
// Devices that have the rows must read the tables from the beginning. So the clock and the horizon of each table are
// advanced, which makes all earlier cursors and links expire.

import TidelineCore
import TidelinePostgres
package import TidelineServerCore

extension PostgresMaintenance {
    /// Removes a user's rows with their history, and the user's entries of ledger and audit log.
    ///
    /// - Throws: ``DatabaseError``; in that case, nothing is changed.
    package func forget(_ user: String, owners tables: [TableDefinition]) throws {
        try change(tables) { connection, owned in
            var isOfUser = "\"caller\" = '=' || $1::text"
            for table in owned {
                isOfUser += " OR \(table.json) = $1"
                for sql in [
                    """
                    DELETE FROM tideline.bases WHERE "table" = \(table.key)
                    AND ("id" IN (\(table.ids)) OR \(table.json) = $1)
                    """,
                    """
                    DELETE FROM tideline.audit WHERE lower("table") = \(table.key)
                    AND "id" IN (\(table.ids))
                    """,
                ] {
                    try connection.run(sql, [.text(user)])
                }
            }
            try connection.run("DELETE FROM tideline.ledger WHERE \(isOfUser)", [.text(user)])
            // The table is newer than some databases.
            let isOld = try connection.run("SELECT to_regclass('tideline.ledger_callers') IS NULL")
            if !isOld.boolean(0, 0) {
                try connection.run(
                    "DELETE FROM tideline.ledger_callers WHERE \"caller\" = '=' || $1::text",
                    [.text(user)]
                )
            }
            try connection.run("DELETE FROM tideline.audit WHERE \"user\" = $1", [.text(user)])
            let keys = try PostgresForeignKeys.read(among: owned.map(\.table), connection)
            for table in OwnedTable.childrenFirst(owned, keys) {
                var gone = try table.forgetLog(user, connection)
                // A server deletes the rows that refer to them.
                if ReferenceRules.isReferenced(table.table.name, by: tables) {
                    try connection.run(
                        """
                        INSERT INTO tideline.cascades ("table", "id", "dashboard")
                        SELECT \(table.key), "id", FALSE FROM \(table.relation)
                        WHERE \(table.owner) = $1 ON CONFLICT ("table", "id") DO NOTHING
                        """,
                        [.text(user)]
                    )
                }
                do {
                    gone += try table.forgetRows(user, connection)
                } catch let error as PostgresError where error.state == "23503" {
                    throw areReferenced(table, error)
                }
                if gone > 0 { try table.startOver(connection) }
            }
        }
    }

    /// Returns the error for rows of a user that a foreign key of other rows protects.
    private func areReferenced(_ table: OwnedTable, _ error: PostgresError) -> DatabaseError {
        DatabaseError(
            .unavailable,
            "\(address): the user's rows of table '\(table.table.name)' cannot be removed, because rows of table "
                + "'\(error.relation?.table ?? "")' refer to them by the foreign key '\(error.constraintName)'. "
                + "In the referring rows, including deleted ones, set the columns of the foreign key to null, or "
                + "drop the foreign key. Then run the command again."
        )
    }

    /// Transfers the rows of a user to another user, with the entries of ledger and audit log.
    ///
    /// Versions do not change, so that pending changes of devices are still accepted.
    ///
    /// - Throws: ``DatabaseError``; in that case, nothing is changed.
    package func rename(
        _ user: String,
        to name: String,
        owners tables: [TableDefinition]
    ) throws {
        let values: [SQLValue] = [.text(user), .text(name)]
        try change(tables) { connection, owned in
            for table in owned {
                var moved = try table.forgetLog(user, connection)
                moved += try connection.run(
                    """
                    WITH moved AS (
                        UPDATE \(table.relation) SET \(table.owner) = $2 WHERE \(table.owner) = $1
                        RETURNING 1
                    )
                    SELECT count(*) FROM moved
                    """,
                    values
                ).integer(0, 0)
                for name in ["bases", "ledger"] {
                    try connection.run(
                        """
                        UPDATE tideline.\(name) SET "row" = jsonb_set(
                            "row"::jsonb, ARRAY[\(table.member)], to_jsonb($2::text)
                        )::text
                        WHERE \(table.json) = $1
                        """,
                        values
                    )
                }
                if moved > 0 { try table.startOver(connection) }
            }
            for sql in [
                """
                DELETE FROM tideline.ledger AS l WHERE "caller" = '=' || $1::text AND EXISTS (
                    SELECT FROM tideline.ledger AS o
                    WHERE o."request" = l."request" AND o."caller" = '=' || $2::text
                )
                """,
                "UPDATE tideline.ledger SET \"caller\" = '=' || $2::text WHERE \"caller\" = '=' || $1::text",
                "UPDATE tideline.audit SET \"user\" = $2 WHERE \"user\" = $1",
            ] {
                try connection.run(sql, values)
            }
        }
    }

    /// Runs VACUUM on each table, so that PostgreSQL can reuse the space of removed rows.
    ///
    /// - Returns: The size of the database before and after, in bytes.
    package func compact() throws -> (before: Int64, after: Int64) {
        try connected { connection in
            try checkWhole(connection)
            let size = "SELECT pg_database_size(current_database())"
            let before = try connection.run(size).integer(0, 0)
            let found = try connection.run(
                """
                SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c
                JOIN pg_namespace AS n ON n.oid = c.relnamespace
                WHERE c.relkind = 'r' AND (n.nspname = 'tideline' OR c.oid IN (
                    SELECT to_regclass(quote_ident("relation")) FROM tideline.tables
                )) ORDER BY 1
                """
            )
            for row in 0..<found.count {
                try connection.execute("VACUUM (ANALYZE) \(found.text(row, 0))")
            }
            return (before, try connection.run(size).integer(0, 0))
        }
    }

    /// Runs `body` in a transaction that locks the clocks of these tables.
    private func change(
        _ tables: [TableDefinition],
        _ body: (PostgresConnection, [OwnedTable]) throws -> Void
    ) throws {
        try connected { connection in
            try checkWhole(connection)
            try connection.execute("BEGIN; \(PostgresSchema.lock(waiting: 10_000));")
            try connection.run(PostgresSchema.idle)
            var owned: [OwnedTable] = []
            for declared in tables {
                guard let owner = declared.owner,
                    let stored = try PostgresSchemaChange.stored(declared.name, connection),
                    let column = stored.schema.columns.first(where: {
                        $0.name.lowercased() == owner.lowercased()
                    })
                else { continue }
                let table = OwnedTable(table: stored, column: column.name)
                try connection.execute("LOCK TABLE \(table.relation) IN EXCLUSIVE MODE")
                try connection.run(PostgresSchema.lockClock, [.text(stored.name.lowercased())])
                owned.append(table)
            }
            try body(connection, owned)
            try connection.run("COMMIT")
        }
    }
}

/// A table whose rows have owners.
private struct OwnedTable {
    let table: TableDefinition
    let column: String

    var relation: String { PostgresName.quoted(table.name) }
    var owner: String { PostgresName.quoted(column) }
    /// The table's key in the server's own tables, as a literal.
    var key: String { Self.literal(table.name.lowercased()) }
    /// The name of the owner column in a row's wire form, as a literal.
    var member: String { Self.literal(column) }
    var ids: String { "SELECT \"id\" FROM \(relation) WHERE \(owner) = $1" }

    /// The owner of a stored row, as SQL.
    ///
    /// PostgreSQL cannot extract members from JSON with the character U+0000.
    var json: String {
        #"CASE WHEN position('\u0000' in "row") = 0 THEN "row"::json ->> \#(member) END"#
    }

    private static func literal(_ text: String) -> String {
        "'" + text.replacing("'", with: "''") + "'"
    }

    /// Returns the tables in an order in which those with foreign keys precede the tables that the keys name.
    static func childrenFirst(
        _ tables: [OwnedTable],
        _ keys: [String: [TableReference]]
    ) -> [OwnedTable] {
        var (left, sorted) = (tables, [OwnedTable]())
        while !left.isEmpty {
            let place = left.firstIndex { parent in
                !left.contains { child in
                    child.table.name != parent.table.name
                        && keys[child.table.name, default: []]
                            .contains { $0.table == parent.table.name }
                }
            }
            // Among tables that refer to each other, no order is right for all rows.
            sorted.append(left.remove(at: place ?? 0))
        }
        return sorted
    }

    /// Removes the rows of a user; returns their number.
    func forgetRows(_ user: String, _ connection: PostgresConnection) throws -> Int64 {
        try connection.run(
            """
            WITH gone AS (DELETE FROM \(relation) WHERE \(owner) = $1 RETURNING 1)
            SELECT count(*) FROM gone
            """,
            [.text(user)]
        ).integer(0, 0)
    }

    /// Removes the log entries of a user; returns their number.
    func forgetLog(_ user: String, _ connection: PostgresConnection) throws -> Int64 {
        let log = PostgresName.log(table.name)
        guard try !connection.run("SELECT to_regclass($1) IS NULL", [.text(log)]).boolean(0, 0)
        else { return 0 }
        return try connection.run(
            """
            WITH gone AS (
                DELETE FROM \(log) WHERE \(owner) = $1 OR "id" IN (\(ids))
                RETURNING 1
            )
            SELECT count(*) FROM gone
            """,
            [.text(user)]
        ).integer(0, 0)
    }

    /// Makes every device that knows an earlier state of the table pull it from the beginning.
    func startOver(_ connection: PostgresConnection) throws {
        let name = SQLValue.text(table.name.lowercased())
        let found = try connection.run(
            "SELECT \"stamp\" FROM tideline.clocks WHERE \"table\" = $1",
            [name]
        )
        // Times on the wire have milliseconds: two milliseconds later is after every cursor.
        let next = SQLValue.integer((found.integer(0, 0) / 1000 + 2) * 1000)
        try connection.run(
            """
            UPDATE tideline.clocks
            SET "stamp" = greatest("stamp", $2::bigint), "horizon" = greatest("horizon", $2::bigint)
            WHERE "table" = $1
            """,
            [name, next]
        )
    }
}
