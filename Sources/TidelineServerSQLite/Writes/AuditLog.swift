// AuditLog: stores audited changes.

import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// The log of audited changes, in one table of the file for all tables.
enum AuditLog {
    static func put(_ entry: AuditEntry, _ database: Database) throws {
        let author = entry.author
        try database.prepare(ServerSchema.putAudit).run([
            .integer(entry.timestamp), .text(entry.table), .text(entry.id),
            .text(entry.action.rawValue), author.user.map { SQLValue.text($0) } ?? .null,
            author.device.map { SQLValue.text($0) } ?? .null,
            .integer(author.isDashboard ? 1 : 0), .text(entry.columnsText),
        ])
    }

    /// Removes some expired entries; returns their number.
    ///
    /// Entries up to `place` were received earlier, regardless of their timestamps.
    static func purge(
        before time: Int64,
        upTo place: Int64?,
        atMost count: Int,
        _ database: Database
    ) throws -> Int {
        try database.prepare(ServerSchema.purgeAudit).run([
            .integer(time), .integer(Int64(count)),
        ])
        var removed = database.changes
        if let place, removed < count {
            try database.prepare(ServerSchema.purgeAuditPlaces).run([
                .integer(place), .integer(Int64(count - removed)),
            ])
            removed += database.changes
        }
        return removed
    }

    /// Returns the entries that a query finds, with their positions.
    static func entries(
        _ sql: String,
        _ values: [SQLValue],
        _ database: Database
    ) throws -> [(place: Int64, entry: AuditEntry)] {
        let statement = try database.prepare(sql)
        defer { statement.reset() }
        try statement.bind(values)
        var entries: [(place: Int64, entry: AuditEntry)] = []
        while try statement.step() {
            let author = WriteAuthor(
                user: statement.isNull(5) ? nil : statement.text(5),
                device: statement.isNull(6) ? nil : statement.text(6),
                isDashboard: statement.integer(7) != 0
            )
            let entry = AuditEntry(
                timestamp: statement.integer(1),
                table: statement.text(2),
                id: statement.text(3),
                action: statement.text(4),
                author: author,
                columnsText: statement.text(8)
            )
            entries.append((statement.integer(0), entry))
        }
        return entries
    }
}

extension DatabaseInspection {
    /// Returns the newest audit entries that match a query.
    ///
    /// - Throws: ``DatabaseError``
    package func audit(_ query: AuditQuery) throws -> [AuditEntry] {
        let database = try open()
        return try DatabaseError.naming(path) {
            guard try Self.has("tideline_tables", database) else {
                throw DatabaseError.unknown(path)
            }
            // No server with an audit log has used this file.
            guard try Self.has("tideline_audit", database) else { return [] }
            let values = [
                query.table.map { SQLValue.text($0) } ?? .null,
                query.id.map { SQLValue.text($0) } ?? .null,
                query.user.map { SQLValue.text($0) } ?? .null, .integer(Int64(query.countMax)),
            ]
            return try AuditLog.entries(ServerSchema.readAudit, values, database).map(\.entry)
        }
    }
}

extension ServerSchema {
    static let audit = """
        CREATE TABLE IF NOT EXISTS "tideline_audit" (
            "place"     INTEGER NOT NULL PRIMARY KEY,
            "stamp"     INTEGER NOT NULL,
            "table"     TEXT    NOT NULL,
            "id"        TEXT    NOT NULL,
            "action"    TEXT    NOT NULL,
            "user"      TEXT,
            "device"    TEXT,
            "dashboard" INTEGER NOT NULL,
            "columns"   TEXT    NOT NULL
        ) STRICT
        """

    /// Creates the index of the audit log.
    ///
    /// If a clock was set, timestamps of different tables are not in the order of positions.
    static let auditIndex = """
        CREATE INDEX IF NOT EXISTS "tideline_audit_stamp" ON "tideline_audit" ("stamp")
        """

    static let putAudit = """
        INSERT INTO "tideline_audit" (
            "stamp", "table", "id", "action", "user", "device", "dashboard", "columns"
        )
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        """

    static let purgeAuditPlaces = """
        DELETE FROM "tideline_audit" WHERE "place" IN (
            SELECT "place" FROM "tideline_audit" WHERE "place" <= ?1 ORDER BY "place" LIMIT ?2
        )
        """

    static let purgeAudit = """
        DELETE FROM "tideline_audit" WHERE "place" IN (
            SELECT "place" FROM "tideline_audit" WHERE "stamp" < ?1 ORDER BY "stamp" LIMIT ?2
        )
        """

    private static let selectAudit = """
        SELECT "place", "stamp", "table", "id", "action", "user", "device", "dashboard", "columns"
        FROM "tideline_audit"
        """

    static let readAudit = """
        \(selectAudit)
        WHERE (?1 IS NULL OR "table" = ?1 COLLATE NOCASE) AND (?2 IS NULL OR "id" = ?2)
        AND (?3 IS NULL OR "user" = ?3)
        ORDER BY "place" DESC LIMIT ?4
        """

    static let copyAudit = """
        \(selectAudit) WHERE "place" > ?1 ORDER BY "place" LIMIT ?2
        """
}
