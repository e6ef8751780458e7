// PostgresFacts: answers the queries of a schema plan about a database.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The facts about a PostgreSQL database that a schema plan needs.
struct PostgresFacts: SchemaFacts {
    let connection: PostgresConnection

    func hasTable(_ name: String) throws -> Bool {
        try connection.run(PostgresSchema.hasTable, [.text(name)]).integer(0, 0) != 0
    }

    func countLive(in table: String) throws -> Int64 {
        try count("count(*)", in: table, "NOT \"deleted\"")
    }

    func countValues(of column: String, in table: String) throws -> Int64 {
        try count("count(\(PostgresName.quoted(column)))", in: table, "TRUE")
    }

    func countNulls(of column: String, in table: String) throws -> Int64 {
        try count("count(*)", in: table, "\(PostgresName.quoted(column)) IS NULL")
    }

    private func count(
        _ expression: String,
        in table: String,
        _ condition: String
    ) throws -> Int64 {
        let sql = "SELECT \(expression) FROM \(PostgresName.quoted(table)) WHERE \(condition)"
        return try connection.run(sql).integer(0, 0)
    }

    func forEachValue(
        of column: ColumnDefinition,
        in table: String,
        _ body: (SQLValue) -> Void
    ) throws {
        let form = PostgresColumn(column)
        try connection.run(
            """
            DECLARE tideline_values NO SCROLL CURSOR FOR
            SELECT \(form.selected()) FROM \(PostgresName.quoted(table))
            WHERE \(form.quoted) IS NOT NULL
            """
        )
        while true {
            let result = try connection.run("FETCH FORWARD 1000 FROM tideline_values")
            for row in 0..<result.count { body(form.value(result, row, 0)) }
            if result.count == 0 { break }
        }
        try connection.run("CLOSE tideline_values")
    }
}
