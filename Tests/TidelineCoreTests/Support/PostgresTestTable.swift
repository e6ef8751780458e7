// PostgresTestTable: a PostgreSQL table with rows. Like the server, it evaluates the exact part of a
// filter with SQL, and the rest with the evaluator.

#if !ONLY_CLIENT
import Foundation
import TidelineCore
import TidelinePostgres
import TidelineTestKit

final class PostgresTestTable {
    let renderer: FilterRenderer
    private let rows: [String: Row]
    private let split: FilterSplit
    private let connection: PostgresConnection

    init(_ schema: TableSchema, _ rows: [Row]) throws {
        renderer = FilterRenderer(schema: schema, dateUnit: .microseconds, dialect: .postgres)
        split = FilterSplit(schema: schema)
        self.rows = Dictionary(uniqueKeysWithValues: rows.map { ($0.id, $0) })
        connection = try PostgresConnection(
            PostgresAddress(try PostgresCluster.shared().database())
        )
        let columns = [ColumnDefinition("id", .string)] + schema.columns
        let definitions = columns.map { "\"\($0.name)\" \(Self.type($0.type))" }
        try connection.execute("CREATE TABLE t (\(definitions.joined(separator: ", ")))")
        let casts = columns.enumerated().map { "$\($0 + 1)::text::\(Self.plain($1.type))" }
        for row in rows {
            let values = columns.map { column in
                Self.text(row[column.name] ?? .null).map { SQLValue.text($0) } ?? .null
            }
            try connection.run(
                "INSERT INTO t VALUES (\(casts.joined(separator: ", ")))",
                values
            )
        }
    }

    private static func plain(_ type: ColumnType) -> String {
        switch type {
        case .string, .enumeration: "text"
        case .integer: "bigint"
        case .number: "float8"
        case .decimal: "numeric"
        case .boolean: "boolean"
        case .dateTime: "timestamptz"
        case .date: "date"
        case .time: "time"
        case .guid: "uuid"
        case .binary: "bytea"
        case .json: "json"
        }
    }

    private static func type(_ type: ColumnType) -> String {
        plain(type) + (plain(type) == "text" ? " COLLATE \"C\"" : "")
    }

    /// Returns a value as text for PostgreSQL.
    private static func text(_ value: Value) -> String? {
        switch value {
        case .null: nil
        case .bool(let value): value ? "t" : "f"
        case .integer(let value): String(value)
        case .number(let value): "\(value)"
        case .decimal(let value): DecimalText.canonical(value)
        case .string(let value): value
        case .date(let value): Timestamp(value).exactText
        case .data(let value):
            "\\x" + value.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        case .json(let value): value.text
        }
    }

    /// Returns the ids of the rows that match a filter, in order.
    func ids(_ filter: QueryExpression, strict: Bool = false) throws -> [String] {
        let (exact, rest) = split.split(filter)
        var condition: SQL = "TRUE"
        if let exact {
            condition = strict ? renderer.strictCondition(exact) : renderer.condition(exact)
        }
        if let rest, let candidates = renderer.candidates(for: rest) {
            condition = "(\(condition)) AND (\(candidates))"
        }
        return try query("SELECT \"id\" FROM t WHERE \(condition) ORDER BY \"id\"").filter { id in
            guard let rest, let row = rows[id] else { return true }
            return Filter(rest).matches(row.onWire)
        }
    }

    func query(_ sql: SQL) throws -> [String] {
        do {
            let result = try connection.run(PostgresStatement(sql))
            return (0..<result.count).map { result.text($0, 0) }
        } catch {
            throw SQLiteFailure(description: "\(error): \(sql.text(for: .postgres))")
        }
    }
}

/// The tables of the facts, which are created once.
final class PostgresFactTables: Sendable {
    static let shared = PostgresFactTables()

    private let lock = NSLock()
    // Read and written only under the lock.
    private nonisolated(unsafe) var tables: [TableSchema: PostgresTestTable] = [:]

    /// Runs `body` with exclusive access to the table of a schema.
    func withTable<Result>(
        _ schema: TableSchema,
        _ body: (PostgresTestTable) throws -> Result
    ) throws -> Result {
        lock.lock()
        defer { lock.unlock() }
        let table = try tables[schema] ?? PostgresTestTable(schema, Fixture.rows(schema))
        tables[schema] = table
        return try body(table)
    }
}
#endif
