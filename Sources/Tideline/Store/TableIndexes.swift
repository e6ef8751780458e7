// TableIndexes: the indexes that a model declares.

import TidelineCore
import TidelineSQLite

/// The indexes that the library creates for a table.
///
/// The app's own indexes stay unchanged.
struct TableIndexes {
    private let table: String
    private let indexes: [(name: String, columns: [String])]

    init(of schema: TableSchema) {
        table = schema.name
        indexes = schema.indexes.map { columns in
            // The key comes last, because it breaks ties.
            let all = columns.contains(SystemColumn.id) ? columns : columns + [SystemColumn.id]
            return (Self.prefix(schema.name) + columns.joined(separator: "."), all)
        }
    }

    private static func prefix(_ table: String) -> String { "tideline.\(table)." }

    /// Removes the indexes that the model no longer declares.
    func removeUndeclared(in database: Database) throws {
        let statement = try database.prepare(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND lower(tbl_name) = lower(?1)"
        )
        try statement.bind([.text(table)])
        var others: [String] = []
        while try statement.step() {
            let name = statement.text(0)
            guard name.hasPrefix(Self.prefix(table)), !indexes.contains(where: { $0.name == name })
            else { continue }
            others.append(name)
        }
        statement.reset()
        for name in others { try database.execute("DROP INDEX \(Identifier(name).quoted)") }
    }

    func make(in database: Database) throws {
        for (name, columns) in indexes {
            let list = columns.map { Identifier($0).quoted }.joined(separator: ", ")
            try database.execute(
                """
                CREATE INDEX IF NOT EXISTS \(Identifier(name).quoted)
                ON \(Identifier(table).quoted) (\(list))
                """
            )
        }
    }
}
