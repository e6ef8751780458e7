// DatabaseMaintenance+Users: removes a user's data from a file, or gives it to another user.
//
// Devices that have the rows must read the tables from the beginning. So the clock and the horizon of each table are
// advanced, which makes all earlier cursors and links expire.

import TidelineCore
import TidelineSQLite
package import TidelineServerCore

extension DatabaseMaintenance {
    /// Removes a user's rows with their history, and the user's entries of ledger and audit log.
    ///
    /// It also removes the free pages of the file, which may still contain the values.
    ///
    /// - Throws: ``DatabaseError``, with code `inUse` while a server runs.
    package func forget(_ user: String, owners tables: [TableDefinition]) throws {
        try change(compacts: true) { database in
            let owned = try owned(tables, database)
            var callers = "\"caller\" = '=' || ?1"
            for (table, owner) in owned {
                let ids = "SELECT \"id\" FROM \(ServerSchema.quoted(table)) WHERE \(owner) = ?1"
                callers += " OR \(Self.json(owner)) = ?1"
                let name = Self.literal(table)
                for sql in [
                    """
                    DELETE FROM "tideline_bases" WHERE "table" = \(name)
                    AND ("id" IN (\(ids)) OR \(Self.json(owner)) = ?1)
                    """,
                    """
                    DELETE FROM "tideline_audit" WHERE "table" = \(name) COLLATE NOCASE
                    AND "id" IN (\(ids))
                    """,
                ] {
                    try database.prepare(sql).run([.text(user)])
                }
            }
            try database.prepare("DELETE FROM \"tideline_ledger\" WHERE \(callers)")
                .run([.text(user)])
            // The table is newer than some files.
            if try DatabaseInspection.has("tideline_ledger_callers", database) {
                try database.prepare(
                    "DELETE FROM \"tideline_ledger_callers\" WHERE \"caller\" = '=' || ?1"
                ).run([.text(user)])
            }
            try database.prepare("DELETE FROM \"tideline_audit\" WHERE \"user\" = ?1")
                .run([.text(user)])
            for (table, owner) in owned {
                let relation = ServerSchema.quoted(table)
                var gone = 0
                if let log = try log(of: table, database) {
                    try database.prepare(
                        """
                        DELETE FROM \(log) WHERE \(owner) = ?1
                        OR "id" IN (SELECT "id" FROM \(relation) WHERE \(owner) = ?1)
                        """
                    ).run([.text(user)])
                    gone += database.changes
                }
                // The next server deletes the rows that refer to them.
                if ReferenceRules.isReferenced(table, by: tables) {
                    try database.prepare(ServerSchema.putCascades(ofOwner: owner, in: table))
                        .run([.text(user)])
                }
                try database.prepare("DELETE FROM \(relation) WHERE \(owner) = ?1")
                    .run([.text(user)])
                gone += database.changes
                if gone > 0 { try startOver(table, database) }
            }
        }
    }

    /// Transfers the rows of a user to another user, with the entries of ledger and audit log.
    ///
    /// Versions do not change, so that pending changes of devices are still accepted.
    ///
    /// - Throws: ``DatabaseError``, with code `inUse` while a server runs.
    package func rename(
        _ user: String,
        to name: String,
        owners tables: [TableDefinition]
    ) throws {
        try change(compacts: false) { database in
            let values: [SQLValue] = [.text(user), .text(name)]
            let owned = try owned(tables, database)
            for (table, owner) in owned {
                let relation = ServerSchema.quoted(table)
                var moved = 0
                if let log = try log(of: table, database) {
                    try database.prepare("DELETE FROM \(log) WHERE \(owner) = ?1")
                        .run([.text(user)])
                    moved += database.changes
                }
                try database.prepare("UPDATE \(relation) SET \(owner) = ?2 WHERE \(owner) = ?1")
                    .run(values)
                moved += database.changes
                for kept in ["tideline_bases", "tideline_ledger"] {
                    try database.prepare(
                        """
                        UPDATE "\(kept)" SET "row" = json_set("row", \(Self.path(owner)), ?2)
                        WHERE \(Self.json(owner)) = ?1
                        """
                    ).run(values)
                }
                if moved > 0 { try startOver(table, database) }
            }
            for sql in [
                "UPDATE OR REPLACE \"tideline_ledger\" SET \"caller\" = '=' || ?2 WHERE \"caller\" = '=' || ?1",
                "UPDATE \"tideline_audit\" SET \"user\" = ?2 WHERE \"user\" = ?1",
            ] {
                try database.prepare(sql).run(values)
            }
        }
    }

    /// Returns the space of removed rows to the system.
    ///
    /// - Returns: The size of the file before and after, in bytes.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server runs.
    package func compact() throws -> (before: Int64, after: Int64) {
        let before = ServerFile.size(of: path) ?? 0
        try change(compacts: true) { _ in }
        return (before, ServerFile.size(of: path) ?? 0)
    }

    // MARK: - Parts

    /// Runs `body` in a transaction while no server uses the database.
    private func change(compacts: Bool, _ body: (Database) throws -> Void) throws {
        let lock = try ServerFile(path: path).lock(mayBeNew: false)
        defer { lock.release() }
        try DatabaseError.naming(path) {
            let database = try Database(path: path)
            try database.execute("PRAGMA secure_delete = ON")
            try database.transaction {
                try SchemaChange(database: database, now: { 0 }).openWhole()
                try body(database)
            }
            if compacts { try database.execute("VACUUM") }
            try database.foldLog()
        }
    }

    /// Returns the existing tables that are declared with owners, and the quoted columns of their owners.
    private func owned(
        _ tables: [TableDefinition],
        _ database: Database
    ) throws -> [(table: String, owner: String)] {
        let known = try RetentionPurge.tables(in: database)
        return try tables.compactMap { table in
            guard let owner = table.owner,
                let name = known.first(where: { $0.lowercased() == table.name.lowercased() })
            else { return nil }
            let statement = try database.prepare(
                "SELECT \"name\" FROM pragma_table_info(?1) WHERE \"name\" = ?2 COLLATE NOCASE"
            )
            defer { statement.reset() }
            try statement.bind([.text(name), .text(owner)])
            guard try statement.step() else { return nil }
            return (table: name, owner: ServerSchema.quoted(statement.text(0)))
        }
    }

    private func log(of table: String, _ database: Database) throws -> String? {
        let name = ServerSchema.logName(table)
        let isThere = try database.integer(ServerSchema.hasTable, [.text(name)]) ?? 0 > 0
        return isThere ? ServerSchema.quoted(name) : nil
    }

    /// Makes every device that knows an earlier state of the table pull it from the beginning.
    private func startOver(_ table: String, _ database: Database) throws {
        let timestamp = try database.integer(ServerSchema.readTimestamp, [.text(table)]) ?? 0
        // Times on the wire have milliseconds: two milliseconds later is after every cursor.
        let next = (timestamp / 1000 + 2) * 1000
        try database.prepare(ServerSchema.putTimestamp).run([.text(table), .integer(next)])
        try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(next)])
    }

    /// Returns the owner of a stored row, as SQL.
    private static func json(_ owner: String) -> String {
        "CASE WHEN json_valid(\"row\") THEN json_extract(\"row\", \(path(owner))) END"
    }

    /// Returns the JSON path of a member with the name of a quoted column.
    private static func path(_ owner: String) -> String { literal("$." + owner) }

    private static func literal(_ text: String) -> String {
        "'" + text.replacing("'", with: "''") + "'"
    }
}
