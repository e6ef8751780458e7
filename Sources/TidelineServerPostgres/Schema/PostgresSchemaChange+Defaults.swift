// PostgresSchemaChange+Defaults: the default expressions of the columns of an adopted table.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresSchemaChange {
    /// Reads the expressions for columns that are declared without a default.
    ///
    /// - Parameters:
    ///   - table: The declared table.
    ///   - known: The expressions that were read before; nil to read all columns when a table is adopted.
    ///     Otherwise, the defaults of other columns were set by a server.
    /// - Returns: The expressions by column.
    /// - Throws: ``PostgresError``
    func databaseDefaults(
        of table: TableDefinition,
        known: [String: String]?
    ) throws -> [String: String] {
        if let known, known.isEmpty { return [:] }
        let found = try connection.run(
            Self.readDefaults,
            [.text(PostgresName.quoted(table.name))]
        )
        var defaults: [String: String] = [:]
        for row in 0..<found.count {
            let name = found.text(row, 0)
            let isDeclared = table.schema.columns.contains {
                $0.name == name && $0.defaultValue == nil
            }
            guard isDeclared, known?.keys.contains(name) ?? true else { continue }
            defaults[name] = found.text(row, 1)
        }
        return defaults
    }

    /// Returns the stored default expressions, keyed by the column names after `steps`.
    func knownDefaults(
        of stored: TableDefinition?,
        after steps: [SchemaStep]
    ) -> [String: String] {
        var known = stored?.databaseDefaults ?? [:]
        for step in steps {
            guard case .renameColumn(let old, let new) = step.kind,
                let expression = known.removeValue(forKey: old)
            else { continue }
            known[new.name] = expression
        }
        return known
    }

    private static let readDefaults = """
        SELECT a.attname::text, CASE
            WHEN a.attidentity <> '' THEN
                format('nextval(%L::regclass)', pg_get_serial_sequence($1, a.attname::text))
            ELSE pg_get_expr(d.adbin, d.adrelid)
        END
        FROM pg_attribute AS a
        LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
        AND a.attgenerated = '' AND (d.oid IS NOT NULL OR a.attidentity <> '')
        """
}
