// SchemaLosses: what others have taken from the tables of a server since it knew them.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

struct SchemaLosses {
    /// The tables that are gone.
    private(set) var tables: [TableDefinition] = []
    /// The columns that are gone, of tables that are there.
    private(set) var columns: [(table: String, column: ColumnDefinition)] = []

    /// - Throws: ``SchemaError`` where a column has another type.
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
                tables.append(table)
                continue
            }
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

    /// Forgets what is gone, so that it is made anew where it is declared.
    func forget(_ stored: inout [TableDefinition], _ script: SchemaScript) throws {
        for table in tables {
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
