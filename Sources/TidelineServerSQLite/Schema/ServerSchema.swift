// ServerSchema: SQL for tables.
//
// Columns have no NOT NULL, because SQLite cannot remove it when the configuration does. The routes reject nulls, and
// adding a column fills old rows with its default.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The SQL text that creates and changes tables.
enum ServerSchema {
    /// The storage format of the server's own tables, which increases with each change.
    static let formatVersion: Int64 = 6

    /// The application id of a server's database: "TDLS".
    static let applicationID: Int64 = 0x5444_4C53

    /// Creates the table with a row for each table: its clock, and its stored columns.
    static let tables = """
        CREATE TABLE IF NOT EXISTS "tideline_tables" (
            "name"    TEXT    NOT NULL PRIMARY KEY COLLATE NOCASE,
            "stamp"   INTEGER NOT NULL DEFAULT 0,
            "columns" TEXT    NOT NULL,
            "horizon" INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """

    /// Adds the retention horizon, which databases before storage format 5 did not record.
    static let addHorizon = """
        ALTER TABLE "tideline_tables" ADD COLUMN "horizon" INTEGER NOT NULL DEFAULT 0
        """

    static let hasHorizon = """
        SELECT count(*) FROM pragma_table_info('tideline_tables') WHERE "name" = 'horizon'
        """

    /// Creates the table for the state that belongs to no table: the `epoch`, and the value that probes write.
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

    /// Changes a value that is never read.
    ///
    /// The value changes each time, because SQLite does not write an unchanged page, and a full disk would not
    /// be detected.
    static let touchState = """
        INSERT OR REPLACE INTO "tideline_state" ("key", "value")
        VALUES ('written', lower(hex(randomblob(8))))
        """

    static let countCopies = """
        SELECT count(*) FROM "tideline_state" WHERE "key" = ?1
        """

    /// Renews the epoch, which contains the latest commit.
    ///
    /// From that commit, devices find the rows that the database never had.
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

    static let readTimestamps = """
        SELECT "name", "stamp" FROM "tideline_tables"
        """

    static let readTimestamp = """
        SELECT "stamp" FROM "tideline_tables" WHERE "name" = ?1
        """

    static let countTables = """
        SELECT count(*) FROM "tideline_tables"
        """

    static let putTimestamp = """
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

    /// Returns column, parent and rule of the foreign keys on one column that name an `id`.
    static let foreignKeys = """
        SELECT min("from"), min("table"), min("on_delete") FROM pragma_foreign_key_list(?1)
        GROUP BY "id" HAVING count(*) = 1 AND coalesce(min("to"), 'id') = 'id' ORDER BY 1
        """

    static let indexesOf = """
        SELECT "name" FROM "sqlite_master"
        WHERE "type" = 'index' AND "tbl_name" = ?1 COLLATE NOCASE AND "name" LIKE 'tideline~_%' ESCAPE '~'
        """

    static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }

    /// Returns the statement that creates the table with its columns.
    ///
    /// It is one statement, because SQLite reads the whole schema again after each column that is added later.
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

    static func rename(_ column: String, to name: String, in table: String) -> String {
        "ALTER TABLE \(quoted(table)) RENAME COLUMN \(quoted(column)) TO \(quoted(name))"
    }

    /// Replaces null with the column's default.
    static func fillNulls(_ column: ColumnDefinition, in table: String) -> String {
        let name = quoted(column.name)
        return
            "UPDATE \(quoted(table)) SET \(name) = \(literal(column.storedDefault)) WHERE \(name) IS NULL"
    }

    /// Returns the name of an index, which contains its columns, so that a changed index has a different name.
    ///
    /// Names of tables and columns contain no dots, so that names of indexes are unique.
    static func indexName(_ table: String, _ columns: [String]) -> String {
        "tideline_" + ([table] + columns).joined(separator: ".")
    }

    /// Returns the statement that creates an index.
    ///
    /// `id` follows the columns, so that pages in their order need no sort.
    static func index(_ table: String, _ columns: [String]) -> String {
        let keys = columns.contains(SystemColumn.id) ? columns : columns + [SystemColumn.id]
        return """
            CREATE INDEX IF NOT EXISTS \(quoted(indexName(table, columns)))
            ON \(quoted(table)) (\(keys.map(quoted).joined(separator: ", ")))
            """
    }

    /// Returns the name of the index of a `unique` rule.
    static func uniqueIndexName(_ table: String, _ columns: [String]) -> String {
        "tideline_\(table)..unique." + columns.joined(separator: ".")
    }

    /// Returns the statement that creates the index of a `unique` rule, which ignores tombstones and nulls.
    static func uniqueIndex(_ table: String, _ columns: [String]) -> String {
        """
        CREATE UNIQUE INDEX IF NOT EXISTS \(quoted(uniqueIndexName(table, columns)))
        ON \(quoted(table)) (\(columns.map(quoted).joined(separator: ", "))) WHERE "deleted" = 0
        """
    }

    /// Returns the statement that counts the live rows with the values of another one.
    static func countEqualRows(_ table: String, _ columns: [String]) -> String {
        let names = columns.map(quoted)
        return """
            SELECT coalesce(sum("rows"), 0) FROM (
                SELECT count(*) AS "rows" FROM \(quoted(table))
                WHERE "deleted" = 0 AND \(names.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                GROUP BY \(names.joined(separator: ", ")) HAVING count(*) > 1
            )
            """
    }

    /// Returns the index of a table whose tombstones expire.
    static func tombstoneIndexName(_ table: String) -> String { "tideline_\(table)..tombstones" }

    static func tombstoneIndex(_ table: String) -> String {
        """
        CREATE INDEX IF NOT EXISTS \(quoted(tombstoneIndexName(table)))
        ON \(quoted(table)) ("updatedAt") WHERE "deleted" = 1
        """
    }

    /// Returns the statement that removes tombstones.
    ///
    /// It uses `id`, because a table may have a column with SQLite's name for the row number.
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
