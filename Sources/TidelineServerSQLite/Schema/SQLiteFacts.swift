// SQLiteFacts: answers the queries of a schema plan about a file.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The facts about a database file that a schema plan needs.
struct SQLiteFacts: SchemaFacts {
    let database: Database

    func hasTable(_ name: String) throws -> Bool {
        try database.integer(ServerSchema.hasTable, [.text(name)]) != 0
    }

    func countLive(in table: String) throws -> Int64 {
        try database.integer(ServerSchema.countLive(table)) ?? 0
    }

    func countValues(of column: String, in table: String) throws -> Int64 {
        try database.integer(ServerSchema.countValues(column, in: table)) ?? 0
    }

    func countNulls(of column: String, in table: String) throws -> Int64 {
        try database.integer(ServerSchema.countNulls(column, in: table)) ?? 0
    }

    func forEachValue(
        of column: ColumnDefinition,
        in table: String,
        _ body: (SQLValue) -> Void
    ) throws {
        let statement = try database.prepare(ServerSchema.values(column.name, in: table))
        defer { statement.reset() }
        while try statement.step() { body(statement.value(0)) }
    }
}
