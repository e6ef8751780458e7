// SchemaChange: brings the tables of a database to what is declared, without losing data.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct SchemaChange {
    let database: Database

    /// In one transaction; nothing is changed when it throws.
    func prepare(_ tables: [TableDefinition]) throws -> [TableDefinition] {
        try database.transaction {
            var stored = try open()
            for table in tables {
                let place = stored.firstIndex { $0.name.lowercased() == table.name.lowercased() }
                let merged = try bring(table, from: place.map { stored[$0].schema.columns })
                if let place { stored[place] = merged } else { stored.append(merged) }
            }
            return stored
        }
    }

    private func open() throws -> [TableDefinition] {
        let version = try database.integer("PRAGMA user_version") ?? 0
        guard version <= ServerSchema.formatVersion else {
            throw SchemaError(
                "The database is of format \(version), which a newer server made; this one reads "
                    + "up to \(ServerSchema.formatVersion). Install the newer server."
            )
        }
        try database.execute(ServerSchema.tables)
        try database.execute(ServerSchema.state)
        try database.execute("PRAGMA user_version = \(ServerSchema.formatVersion)")
        let statement = try database.prepare(ServerSchema.readTables)
        defer { statement.reset() }
        var tables: [TableDefinition] = []
        while try statement.step() {
            let columns = try ColumnsText.read(statement.text(1))
            tables.append(TableDefinition(statement.text(0), columns: columns))
        }
        return tables
    }

    /// Columns that are there keep their place; those that are new follow.
    private func bring(
        _ table: TableDefinition,
        from stored: [ColumnDefinition]?
    ) throws -> TableDefinition {
        if stored == nil { try create(table.name) }
        var columns = stored ?? []
        for column in table.schema.columns {
            let place = columns.firstIndex { $0.name.lowercased() == column.name.lowercased() }
            if let place {
                try check(columns[place], becomes: column, in: table.name)
                columns[place] = column
            } else {
                try database.execute(ServerSchema.add(column, to: table.name))
                columns.append(column)
            }
        }
        try indexes(table)
        try database.prepare(ServerSchema.putTable).run([
            .text(table.name), .text(ColumnsText.write(columns)),
        ])
        var merged = table
        merged.schema.columns = columns
        return merged
    }

    private func create(_ table: String) throws {
        guard try database.integer(ServerSchema.hasTable, [.text(table)]) == 0 else {
            throw SchemaError(
                "Table '\(table)' is in the database, but this server did not make it. Rename one "
                    + "of the two."
            )
        }
        try database.execute(ServerSchema.create(table))
    }

    private func check(
        _ old: ColumnDefinition,
        becomes new: ColumnDefinition,
        in table: String
    ) throws {
        guard old.type.name == new.type.name else {
            throw SchemaError(
                "Table '\(table)', column '\(new.name)': it holds \(old.type.name) in the database "
                    + "and is declared as \(new.type.name). That would lose data: declare it as "
                    + "\(old.type.name), or add a column of another name."
            )
        }
        guard old.isNullable, !new.isNullable,
            try database.integer(ServerSchema.hasNull(old.name, in: table)) == 1
        else { return }
        throw SchemaError(
            "Table '\(table)', column '\(new.name)': it is declared as not nullable, but rows "
                + "hold null. Declare it as nullable, or fill them with sqlite3 and start again: "
                + ServerSchema.fillNulls(new, in: table) + ";"
        )
    }

    private func indexes(_ table: TableDefinition) throws {
        var wanted = [[SystemColumn.updatedAt, SystemColumn.id]] + table.indexes
        if let owner = table.owner {
            wanted.append([owner, SystemColumn.updatedAt, SystemColumn.id])
        }
        var names = Set(wanted.map { ServerSchema.indexName(table.name, $0).lowercased() })
        if table.tombstoneDays != nil {
            names.insert(ServerSchema.tombstoneIndexName(table.name).lowercased())
            try database.execute(ServerSchema.tombstoneIndex(table.name))
        }
        for name in try indexNames(table.name) where !names.contains(name.lowercased()) {
            try database.execute("DROP INDEX \(ServerSchema.quoted(name))")
        }
        for columns in wanted { try database.execute(ServerSchema.index(table.name, columns)) }
    }

    private func indexNames(_ table: String) throws -> [String] {
        let statement = try database.prepare(ServerSchema.indexesOf)
        defer { statement.reset() }
        try statement.bind([.text(table)])
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }
}
