// MigrationSQL: the SQL text that counts and changes the values of a column.
//
// Rows are named by their `id`, because a table may have columns with the names that SQLite uses for the row number.

import TidelineCore
import TidelineServerCore

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
        SELECT "id", \(quoted(column)) FROM \(quoted(table))
        WHERE "id" > ?1 AND \(quoted(column)) IS NOT NULL ORDER BY "id" LIMIT ?2
        """
    }

    static func set(_ column: String, in table: String) -> String {
        "UPDATE \(quoted(table)) SET \(quoted(column)) = ?2 WHERE \"id\" = ?1"
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

    static func markFuture(_ table: String) -> String {
        """
        INSERT OR IGNORE INTO temp."tideline_changed"
        SELECT "id" FROM \(quoted(table)) WHERE "version" > ?1 OR "updatedAt" > ?1
        """
    }

    /// Returns the last version whose time is not after a time.
    static func lastVersion(_ table: String) -> String {
        "SELECT max(\"version\") FROM \(quoted(table)) WHERE \"version\" <= ?1"
    }

    /// Returns SQL that sets `createdAt` to `updatedAt` in rows that were created after time `?1`.
    static func dateCreation(_ table: String) -> String {
        "UPDATE \(quoted(table)) SET \"createdAt\" = \"updatedAt\" WHERE \"createdAt\" > ?1"
    }

    static let dropFutureBases = """
        DELETE FROM "tideline_bases" WHERE "table" = ?1 AND "version" > ?2
        """

    static let resetClock = """
        UPDATE "tideline_tables" SET "stamp" = ?2, "horizon" = ?2 WHERE "name" = ?1
        """

    static let resetLedger = """
        UPDATE "tideline_ledger" SET "received" = ?1 WHERE "received" > ?1
        """

    static let resetLedgerHorizon = """
        UPDATE "tideline_state" SET "value" = ?1
        WHERE "key" = 'ledgerHorizon' AND CAST("value" AS INTEGER) > ?1
        """

    /// Erases the values of existing tombstones, for a table that no longer stores them; nil for a table
    /// without columns.
    static func eraseTombstones(of table: TableDefinition) -> String? {
        let cells = table.schema.columns
            .filter { !table.keepsInTombstone($0) }
            .map { (name: quoted($0.name), value: literal($0.erasedValue)) }
        guard !cells.isEmpty else { return nil }
        let sets = cells.map { "\($0.name) = \($0.value)" }.joined(separator: ", ")
        let tests = cells.map { "\($0.name) IS NOT \($0.value)" }.joined(separator: " OR ")
        return "UPDATE \(quoted(table.name)) SET \(sets) WHERE \"deleted\" = 1 AND (\(tests))"
    }

    static func dropBasesOfDeleted(_ table: String) -> String {
        """
        DELETE FROM "tideline_bases" WHERE "table" = ?1
        AND "id" IN (SELECT "id" FROM \(quoted(table)) WHERE "deleted" = 1)
        """
    }

    /// Gives the marked rows new commit timestamps, in the same order.
    static func renewTimestamps(_ table: String) -> String {
        """
        UPDATE \(quoted(table)) SET "updatedAt" = ?1 + ?2 * "__number", "version" = ?1 + ?2 * "__number"
        FROM (
            SELECT "rows"."id" AS "__row",
                row_number() OVER (ORDER BY "rows"."updatedAt", "rows"."id") AS "__number"
            FROM \(quoted(table)) AS "rows"
            JOIN temp."tideline_changed" AS "changed" ON "changed"."row" = "rows"."id"
        )
        WHERE \(quoted(table))."id" = "__row"
        """
    }
}
