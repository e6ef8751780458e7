// ServerSchema: the SQL text that makes and changes tables.
//
// Columns carry no NOT NULL: SQLite cannot take it away again when the configuration does. The
// routes keep nulls out, and a column that is added fills old rows with its default.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

enum ServerSchema {
    /// Raised when the form of the server's own tables changes.
    static let formatVersion: Int64 = 6

    /// Marks a file as the database of a server: "TDLS".
    static let applicationID: Int64 = 0x5444_4C53

    /// One row per table: its clock, and its columns as they are in the database.
    static let tables = """
        CREATE TABLE IF NOT EXISTS "tideline_tables" (
            "name"    TEXT    NOT NULL PRIMARY KEY COLLATE NOCASE,
            "stamp"   INTEGER NOT NULL DEFAULT 0,
            "columns" TEXT    NOT NULL,
            "horizon" INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """

    /// Since format 5; before it, databases did not record their retention horizon.
    static let addHorizon = """
        ALTER TABLE "tideline_tables" ADD COLUMN "horizon" INTEGER NOT NULL DEFAULT 0
        """

    static let hasHorizon = """
        SELECT count(*) FROM pragma_table_info('tideline_tables') WHERE "name" = 'horizon'
        """

    /// The state without a table: `epoch`, which names this state of the database, and the touches of probes.
    static let state = """
        CREATE TABLE IF NOT EXISTS "tideline_state" (
            "key"   TEXT NOT NULL PRIMARY KEY,
            "value" TEXT NOT NULL
        ) STRICT;
        INSERT OR IGNORE INTO "tideline_state" ("key", "value")
        VALUES ('epoch', lower(hex(randomblob(8))))
        """

    static let readEpoch = """
        SELECT "value" FROM "tideline_state" WHERE "key" = 'epoch'
        """

    /// Changes a value that is never read: SQLite writes no page whose content stays, so it would miss a full disk.
    static let touchState = """
        INSERT OR REPLACE INTO "tideline_state" ("key", "value")
        VALUES ('written', lower(hex(randomblob(8))))
        """

    static let countCopies = """
        SELECT count(*) FROM "tideline_state" WHERE "key" = ?1
        """

    /// With the latest commit: devices find out by it which of their rows the database has never had.
    static let renewEpoch = """
        UPDATE "tideline_state" SET "value" = lower(hex(randomblob(8))) || '.'
            || printf('%x', (SELECT coalesce(max("stamp"), 0) FROM "tideline_tables"))
        WHERE "key" = 'epoch'
        """

    static let readTables = """
        SELECT "name", "columns" FROM "tideline_tables" ORDER BY "name"
        """

    static let readTable = """
        SELECT "name", "columns" FROM "tideline_tables" WHERE "name" = ?1
        """

    static let putTable = """
        INSERT INTO "tideline_tables" ("name", "columns") VALUES (?1, ?2)
        ON CONFLICT ("name") DO UPDATE SET "columns" = excluded."columns"
        """

    static let readStamps = """
        SELECT "name", "stamp" FROM "tideline_tables"
        """

    static let readStamp = """
        SELECT "stamp" FROM "tideline_tables" WHERE "name" = ?1
        """

    static let countTables = """
        SELECT count(*) FROM "tideline_tables"
        """

    static let putStamp = """
        UPDATE "tideline_tables" SET "stamp" = ?2 WHERE "name" = ?1
        """

    static let readClock = """
        SELECT "stamp", "horizon" FROM "tideline_tables" WHERE "name" = ?1
        """

    static let raiseHorizon = """
        UPDATE "tideline_tables" SET "horizon" = max("horizon", ?2) WHERE "name" = ?1
        """

    static let hasTable = """
        SELECT count(*) FROM "sqlite_master" WHERE "type" = 'table' AND "name" = ?1 COLLATE NOCASE
        """

    static let indexesOf = """
        SELECT "name" FROM "sqlite_master"
        WHERE "type" = 'index' AND "tbl_name" = ?1 COLLATE NOCASE AND "name" LIKE 'tideline~_%' ESCAPE '~'
        """

    static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }

    /// The new table with its columns, in one statement: SQLite reads the whole schema again after each
    /// column that is added later.
    static func create(_ table: String, _ columns: [ColumnDefinition]) -> String {
        let own = columns.map { ",\n    \(declaration($0))" }.joined()
        return """
            CREATE TABLE \(quoted(table)) (
                "id"        TEXT    NOT NULL PRIMARY KEY,
                "createdAt" INTEGER NOT NULL,
                "updatedAt" INTEGER NOT NULL,
                "version"   INTEGER NOT NULL,
                "deleted"   INTEGER NOT NULL DEFAULT 0 CHECK ("deleted" IN (0, 1))\(own)
            )
            """
    }

    private static func declaration(_ column: ColumnDefinition) -> String {
        "\(quoted(column.name)) \(affinity(column.type)) DEFAULT \(literal(column.storedDefault))"
    }

    static func add(_ column: ColumnDefinition, to table: String) -> String {
        """
        ALTER TABLE \(quoted(table))
        ADD COLUMN \(declaration(column))
        """
    }

    /// Replaces null by the column's default.
    static func fillNulls(_ column: ColumnDefinition, in table: String) -> String {
        let name = quoted(column.name)
        return
            "UPDATE \(quoted(table)) SET \(name) = \(literal(column.storedDefault)) WHERE \(name) IS NULL"
    }

    /// The name of an index, made of what it holds, so that a changed one has another name.
    ///
    /// No name of a table or column has a point, so no two indexes share a name.
    static func indexName(_ table: String, _ columns: [String]) -> String {
        "tideline_" + ([table] + columns).joined(separator: ".")
    }

    /// `id` comes after the columns, so that pages in their order need no sort.
    static func index(_ table: String, _ columns: [String]) -> String {
        let keys = columns.contains(SystemColumn.id) ? columns : columns + [SystemColumn.id]
        return """
            CREATE INDEX IF NOT EXISTS \(quoted(indexName(table, columns)))
            ON \(quoted(table)) (\(keys.map(quoted).joined(separator: ", ")))
            """
    }

    /// The index of a table that keeps its tombstones for some days only.
    static func tombstoneIndexName(_ table: String) -> String { "tideline_\(table)..tombstones" }

    static func tombstoneIndex(_ table: String) -> String {
        """
        CREATE INDEX IF NOT EXISTS \(quoted(tombstoneIndexName(table)))
        ON \(quoted(table)) ("updatedAt") WHERE "deleted" = 1
        """
    }

    /// By `id`: a table may have a column with the name that SQLite has for the number of a row.
    static func purgeTombstones(_ table: String) -> String {
        """
        DELETE FROM \(quoted(table)) WHERE "id" IN (
            SELECT "id" FROM \(quoted(table))
            WHERE "deleted" = 1 AND "updatedAt" < ?1
            ORDER BY "updatedAt" LIMIT ?2
        )
        RETURNING "updatedAt"
        """
    }

    static func affinity(_ type: ColumnType) -> String {
        switch type {
        case .integer, .boolean, .dateTime: "INTEGER"
        case .number: "REAL"
        case .binary: "BLOB"
        case .string, .decimal, .date, .time, .guid, .json, .enumeration: "TEXT"
        }
    }

    static func literal(_ value: SQLValue) -> String {
        switch value {
        case .null, .program: "NULL"
        case .integer(let value): String(value)
        case .real(let value): "\(value)"
        case .text(let value): "'" + value.replacing("'", with: "''") + "'"
        case .blob(let value): "x'" + value.map(hex).joined() + "'"
        }
    }

    private static func hex(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
}
