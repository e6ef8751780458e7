// The checksum of each row: no row that the store wrote counts as changed by another program, whatever its values, and
// each change in the file is detected.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct RowChecksumTests {
    private static let schema = TableSchema(
        name: "Odd",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
            ColumnDefinition("size", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("done", .boolean), ColumnDefinition("due", .dateTime),
            ColumnDefinition("shape", .json), ColumnDefinition("bytes", .binary),
        ]
    )

    private static let values: [Value] = [
        .null, "", "a", "12345678", "123456789 äöü", "007", "7", "7.0", "-0", "1e300", "a\u{0}b",
        .integer(0), .integer(7), .integer(.max), .integer(.min), .integer(9_007_199_254_740_993),
        .number(0), .number(-0.0), .number(7), .number(7.5), .number(1e300), .number(-9.3e18),
        .number(9.2e18), .bool(true), .bool(false), .date(Date(timeIntervalSince1970: 1.5)),
        .decimal(Decimal(7)), .decimal(Decimal(string: "7.50") ?? 0),
        .decimal(Decimal(string: "12345678901234567890.123") ?? 0),
        .json(JSON(checked: "{\"a\":[1,2.5]}")), .data(Data()), .data(Data([0, 1, 255])),
    ]

    private func store(_ path: String, _ schema: TableSchema = schema) async throws -> SQLiteStore {
        let store = try SQLiteStore(path: path)
        _ = try await Device(ScriptedTransport(), store: store, tables: [], schemas: [schema])
        return store
    }

    private func changed(_ store: SQLiteStore) async throws -> [String] {
        try await store.read { reader in
            try reader.uncertainRows(nil, in: "Odd").changed
                .sorted()
        }
    }

    private func unknown(_ store: SQLiteStore) async throws -> [String] {
        try await store.read { reader in
            try reader.uncertainRows(nil, in: "Odd").unknown
        }
    }

    /// Returns a row for each value in each column, known or unknown.
    private static var rows: [Row] {
        (schema.columns.map(\.name) + ["unknown", "version", "updatedAt"]).flatMap { column in
            values.enumerated().map { index, value in
                var row: Row = ["id": .string("\(column)-\(index)"), "text": "t"]
                row[column] = value
                return row
            }
        }
    }

    @Test("No row that the store wrote counts as changed")
    func noRowOfTheStoreCountsAsChanged() async throws {
        try await withTemporaryFile { path in
            let store = try await store(path)
            try await store.write { try $0.put(Self.rows, in: "Odd") }
            #expect(try await changed(store) == [])
            // A row that is read and stored again is unchanged.
            try await store.write { writer in
                try writer.put(try writer.rows(TableQuery(), in: "Odd"), in: "Odd")
            }
            #expect(try await changed(store) == [])
            try await store.close()
            let database = try Database(path: path)
            let known = try database.integer(
                "SELECT count(*) FROM Odd WHERE __checksum IS NOT NULL"
            )
            #expect(try #require(known) > Int64(Self.rows.count * 9 / 10))
        }
    }

    /// Models that gain a column, change a column's type, or lose a column.
    @Test("No row counts as changed after a change of the model")
    func anotherModelChangesNoRow() async throws {
        try await withTemporaryFile { path in
            let first = try await store(path)
            try await first.write { try $0.put(Self.rows, in: "Odd") }
            try await first.close()
            let changes: [@Sendable (inout TableSchema) -> Void] = [
                { $0.columns.append(ColumnDefinition("unknown", .integer)) },
                { $0.columns.removeAll { $0.name == "size" || $0.name == "text" } },
                { $0.columns.append(ColumnDefinition("size", .string)) },
                { $0.columns[0] = ColumnDefinition("RANK", .number) },
            ]
            var schema = Self.schema
            for change in changes {
                change(&schema)
                let store = try await store(path, schema)
                #expect(try await changed(store) == [])
                try await store.close()
            }
        }
    }

    @Test("Each change of a value in the file is detected")
    func eachChangeInTheFileIsDetected() async throws {
        let changes: [(String, [String])] = [
            ("text = 'x'", ["a", "b"]), ("text = 'T'", ["a", "b"]), ("text = NULL", ["a", "b"]),
            ("rank = rank + 1", ["a"]), ("rank = 0 WHERE id = 'b'", ["b"]),
            ("size = 7.25", ["a", "b"]), ("text = CAST(text AS BLOB)", ["a", "b"]),
            ("done = NOT done", ["a"]), ("due = due - 1", ["a"]),
            ("shape = '{\"a\":2}'", ["a", "b"]), ("__extra = NULL", ["a"]),
            ("id = 'c' WHERE id = 'a'", ["c"]), ("version = 'v'", ["a", "b"]),
            // Two columns whose values are swapped.
            ("text = price, price = text", ["a", "b"]),
            // Columns that are not values of the row.
            ("__queries = 1", []), ("text = text", []),
        ]
        for (change, ids) in changes {
            try await withTemporaryFile { path in
                let store = try await store(path)
                let full: Row = [
                    "id": "a", "text": "t", "rank": .integer(1), "size": .number(0.5),
                    "price": "p", "done": .bool(true), "shape": .json(JSON(checked: "{\"a\":1}")),
                    "due": .date(Date(timeIntervalSince1970: 1)), "unknown": "u",
                ]
                try await store.write { try $0.put([full, ["id": "b", "text": "t"]], in: "Odd") }
                do {
                    let database = try Database(path: path)
                    try database.execute("UPDATE Odd SET \(change)")
                }
                #expect(try await changed(store) == ids, "\(change)")
            }
        }
    }

    @Test("A row from before checksums existed is unknown, not changed")
    func aRowWithoutAChecksumIsUnknown() async throws {
        try await withTemporaryFile { path in
            let first = try await store(path)
            try await first.write { try $0.put([["id": "a", "text": "t"]], in: "Odd") }
            try await first.close()
            do {
                let database = try Database(path: path)
                try database.execute("ALTER TABLE Odd DROP COLUMN __checksum")
            }
            let second = try await store(path)
            #expect(try await changed(second) == [])
            try await second.write { try $0.put([["id": "b", "text": "t"]], in: "Odd") }
            #expect(try await changed(second) == [])
            #expect(try await unknown(second) == ["a"])
        }
    }
}
