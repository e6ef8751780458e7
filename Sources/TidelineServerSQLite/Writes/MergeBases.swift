// MergeBases: stores replaced rows.
//
// No version is ever repeated, so a stored state stays valid forever. The number of states is bounded for each id.
// All changes happen in the transaction of the write.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The former states of rows, for tables whose conflict rule merges.
struct MergeBases {
    let database: Database
    /// The number of stored versions of a row.
    let versionsMax: Int

    /// Stores a row that a write replaces.
    func keep(_ image: RowImage, of table: SQLiteTable) throws {
        let row = image.stored(in: table.table)
        let key: [SQLValue] = [.text(table.name), .text(image.id)]
        try database.prepare(ServerSchema.keepBase).run(
            key + [
                .integer(row.state.version), .text(String(decoding: row.json, as: UTF8.self)),
            ]
        )
        try database.prepare(ServerSchema.dropOldBases).run(key + [.integer(Int64(versionsMax))])
    }

    /// Returns the values by column that the row had in this version; nil for unknown values.
    ///
    /// - Returns: Nil if the version is not stored, or cannot be read with the current columns.
    func values(_ id: String, _ version: Int64, of table: SQLiteTable) throws -> [SQLValue?]? {
        let statement = try database.prepare(ServerSchema.readBase)
        defer { statement.reset() }
        try statement.bind([.text(table.name), .text(id), .integer(version)])
        guard try statement.step() else { return nil }
        return try? table.table.members(of: Array(statement.utf8(0)))
    }

    /// Removes the states of a row that is removed.
    static func drop(_ id: String, of table: String, _ database: Database) throws {
        try database.prepare(ServerSchema.dropBasesOfRow).run([.text(table), .text(id)])
    }

    /// Removes the states of all rows of a table that does not merge.
    static func drop(table: String, _ database: Database) throws {
        try database.prepare(ServerSchema.dropBasesOfTable).run([.text(table)])
    }
}

extension ServerSchema {
    /// The table of the former states, in their wire form.
    static let bases = """
        CREATE TABLE IF NOT EXISTS "tideline_bases" (
            "table"   TEXT    NOT NULL COLLATE NOCASE,
            "id"      TEXT    NOT NULL,
            "version" INTEGER NOT NULL,
            "row"     TEXT    NOT NULL,
            PRIMARY KEY ("table", "id", "version")
        ) STRICT, WITHOUT ROWID
        """

    static let keepBase = """
        INSERT INTO "tideline_bases" ("table", "id", "version", "row") VALUES (?1, ?2, ?3, ?4)
        """

    static let readBase = """
        SELECT "row" FROM "tideline_bases" WHERE "table" = ?1 AND "id" = ?2 AND "version" = ?3
        """

    static let dropOldBases = """
        DELETE FROM "tideline_bases"
        WHERE "table" = ?1 AND "id" = ?2 AND "version" <= (
            SELECT "version" FROM "tideline_bases" WHERE "table" = ?1 AND "id" = ?2
            ORDER BY "version" DESC LIMIT 1 OFFSET ?3
        )
        """

    static let dropBasesOfRow = """
        DELETE FROM "tideline_bases" WHERE "table" = ?1 AND "id" = ?2
        """

    static let dropBasesOfTable = """
        DELETE FROM "tideline_bases" WHERE "table" = ?1
        """

    /// Removes the states of the tombstones that ``purgeTombstones(_:)`` removes.
    static func dropBasesOfTombstones(_ table: String) -> String {
        """
        DELETE FROM "tideline_bases" WHERE "table" = ?3 AND "id" IN (
            SELECT "id" FROM \(quoted(table))
            WHERE "deleted" = 1 AND "updatedAt" < ?1
            ORDER BY "updatedAt" LIMIT ?2
        )
        """
    }
}
