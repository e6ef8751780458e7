// Changes to declared tables: what a start applies by itself, what it rejects, and what a migration does.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite

@Suite struct MigrationTests {
    private static func table(_ columns: ColumnDefinition...) -> TableDefinition {
        TableDefinition("T", columns: columns)
    }

    private static func database(_ path: String, _ table: TableDefinition) throws -> ServerDatabase
    {
        var configuration = ServerConfiguration()
        configuration.database = .sqlite(path: path)
        configuration.tables = [table]
        return try ServerDatabase(configuration)
    }

    /// A file with these rows in `table`.
    private static func make(
        _ path: String,
        _ table: TableDefinition,
        _ rows: [String]
    ) async throws {
        let server = try await TestServer([table], path: path)
        for row in rows {
            #expect(await server.send("POST", "/tables/T", row).status == 201, "\(row)")
        }
        await server.store.stop()
    }

    struct Conversion: Sendable, CustomTestStringConvertible {
        var from: ColumnType
        var to: ColumnType
        /// Values before and after as JSON; nil for null.
        var values: [(String, String?)]

        var testDescription: String { "\(from.name) to \(to.name)" }
    }

    static let conversions = [
        Conversion(
            from: .integer,
            to: .string,
            values: [("5", #""5""#), ("-9007199254740993", #""-9007199254740993""#)]
        ),
        Conversion(
            from: .string,
            to: .integer,
            values: [(#""5""#, "5"), (#""05""#, nil), (#""5.5""#, nil), (#""""#, nil)]
        ),
        Conversion(from: .number, to: .integer, values: [("5", "5"), ("5.5", nil), ("1e30", nil)]),
        Conversion(
            from: .integer,
            to: .number,
            values: [("5", "5"), ("9007199254740993", nil)]
        ),
        Conversion(from: .boolean, to: .string, values: [("true", #""true""#)]),
        Conversion(from: .boolean, to: .integer, values: [("true", "1"), ("false", "0")]),
        Conversion(from: .integer, to: .boolean, values: [("1", "true"), ("2", nil)]),
        Conversion(
            from: .string,
            to: .date,
            values: [(#""2026-11-21""#, #""2026-11-21""#), (#""today""#, nil)]
        ),
        Conversion(
            from: .dateTime,
            to: .string,
            values: [(#""2026-11-21T08:00:00Z""#, #""2026-11-21T08:00:00.000000Z""#)]
        ),
        Conversion(
            from: .string,
            to: .dateTime,
            values: [(#""2026-11-21T09:00:00+01:00""#, #""2026-11-21T08:00:00.000Z""#)]
        ),
        Conversion(
            from: .decimal,
            to: .number,
            values: [("0.5", "0.5"), ("0.12345678901234567891", nil)]
        ),
        Conversion(from: .json, to: .string, values: [(#"{"a":1}"#, #""{\"a\":1}""#)]),
        Conversion(from: .string, to: .json, values: [(#""a""#, #""a""#)]),
        Conversion(from: .binary, to: .string, values: [(#""aGk=""#, #""aGk=""#)]),
        Conversion(
            from: .enumeration(["a", "b"]),
            to: .enumeration(["b", "c"]),
            values: [(#""b""#, #""b""#), (#""a""#, nil)]
        ),
    ]

    @Test(
        "A migration converts each value exactly or replaces it with null",
        arguments: conversions
    )
    func convertsExactlyOrNotAtAll(_ example: Conversion) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let rows = example.values.enumerated().map { #"{"id":"\#($0)","a":\#($1.0)}"# }
            try await Self.make(path, Self.table(ColumnDefinition("a", example.from)), rows)
            let table = Self.table(ColumnDefinition("a", example.to))
            await #expect(throws: SchemaError.self) { try await TestServer([table], path: path) }
            let database = try Self.database(path, table)
            let plan = try database.migrationPlan()
            #expect(plan.changesValues && plan.steps.count == 1)
            let lost = example.values.count { $0.1 == nil }
            let words = lost == 1 ? "1 of them cannot be" : "\(lost) of them cannot be"
            #expect(plan.description.contains(words) == (lost > 0), "\(plan)")
            #expect(try database.migrate() == plan)
            #expect(try database.migrationPlan().isEmpty)
            let server = try await TestServer([table], path: path)
            for (index, value) in example.values.enumerated() {
                let row = await server.send("GET", "/tables/T/\(index)").text
                #expect(row.contains(#""a":\#(value.1 ?? "null"),"#), "\(row)")
            }
            await server.store.stop()
        }
    }

    @Test("A start that is rejected reports all table changes that would lose data")
    func aStartReportsAllRejectedChanges() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(
                ColumnDefinition("a", .string),
                ColumnDefinition("b", .integer),
                ColumnDefinition("c", .string)
            )
            try await Self.make(path, old, [#"{"a":"x","b":1}"#, #"{"a":"y","b":2,"c":"z"}"#])
            let new = Self.table(
                ColumnDefinition("b", .boolean),
                ColumnDefinition("c", .string, nullable: false)
            )
            let error = await #expect(throws: SchemaError.self) {
                try await TestServer([new], path: path)
            }
            let text = error?.description ?? ""
            for words in [
                "column 'b': it has 2 values of type integer but is declared as boolean. 1 of them",
                "column 'c': it is declared as not nullable, but 1 row has null",
                "column 'a': it exists in the database with 2 values but is not declared",
                "Nothing was changed", "'tideline migrate --apply'",
            ] {
                #expect(text.contains(words), "\(text)")
            }
            let again = try await TestServer([old], path: path)
            #expect(await again.send("GET", "/tables/T").rows.count == 2)
            await again.store.stop()
        }
    }

    @Test("A start changes and removes columns that contain no values")
    func aStartChangesEmptyColumns() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(
                ColumnDefinition("a", .string),
                ColumnDefinition("b", .integer),
                ColumnDefinition("e", .enumeration(["x", "y"]))
            )
            try await Self.make(path, old, [#"{"id":"1","e":"x"}"#])
            let new = TableDefinition(
                "T",
                columns: [
                    ColumnDefinition("b", .boolean),
                    ColumnDefinition("e", .enumeration(["x", "z"])),
                ],
                indexes: [["b"]]
            )
            let server = try await TestServer([new], path: path)
            let row = await server.send("PATCH", "/tables/T/1", #"{"b":true,"e":"z"}"#)
            #expect(row.row["b"] as? Bool == true)
            #expect(row.row["a"] == nil)
            await server.store.stop()
            let file = try Database(path: path)
            #expect(try file.integer("SELECT count(*) FROM pragma_table_info('T')") == 7)
        }
    }

    @Test("Rows that a migration changes get new versions in their original order")
    func changedRowsGetNewVersions() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(ColumnDefinition("a", .integer), ColumnDefinition("b", .string))
            try await Self.make(
                path,
                old,
                ["null", "1", "2", "3"].enumerated().map { #"{"id":"\#($0)","a":\#($1)}"# }
            )
            let before = try await Self.timestamps(path, old)
            let new = Self.table(ColumnDefinition("a", .string))
            try Self.database(path, new).migrate()
            let after = try await Self.timestamps(path, new)
            #expect(before["0"] == after["0"])
            let moved = ["1", "2", "3"].map { after[$0] ?? 0 }
            #expect(moved == moved.sorted() && Set(moved).count == 3)
            #expect(moved.allSatisfy { $0 > (before["3"] ?? 0) })
            let file = try Database(path: path)
            #expect(try file.integer("SELECT stamp FROM tideline_tables") == moved.last)
            #expect(try file.integer("SELECT count(*) FROM T WHERE updatedAt <> version") == 0)
        }
    }

    private static func timestamps(
        _ path: String,
        _ table: TableDefinition
    ) async throws -> [String:
        Int64]
    {
        let file = try Database(path: path)
        let statement = try file.prepare("SELECT id, updatedAt FROM T")
        defer { statement.reset() }
        var timestamps: [String: Int64] = [:]
        while try statement.step() { timestamps[statement.text(0)] = statement.integer(1) }
        return timestamps
    }

    @Test(
        "Rows get new versions only if devices do not know the default of a new column",
        arguments: [
            (ColumnDefinition("n", .string), false),
            (ColumnDefinition("n", .boolean, nullable: false), false),
            (ColumnDefinition("n", .integer, nullable: false, default: 0), false),
            (ColumnDefinition("n", .string, default: "new"), true),
            (ColumnDefinition("n", .boolean, nullable: false, default: true), true),
        ]
    )
    func aDefaultThatDevicesDoNotKnow(_ column: ColumnDefinition, _ isPulled: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(ColumnDefinition("a", .integer))
            try await Self.make(path, old, [#"{"id":"1"}"#, #"{"id":"2"}"#])
            let before = try await Self.timestamps(path, old)
            let server = try await TestServer(
                [Self.table(old.schema.columns[0], column)],
                path: path
            )
            await server.store.stop()
            let after = try await Self.timestamps(path, old)
            #expect((before != after) == isPulled)
        }
    }

    @Test("A migration fills nulls with the default of a column that is not nullable")
    func nullsAreFilled() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(ColumnDefinition("a", .integer))
            try await Self.make(path, old, [#"{"id":"1"}"#, #"{"id":"2","a":5}"#])
            let new = Self.table(ColumnDefinition("a", .integer, nullable: false, default: 7))
            let plan = try Self.database(path, new).migrate()
            #expect(plan.steps.first?.contains("1 row with null gets the default") == true)
            let server = try await TestServer([new], path: path)
            #expect(await server.send("GET", "/tables/T/1").row["a"] as? Int == 7)
            #expect(await server.send("GET", "/tables/T/2").row["a"] as? Int == 5)
            await server.store.stop()
        }
    }

    @Test("A migration does not remove a column that an operator's index uses")
    func anIndexOfAnOperatorKeepsAColumn() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(ColumnDefinition("a", .integer), ColumnDefinition("b", .integer))
            try await Self.make(path, old, [#"{"a":5}"#])
            try Database(path: path).execute("CREATE INDEX mine ON T (a)")
            let database = try Self.database(path, Self.table(ColumnDefinition("b", .integer)))
            let error = #expect(throws: DatabaseError.self) { try database.migrate() }
            #expect(error?.message.contains("Drop that object first") == true)
            let server = try await TestServer([old], path: path)
            #expect(await server.send("GET", "/tables/T").rows.first?["a"] as? Int == 5)
            await server.store.stop()
        }
    }

    @Test("A migration does not remove a table that is not declared")
    func undeclaredTablesAreKept() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = Self.table(ColumnDefinition("a", .integer))
            try await Self.make(path, old, ["{}"])
            let database = try Self.database(path, TableDefinition("U"))
            let plan = try database.migrationPlan()
            #expect(
                plan.steps == [
                    "Table 'U' is created.",
                    "Table 'T' is not declared. It stays in the database and is not served.",
                ]
            )
            #expect(!plan.isEmpty && !plan.changesValues)
            try database.migrate()
            #expect(try database.migrationPlan().isEmpty)
            #expect(try Database(path: path).integer("SELECT count(*) FROM T") == 1)
        }
    }

    @Test("Names of tables and columns that differ only in case are rejected")
    func namesDeclaredTwice() async throws {
        let column = ColumnDefinition("a", .integer)
        await #expect(throws: SchemaError.self) {
            try await TestServer([Self.table(column), TableDefinition("t")])
        }
        await #expect(throws: SchemaError.self) {
            try await TestServer([Self.table(column, ColumnDefinition("A", .string))])
        }
    }
}
