// PostgresUnique: `unique` rules.
//
// The index decides, even between servers. The search only finds out which write of a group is rejected, so it runs
// only in a transaction in which some group has failed.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The `unique` rules of a table: their indexes, and the search for a row that already has the values.
enum PostgresUnique {
    // MARK: - Indexes

    static func indexName(_ table: String, _ columns: [String]) -> String {
        PostgresName.index(table, ["", "unique"] + columns)
    }

    /// Returns the statement that creates the index of a rule, which ignores tombstones and nulls.
    static func index(_ table: String, _ columns: [String]) -> String {
        """
        CREATE UNIQUE INDEX IF NOT EXISTS \(PostgresName.quoted(indexName(table, columns)))
        ON \(PostgresName.quoted(table)) (\(columns.map(PostgresName.quoted).joined(separator: ", ")))
        WHERE NOT "deleted"
        """
    }

    /// Returns the statement that counts the live rows with the values of another one.
    private static func countEqualRows(_ table: String, _ columns: [String]) -> String {
        let names = columns.map(PostgresName.quoted)
        return """
            SELECT coalesce(sum("rows"), 0)::bigint FROM (
                SELECT count(*) AS "rows" FROM \(PostgresName.quoted(table))
                WHERE NOT "deleted" AND \(names.map { "\($0) IS NOT NULL" }.joined(separator: " AND "))
                GROUP BY \(names.joined(separator: ", ")) HAVING count(*) > 1
            ) AS x
            """
    }

    /// Creates the index of a rule.
    ///
    /// - Throws: ``SchemaError`` if rows already break the rule.
    static func create(
        _ rule: [String],
        _ columns: [String],
        in table: TableDefinition,
        _ script: SchemaScript,
        _ connection: PostgresConnection
    ) throws {
        let rows = try connection.run(countEqualRows(table.name, columns)).integer(0, 0)
        guard rows == 0 else { throw SchemaError.notUnique(rule, in: table.name, rows: rows) }
        try script.runOnRows(index(table.name, columns))
    }

    // MARK: - Rows

    /// Returns the rejection of a change that would make two rows equal; nil if no such row is found.
    ///
    /// The earlier writes of the transaction must have been sent.
    static func rejection(
        _ image: RowImage,
        _ rules: [UniqueRule],
        _ table: PostgresTable,
        _ connection: PostgresConnection
    ) throws -> ServerError? {
        for rule in rules {
            guard rule.values(of: image) != nil else { continue }
            let columns = rule.places.map { table.columns[$0] }
            let types = columns.enumerated().map { "$\($0 + 1)::\($1.arrayType)" }
            let names = columns.indices.map { "\"tideline_\($0)\"" }
            let conditions = columns.enumerated().map { "t.\($1.quoted) = x.\"tideline_\($0)\"" }
            let cells = rule.places.map { image.allValues[$0] }
            let found = try connection.run(
                PostgresStatement(
                    """
                    SELECT 1 FROM \(table.quoted) AS t
                    JOIN unnest(\(types.joined(separator: ", "))) AS x(\(names.joined(separator: ", ")))
                    ON \(conditions.joined(separator: " AND "))
                    WHERE NOT t."deleted" AND t."id" <> $\(columns.count + 1) LIMIT 1
                    """,
                    zip(columns, cells).map { $0.array([$1]) } + [.value(.text(image.id))]
                )
            )
            if found.count > 0 { return rule.rejection }
        }
        return nil
    }

    /// Returns the rejection of a row by a unique index, of the server or of another program.
    ///
    /// An index on expressions has no columns that a caller could change.
    static func rejection(
        _ error: PostgresError,
        in tables: [PostgresTable]
    ) -> ServerError {
        let text = error.constraint ?? ""
        let columns = text.split(separator: ", ").map { name in
            name.hasPrefix("\"") ? String(name.dropFirst().dropLast()) : String(name)
        }
        guard !columns.isEmpty, !text.contains("("), columns != [SystemColumn.id] else {
            return .constraint(.uniqueConstraint, text)
        }
        let table = tables.first { $0.name == error.relation?.table }
        let rules = table.map { zip($0.table.uniqueRules, $0.table.definition.uniqueIndexes) }
        if let rule = rules?.first(where: { $0.1 == columns })?.0 { return rule.rejection }
        return ServerError(RuleViolation.notUnique(columns))
    }
}
