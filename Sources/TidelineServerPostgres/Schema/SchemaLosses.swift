// SchemaLosses: what others have taken from the tables of a server since it knew them.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

struct SchemaLosses {
    /// The tables that are gone.
    private(set) var tables: [TableDefinition] = []
    /// The columns that are gone, of tables that are there.
    private(set) var columns: [(table: String, column: ColumnDefinition)] = []
    /// The tables that have lost triggers: what others wrote since then was told to nobody.
    private(set) var unheard: Set<String> = []

    /// - Throws: ``SchemaError`` where a column has another type, and where a table is out of sight.
    init(of stored: [TableDefinition], _ connection: PostgresConnection) throws {
        let found = try connection.run(
            """
            SELECT t."name", a.attname::text, format_type(a.atttypid, a.atttypmod)
            FROM tideline.tables AS t JOIN pg_attribute AS a
            ON a.attrelid = to_regclass(quote_ident(t."relation")) AND a.attnum > 0 AND NOT a.attisdropped
            """
        )
        var types: [String: [String: String]] = [:]
        for row in 0..<found.count {
            types[found.text(row, 0), default: [:]][found.text(row, 1)] = found.text(row, 2)
        }
        for table in stored {
            guard let types = types[table.name.lowercased()] else {
                try Self.refuseOutOfSight(table, connection)
                tables.append(table)
                continue
            }
            if try Self.isUnheard(table, connection) { unheard.insert(table.name) }
            for column in table.schema.columns {
                guard let type = types[column.name] else {
                    columns.append((table.name, column))
                    continue
                }
                let form = PostgresColumn(column)
                guard form.isServed(as: type) else {
                    throw Self.otherType(table, column, type, form.typeName)
                }
            }
        }
    }

    /// A table that is only in another schema is not gone.
    private static func refuseOutOfSight(
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
            "Table '\(table.name)' is in the schema '\(found.text(0, 0))', where this server does not find it: "
                + "its role needs that schema in its search_path, and the right to use it."
        )
    }

    /// Whether triggers are gone that a server has made.
    static func isUnheard(
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
        _ wanted: String
    ) -> SchemaError {
        let (relation, name) = (PostgresName.quoted(table.name), PostgresName.quoted(column.name))
        return SchemaError(
            "Table '\(table.name)', column '\(column.name)': somebody made it \(type), and it is served as "
                + "\(column.type.name). Change it back: ALTER TABLE \(relation) ALTER COLUMN \(name) TYPE "
                + "\(wanted) USING \(name)::\(wanted)."
        )
    }

    /// What is done about it, of tables that are declared.
    func steps(for declared: [TableDefinition]) -> [SchemaStep] {
        func isDeclared(_ name: String) -> Bool {
            declared.contains { SchemaPlan.isSame($0.name, name) }
        }
        return tables.filter { isDeclared($0.name) }
            .map { SchemaStep(table: $0.name, kind: .restoreTable) }
            + columns.filter { isDeclared($0.table) }
            .map { SchemaStep(table: $0.table, kind: .restoreColumn($0.column)) }
    }

    /// Forgets what is gone and declared, so that it is made anew.
    func forget(
        _ stored: inout [TableDefinition],
        for declared: [TableDefinition],
        _ script: SchemaScript
    ) throws {
        for table in tables {
            guard declared.contains(where: { SchemaPlan.isSame($0.name, table.name) }) else {
                continue
            }
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
