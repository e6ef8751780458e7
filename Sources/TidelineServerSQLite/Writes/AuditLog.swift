// AuditLog: who changed what, in one table of the file for all tables that are audited.

import TidelineCore
import TidelineSQLite
package import TidelineServerCore

enum AuditLog {
    static func put(_ entry: AuditEntry, _ database: Database) throws {
        let statement = try database.prepare(ServerSchema.putAudit)
        try statement.run([
            .integer(entry.stamp), .text(entry.table), .text(entry.id),
            .text(entry.action.rawValue), entry.author.map { SQLValue.text($0) } ?? .null,
            .text(entry.columnsText),
        ])
    }

    /// Removes some of the oldest entries; returns how many.
    static func purge(before time: Int64, atMost count: Int, _ database: Database) throws -> Int {
        let statement = try database.prepare(ServerSchema.purgeAudit)
        try statement.run([.integer(time), .integer(Int64(count))])
        return Int(database.changes)
    }
}

extension DatabaseInspection {
    /// The newest entries of the audit that are asked for.
    ///
    /// - Throws: ``DatabaseError``
    package func audit(_ query: AuditQuery) throws -> [AuditEntry] {
        let database = try open()
        return try DatabaseError.naming(path) {
            let isThere = try database.integer(
                ServerSchema.hasTable,
                [.text("tideline_audit")]
            )
            guard isThere != 0 else { return [] }
            let statement = try database.prepare(ServerSchema.readAudit)
            defer { statement.reset() }
            try statement.bind([
                query.table.map { SQLValue.text($0) } ?? .null,
                query.id.map { SQLValue.text($0) } ?? .null,
                query.author.map { SQLValue.text($0) } ?? .null, .integer(Int64(query.countMax)),
            ])
            var entries: [AuditEntry] = []
            while try statement.step() {
                let entry = AuditEntry(
                    stamp: statement.integer(0),
                    table: statement.text(1),
                    id: statement.text(2),
                    action: statement.text(3),
                    author: statement.isNull(4) ? nil : statement.text(4),
                    columnsText: statement.text(5)
                )
                if let entry { entries.append(entry) }
            }
            return entries
        }
    }
}

extension ServerSchema {
    static let audit = """
        CREATE TABLE IF NOT EXISTS "tideline_audit" (
            "place"   INTEGER NOT NULL PRIMARY KEY,
            "stamp"   INTEGER NOT NULL,
            "table"   TEXT    NOT NULL,
            "id"      TEXT    NOT NULL,
            "action"  TEXT    NOT NULL,
            "author"  TEXT,
            "columns" TEXT    NOT NULL
        ) STRICT
        """

    static let putAudit = """
        INSERT INTO "tideline_audit" ("stamp", "table", "id", "action", "author", "columns")
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        """

    /// Looks at the oldest only, however many there are.
    static let purgeAudit = """
        DELETE FROM "tideline_audit" WHERE "stamp" < ?1 AND "place" IN (
            SELECT "place" FROM "tideline_audit" ORDER BY "place" LIMIT ?2
        )
        """

    static let readAudit = """
        SELECT "stamp", "table", "id", "action", "author", "columns" FROM "tideline_audit"
        WHERE (?1 IS NULL OR "table" = ?1 COLLATE NOCASE) AND (?2 IS NULL OR "id" = ?2)
        AND (?3 IS NULL OR "author" = ?3)
        ORDER BY "place" DESC LIMIT ?4
        """
}
