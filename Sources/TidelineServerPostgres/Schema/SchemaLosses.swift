// SchemaLosses: finds missing tables, columns and triggers.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The parts of a server's tables that external programs have removed.
struct SchemaLosses {
    /// The missing tables.
    private(set) var tables: [TableDefinition] = []
    /// The missing columns of existing tables.
    private(set) var columns: [(table: String, column: ColumnDefinition)] = []
    /// The tables that have lost triggers, so that external writes were not reported to devices.
    private(set) var withoutTriggers: Set<String> = []

    /// - Throws: ``SchemaError`` if a declared column has a different type, or if another program recreated a table or
    ///   moved it out of the search path.
    init(
        of stored: [TableDefinition],
        for declared: [TableDefinition],
        _ connection: PostgresConnection
    ) throws {
        let found = try connection.run(
            """
            SELECT t."name", a.attname::text, format_type(a.atttypid, a.atttypmod),
                coalesce(l.collname::text, '')
            FROM tideline.tables AS t JOIN pg_attribute AS a LEFT JOIN pg_collation AS l
            ON l.oid = a.attcollation ON a.attrelid = to_regclass(quote_ident(t."relation")) AND a.attnum > 0 AND NOT a.attisdropped
            """
        )
        var types: [String: [String: (type: String, collation: String)]] = [:]
        for row in 0..<found.count {
            types[found.text(row, 0), default: [:]][found.text(row, 1)] =
                (found.text(row, 2), found.text(row, 3))
        }
        for table in stored {
            guard let types = types[table.name.lowercased()] else {
                try Self.rejectOutOfSight(table, connection)
                tables.append(table)
                continue
            }
            let own = declared.first { SchemaPlan.isSame($0.name, table.name) }
            let missing = SystemColumn.definitions.first { types[$0.name] == nil }
            if own != nil, let missing { throw Self.recreatedTable(table, without: missing.name) }
            if try Self.lacksTriggers(table, connection) { withoutTriggers.insert(table.name) }
            for column in table.schema.columns {
                guard let found = types[column.name] else {
                    columns.append((table.name, column))
                    continue
                }
                guard own != nil else { continue }
                let form = PostgresColumn(column)
                guard form.isServed(as: found.type, found.collation) else {
                    throw Self.otherType(table, column, found.type, form)
                }
            }
        }
    }

    /// Rejects a table that exists only outside the search path, because it is not missing.
    private static func rejectOutOfSight(
        _ table: TableDefinition,
        _ connection: PostgresConnection
    ) throws {
        let found = try connection.run(
            """
            SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE c.relname = $1 AND c.relkind = 'r' AND EXISTS (
                SELECT 1 FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND g.tgname = 'tideline_truncate'
            ) ORDER BY 1 LIMIT 1
            """,
            [.text(table.name)]
        )
        guard found.count > 0 else { return }
        throw SchemaError(
            "Table '\(table.name)' is in the schema '\(found.text(0, 0))', where this server does not find it. "
                + "Add that schema to the search_path of its role, and grant the role USAGE on it."
        )
    }

    /// Returns whether triggers of the server are missing.
    static func lacksTriggers(
        _ table: TableDefinition,
        _ connection: PostgresConnection
    ) throws -> Bool {
        let found = try connection.run(
            """
            SELECT EXISTS (
                SELECT 1 FROM tideline.state WHERE "key" = 'triggers.' || $3 AND "value" <> ''
            ), count(*) FROM pg_trigger WHERE tgenabled IN ('O', 'A') AND (
                tgrelid = to_regclass($1)
                AND tgname IN ('tideline_mark', 'tideline_keep', 'tideline_truncate', 'tideline_stamp')
                OR tgrelid = to_regclass($2) AND tgname = 'tideline_stamp'
            )
            """,
            [
                .text(PostgresName.quoted(table.name)), .text(PostgresName.log(table.name)),
                .text(table.name.lowercased()),
            ]
        )
        return found.boolean(0, 0) && found.integer(0, 1) < 5
    }

    private static func otherType(
        _ table: TableDefinition,
        _ column: ColumnDefinition,
        _ type: String,
        _ form: PostgresColumn
    ) -> SchemaError {
        let (relation, name) = (PostgresName.quoted(table.name), PostgresName.quoted(column.name))
        return SchemaError(
            "Table '\(table.name)', column '\(column.name)': its type was changed to \(type), but it is served as "
                + "\(column.type.name). Change it back: ALTER TABLE \(relation) ALTER COLUMN \(name) TYPE "
                + "\(form.declaration) USING \(name)::\(form.typeName)."
        )
    }

    private static func recreatedTable(
        _ table: TableDefinition,
        without column: String
    ) -> SchemaError {
        SchemaError(
            "Table '\(table.name)' was recreated without the column '\(column)'. Rename or drop it, then run "
                + "'tideline migrate --apply', which creates the server's table empty."
        )
    }

    /// Returns the steps that restore missing objects of declared tables.
    func steps(for declared: [TableDefinition]) -> [SchemaStep] {
        func isDeclared(_ name: String) -> Bool {
            declared.contains { SchemaPlan.isSame($0.name, name) }
        }
        return tables.filter { isDeclared($0.name) }
            .map { SchemaStep(table: $0.name, kind: .restoreTable) }
            + columns.filter { lost in
                // A table that is no longer declared is forgotten without a message.
                let own = declared.first { SchemaPlan.isSame($0.name, lost.table) }
                return own?.schema.columns.contains { SchemaPlan.isSame($0.name, lost.column.name) }
                    ?? false
            }
            .map { SchemaStep(table: $0.table, kind: .restoreColumn($0.column)) }
    }

    /// Returns the steps for missing tables that are not declared, which need consent.
    func forgotten(except declared: [TableDefinition]) -> [SchemaStep] {
        tables.filter { table in !declared.contains { SchemaPlan.isSame($0.name, table.name) } }
            .map { SchemaStep(table: $0.name, kind: .forgetTable) }
    }

    /// Removes the records of lost tables and columns, so that declared ones are created again.
    ///
    /// - Parameters:
    ///   - stored: The stored tables.
    ///   - hasConsent: Whether the records of missing tables may be removed, and not only those of columns.
    ///   - script: Receives the statements.
    /// - Throws: ``PostgresError``
    func forget(
        _ stored: inout [TableDefinition],
        hasConsent: Bool,
        _ script: SchemaScript
    ) throws {
        for table in hasConsent ? tables : [] {
            stored.removeAll { $0.name == table.name }
            let name = SQLValue.text(table.name.lowercased())
            try script.run("DELETE FROM tideline.tables WHERE \"name\" = $1", [name])
            try script.run(
                "DELETE FROM tideline.state WHERE \"key\" IN ('log.' || $1, 'triggers.' || $1)",
                [name]
            )
            try script.execute("DROP TABLE IF EXISTS \(PostgresName.log(table.name))")
        }
        for (name, column) in columns {
            guard let place = stored.firstIndex(where: { $0.name == name }) else { continue }
            stored[place].schema.columns.removeAll { $0.name == column.name }
        }
    }
}
