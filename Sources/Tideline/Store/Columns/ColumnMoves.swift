// ColumnMoves: rewrites rows if a model's columns changed since the file was last opened.
//
// Values of a previously unknown column are among the rows' unknown members, and a column with a
// new type has different cells. The transaction that opens the store rewrites the rows. A column
// that the model does not have is kept, because other programs may use the file.

import TidelineCore
import TidelineSQLite

/// A migration of one table's rows to columns that a model added or changed.
struct ColumnMoves {
    let table: SQLiteTable
    /// Whether columns were added to the table.
    var hasGained = false
    /// The columns whose type differs from the type in the file.
    var changed: [Change] = []

    /// A column, and the conversion of its cells before the change.
    struct Change {
        var column: ColumnDefinition
        var former: CellForm

        var name: String { column.name }
        /// The column's temporary name while its cells are moved.
        var formerName: String { "__former_" + name }

        /// Converts a former cell to a value of the new type.
        ///
        /// The original SDK stored instants with fractions of milliseconds, and did not check JSON.
        func value(of cell: Value) -> Value {
            if former == .instant, case .number(let milliseconds) = cell {
                guard let whole = Int64(exactly: milliseconds.rounded()) else { return cell }
                return .date(Timestamp(microseconds: whole &* 1000).date)
            }
            if former == .json, case .json(let json) = cell {
                return (try? JSON(json.text)).map(Value.json) ?? .string(json.text)
            }
            return MovedValue.value(cell, as: column.type)
        }
    }

    init(table: SQLiteTable) {
        self.table = table
    }

    private var name: String { Identifier(table.schema.name).quoted }

    /// Returns the types of the columns in the file, by lowercase column name.
    static func columns(
        of table: SQLiteTable,
        in database: Database
    ) throws -> [String: String] {
        var known: [String: String] = [:]
        for column in try database.columns(of: table.schema.name) {
            known[column.name.lowercased()] = column.type
        }
        return known
    }

    /// The number of rows to read before they are stored again.
    private static let batchRows = 500

    /// `progress` receives the number of rows that have been rewritten so far.
    func run(in database: Database, _ progress: (Int) throws -> Void) throws {
        guard table.hasExtra, hasGained || !changed.isEmpty else { return }
        let indexes = changed.isEmpty ? [] : try self.indexes(in: database)
        // Their triggers and their view refer to columns by name, which would prevent the moves.
        if !changed.isEmpty {
            try SearchTables.remove(from: table.schema.name, in: database)
            try OrderTables.remove(from: table.schema.name, in: database)
        }
        for index in indexes {
            try database.execute("DROP INDEX \(Identifier(index.name).quoted)")
        }
        try rename(
            Dictionary(uniqueKeysWithValues: changed.map { ($0.name, $0.formerName) }),
            database
        )
        for change in changed {
            let declaration = SQLiteStoreSchema.declaration(change.column)
            try database.execute("ALTER TABLE \(name) ADD COLUMN \(declaration)")
        }
        try rewriteRows(in: database, progress)
        try drop(changed.map(\.formerName), database)
        for index in indexes { try database.execute(index.sql) }
    }

    private func rename(_ names: [String: String], _ database: Database) throws {
        guard Database.movesColumns else {
            let names = Dictionary(uniqueKeysWithValues: names.map { ($0.lowercased(), $1) })
            return try rebuild(database) { names[$0.lowercased()] ?? $0 }
        }
        for (old, new) in names {
            let (old, new) = (Identifier(old).quoted, Identifier(new).quoted)
            try database.execute("ALTER TABLE \(name) RENAME COLUMN \(old) TO \(new)")
        }
    }

    private func drop(_ names: [String], _ database: Database) throws {
        guard Database.movesColumns else {
            let names = Set(names.map { $0.lowercased() })
            return try rebuild(database) { names.contains($0.lowercased()) ? nil : $0 }
        }
        for column in names {
            try database.execute("ALTER TABLE \(name) DROP COLUMN \(Identifier(column).quoted)")
        }
    }

    /// Rebuilds the table, for an SQLite version that can add columns but not drop or rename them.
    ///
    /// A column for which `newName` returns nil is removed. The caller drops and recreates the
    /// indexes.
    private func rebuild(_ database: Database, _ newName: (String) -> String?) throws {
        let kept = try database.columns(of: table.schema.name).compactMap { column in
            newName(column.name).map { (column, Identifier($0).quoted) }
        }
        let declarations = kept.map { column, name in
            let key = column.name == SystemColumn.id ? " PRIMARY KEY NOT NULL" : ""
            return "\(name) \(column.type)\(key)"
        }
        let old = kept.map { Identifier($0.0.name).quoted }.joined(separator: ", ")
        let fresh = Identifier("__moved_" + table.schema.name).quoted
        try database.execute("CREATE TABLE \(fresh) (\(declarations.joined(separator: ", ")))")
        try database.execute("INSERT INTO \(fresh) SELECT \(old) FROM \(name)")
        try database.execute("DROP TABLE \(name)")
        try database.execute("ALTER TABLE \(fresh) RENAME TO \(name)")
    }

    /// Returns the indexes that the app created, because a column that is part of an index cannot
    /// be dropped.
    private func indexes(in database: Database) throws -> [(name: String, sql: String)] {
        let statement = try database.prepare(
            """
            SELECT name, sql FROM sqlite_master
            WHERE type = 'index' AND lower(tbl_name) = lower(?1) AND sql IS NOT NULL
            """
        )
        defer { statement.reset() }
        try statement.bind([.text(table.schema.name)])
        var indexes: [(String, String)] = []
        while try statement.step() { indexes.append((statement.text(0), statement.text(1))) }
        return indexes
    }

    /// Rewrites every row that has unknown members or a value in a column whose type changed.
    private func rewriteRows(in database: Database, _ progress: (Int) throws -> Void) throws {
        let now = try SQLiteStoreSchema.table(table.schema, in: database)
        let rows = SQLiteTransaction(database, [table.schema.name: now])
        let moved = changed.map { Identifier($0.formerName).quoted }
        let conditions = [SQLiteTable.extraColumn] + moved
        let columns = ["\"id\""] + moved
        let select = """
            SELECT \(columns.joined(separator: ", ")) FROM \(name)
            WHERE "id" > ?1 AND (\(conditions.map { $0 + " IS NOT NULL" }.joined(separator: " OR ")))
            ORDER BY "id" LIMIT \(Self.batchRows)
            """
        var (last, count) = ("", 0)
        while true {
            var found: [(id: String, values: [Value])] = []
            let statement = try database.prepare(select)
            try statement.bind([.text(last)])
            while try statement.step() {
                let values = changed.enumerated().map { index, change in
                    change.value(
                        of: SQLiteStoreSQL.value(statement, Int32(index + 1), change.former)
                    )
                }
                found.append((statement.text(0), values))
            }
            statement.reset()
            for (id, values) in found {
                guard var row = try rows.row(id: .string(id), in: table.schema.name) else {
                    continue
                }
                for (change, value) in zip(changed, values) {
                    if value != .null {
                        row[change.name] = value
                    } else if let unheld = row[change.name] {
                        // The former type could not store the value.
                        row[change.name] = MovedValue.value(unheld, as: change.column.type)
                    }
                }
                try rows.put([row], in: table.schema.name)
            }
            guard found.count == Self.batchRows, let end = found.last else { return }
            last = end.id
            count += found.count
            try progress(count)
        }
    }
}
