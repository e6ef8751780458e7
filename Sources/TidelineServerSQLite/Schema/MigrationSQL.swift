// MigrationSQL: the SQL text that counts and changes the values of a column.

import TidelineCore

extension ServerSchema {
    /// The name of a column while its values are converted; no declared column can have it.
    static let newColumn = "__new"

    static func countLive(_ table: String) -> String {
        "SELECT count(*) FROM \(quoted(table)) WHERE \"deleted\" = 0"
    }

    static func countValues(_ column: String, in table: String) -> String {
        "SELECT count(\(quoted(column))) FROM \(quoted(table))"
    }

    static func countNulls(_ column: String, in table: String) -> String {
        "SELECT count(*) FROM \(quoted(table)) WHERE \(quoted(column)) IS NULL"
    }

    static func values(_ column: String, in table: String) -> String {
        "SELECT \(quoted(column)) FROM \(quoted(table)) WHERE \(quoted(column)) IS NOT NULL"
    }

    static func valuesByRow(_ column: String, in table: String) -> String {
        """
        SELECT "rowid", \(quoted(column)) FROM \(quoted(table))
        WHERE "rowid" > ?1 AND \(quoted(column)) IS NOT NULL ORDER BY "rowid" LIMIT ?2
        """
    }

    static func set(_ column: String, in table: String) -> String {
        "UPDATE \(quoted(table)) SET \(quoted(column)) = ?2 WHERE \"rowid\" = ?1"
    }

    static func addNewColumn(_ type: ColumnType, to table: String) -> String {
        "ALTER TABLE \(quoted(table)) ADD COLUMN \(quoted(newColumn)) \(affinity(type))"
    }

    static func renameNewColumn(to name: String, in table: String) -> String {
        """
        ALTER TABLE \(quoted(table)) RENAME COLUMN \(quoted(newColumn)) TO \(quoted(name))
        """
    }

    static func dropColumn(_ column: String, from table: String) -> String {
        "ALTER TABLE \(quoted(table)) DROP COLUMN \(quoted(column))"
    }

    /// New stamps for the marked rows, in the order that they had.
    static func restamp(_ table: String) -> String {
        """
        UPDATE \(quoted(table)) SET "updatedAt" = ?1 + ?2 * "__number", "version" = ?1 + ?2 * "__number"
        FROM (
            SELECT "rows"."rowid" AS "__row",
                row_number() OVER (ORDER BY "rows"."updatedAt", "rows"."id") AS "__number"
            FROM \(quoted(table)) AS "rows"
            JOIN temp."tideline_changed" AS "changed" ON "changed"."row" = "rows"."rowid"
        )
        WHERE \(quoted(table))."rowid" = "__row"
        """
    }
}
