// UniqueCheck: looks for a row with the values of another one, by the index of a `unique` rule.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The statement that finds a live row with the same values.
struct UniqueCheck: Sendable {
    let rule: UniqueRule
    private let sql: String

    /// Creates the statements of a table, in the order of its rules.
    static func all(of table: Table) -> [UniqueCheck] {
        zip(table.uniqueRules, table.definition.uniqueIndexes).map { rule, columns in
            let conditions = columns.enumerated().map { place, column in
                "\(ServerSchema.quoted(column)) = ?\(place + 2)"
            }
            return UniqueCheck(
                rule: rule,
                sql: """
                    SELECT 1 FROM \(ServerSchema.quoted(table.name))
                    WHERE "deleted" = 0 AND \(conditions.joined(separator: " AND "))
                    AND "id" <> ?1 LIMIT 1
                    """
            )
        }
    }

    /// Returns the rejection of a change that would make two rows equal; nil if it makes none.
    static func rejection(
        of change: WritePlan.Change,
        _ table: SQLiteTable,
        _ database: Database
    ) throws -> ServerError? {
        guard let (image, rules) = change.uniqueRules(of: table.table) else { return nil }
        for check in table.uniqueChecks where rules.contains(check.rule) {
            guard let values = check.rule.values(of: image) else { continue }
            let statement = try database.prepare(check.sql)
            defer { statement.reset() }
            statement.bind(1, text: image.id)
            for (place, value) in values.enumerated() {
                statement.bind(Int32(place + 2), value)
            }
            if try statement.step() { return check.rule.rejection }
        }
        return nil
    }
}
