// ODataCheck: query options.
//
// A parsed expression must survive being written and parsed again, and must have the same results in memory and in
// SQL, before and after that.

import Foundation
import TidelineCore
import TidelineSQLite

final class ODataCheck {
    private static let schema = TableSchema(
        name: "t",
        columns: [
            ColumnDefinition("s", .string), ColumnDefinition("u", .string, nullable: false),
            ColumnDefinition("i", .integer), ColumnDefinition("n", .number),
            ColumnDefinition("d", .decimal), ColumnDefinition("b", .boolean),
            ColumnDefinition("t", .dateTime), ColumnDefinition("day", .date),
            ColumnDefinition("clock", .time), ColumnDefinition("guid", .guid),
            ColumnDefinition("bytes", .binary), ColumnDefinition("j", .json),
            ColumnDefinition("e", .enumeration(["low", "middle", "high"])),
        ]
    )

    /// The rows as a server stores them, with microseconds.
    private static let stored: [Row] = [
        ["id": "1", "u": ""],
        [
            "id": "2", "s": "caf\u{E9} \u{1F600}", "u": "a'b%_", "i": 7, "n": 2.5,
            "d": .decimal(Decimal(string: "0.1") ?? 0), "b": true,
            "t": .date(Timestamp(microseconds: 1_614_928_089_120_001).date),
            "day": "2020-02-29", "clock": "07:08:09.120",
            "guid": "0e98b4ff-0000-4000-8000-00000000000f", "bytes": .data(Data([0, 255])),
            "j": .json(JSON(checked: #"{"a":1}"#)), "e": "middle", "version": "AAZlGEfjo+g=",
            "updatedAt": .date(Timestamp(microseconds: 1_800_000_000_500_000).date),
            "deleted": false,
        ],
        [
            "id": "3", "s": "A", "u": "a", "i": .integer(.min), "n": -1e300,
            "d": .decimal(Decimal(string: "-12345678901234567890123456789012345678") ?? 0),
            "b": false, "t": .date(Timestamp(microseconds: -1_000).date), "day": "1969-12-31",
            "clock": "23:59:59.999", "guid": "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "bytes": .data(Data()), "j": .json(JSON(checked: "[]")), "e": "unknown",
        ],
        [
            "id": "4", "u": "4",
            "d": .decimal(Decimal(sign: .plus, exponent: -128, significand: 1)),
            "j": .json(JSON(checked: #"["a",null,1.0,{"a":"x"},["b"]]"#)),
        ],
        [
            "id": "5", "u": "5",
            "d": .decimal(Decimal(sign: .minus, exponent: 127, significand: 9)),
            "j": .json(
                JSON(checked: #"{ "a" : "\u00e9" , "b" : { "a" : [ 1 , "A" ] } , "a" : 2.5 }"#)
            ),
        ],
    ]

    /// The rows as they are sent: times are truncated to milliseconds, except `updatedAt`, which is compared as stored.
    private static let rows: [Row] = stored.map { row in
        guard case .date(let date)? = row["t"] else { return row }
        var row = row
        row["t"] = .date(Timestamp(date).cutToMilliseconds.date)
        return row
    }

    private let renderer = FilterRenderer(schema: schema, dateUnit: .microseconds)
    private let checker = FilterChecker(schema: schema, now: Date(timeIntervalSince1970: 0))
    private let database: Database

    init() throws {
        database = try Database(path: ":memory:")
        let columns = SystemColumn.definitions + Self.schema.columns
        let definitions = columns.map { "\"\($0.name)\" \(Self.storage($0.type))" }
        try database.execute("CREATE TABLE t (\(definitions.joined(separator: ", ")))")
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        for row in Self.stored {
            try database.prepare("INSERT INTO t VALUES (\(places))")
                .run(columns.map { renderer.stored(row[$0.name] ?? .null) })
        }
    }

    private static func storage(_ type: ColumnType) -> String {
        switch type {
        case .integer, .boolean, .dateTime: "INTEGER"
        case .number: "REAL"
        case .binary: "BLOB"
        default: "TEXT"
        }
    }

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let text = String(decoding: input.dropFirst(), as: UTF8.self)
        let dialect: ODataDialect = input[0] & 1 == 0 ? .v3 : .v4
        do {
            switch input[0] & 6 {
            case 2: try order(text, dialect)
            case 4: _ = try checker.select(ODataParser.select(text, dialect: dialect) ?? [])
            default: try filter(text, dialect)
            }
        } catch let error as ODataError {
            let end = text.utf8.count
            try demand((0...end).contains(error.position), "\(error.position) is in the text")
            try demand(!error.message.isEmpty, "an error says what is wrong")
        }
    }

    private func filter(_ text: String, _ dialect: ODataDialect) throws {
        let parsed = try ODataParser.filter(text, dialect: dialect)
        if let written = try? ODataWriter(dialect).filter(parsed), !Self.hasList(parsed) {
            let again = try reread(written, dialect)
            try demand(again == nil || again == parsed, "'\(text)' and '\(written)' are one filter")
        }
        let checked = try checker.filter(parsed)
        let expected = ids { Filter(checked).matches($0) }
        try compare(renderer.condition(checked), expected, text)
        try compare(renderer.strictCondition(checked), expected, text)
        for dialect in ODataDialect.allCases {
            let writer = ODataWriter(dialect, schema: Self.schema)
            guard let written = try? writer.filter(checked) else { continue }
            guard let again = try reread(written, dialect).map(checker.filter) else { continue }
            let found = ids { Filter(again).matches($0) }
            try demand(found == expected, "'\(text)' and '\(written)' find the same")
        }
    }

    /// Parses a filter that was written by the writer; nil if its parentheses are nested too deeply.
    private func reread(_ text: String, _ dialect: ODataDialect) throws -> QueryExpression? {
        do {
            return try ODataParser.filter(text, dialect: dialect)
        } catch {
            try demand(error.reason == .tooLarge, "'\(text)' is read: \(error.message)")
            return nil
        }
    }

    private func order(_ text: String, _ dialect: ODataDialect) throws {
        let keys = try checker.order(ODataParser.orderBy(text, dialect: dialect))
        let sorted = RowOrder(keys).sorted(Self.rows).map(\.id)
        let order = renderer.orderBy(keys)
        let found = try select("SELECT \"id\" FROM t ORDER BY \(order)")
        try demand(found == sorted, "'\(text)' sorts to \(sorted), not \(found)")
    }

    private func compare(_ condition: SQL, _ expected: [String], _ text: String) throws {
        let found = try select("SELECT \"id\" FROM t WHERE \(condition) ORDER BY \"id\"")
        try demand(found == expected, "'\(text)' finds \(expected), not \(found)")
    }

    private func select(_ sql: SQL) throws -> [String] {
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var result: [String] = []
        while try statement.step() { result.append(statement.text(0)) }
        return result
    }

    private func ids(_ matches: (Row) -> Bool) -> [String] {
        Self.rows.filter(matches).map(\.id)
    }

    /// Returns whether an expression contains a list.
    ///
    /// An empty list is written as false, and in version 3 every list as a chain of comparisons.
    private static func hasList(_ expression: QueryExpression) -> Bool {
        String(describing: expression).contains("isIn")
    }
}
