// Goal: the database accepts every filter that the parser accepts, and an error for depth has the
// position and the limit.
// Method: each construct nested to the limit and one level deeper, and random combinations of them.

import Foundation
import Testing
import TidelineCore

@Suite struct DepthTests {
    private static func nested(
        _ open: String,
        _ core: String,
        _ close: String
    ) -> @Sendable (Int) -> String {
        { String(repeating: open, count: $0) + core + String(repeating: close, count: $0) }
    }

    /// Constructs: name, levels of the tree for each nesting, and the text for a number of nestings.
    static let constructs: [(name: String, levels: Int, text: @Sendable (Int) -> String)] = [
        ("function", 1, { nested("tolower(", "s1", ")")($0) + " eq 'x'" }),
        ("first argument", 1, { nested("concat(", "s1", ",'a')")($0) + " eq 'x'" }),
        ("second argument", 1, { nested("concat('a',", "s1", ")")($0) + " eq 'x'" }),
        (
            "search", 3,
            { nested("tolower(substring('a',indexof('a',", "s1", ")))")($0) + " eq 'a'" }
        ),
        ("right arithmetic", 1, { nested("1 add (", "i1", ")")($0) + " eq 1" }),
        ("left arithmetic", 1, { nested("(", "i1", " mul 1)")($0) + " eq 1" }),
        ("sum", 1, { "i1" + String(repeating: " add 1", count: $0) + " eq 1" }),
        ("minus", 2, { nested("-(", "i1", ")")($0) + " eq 1" }),
        ("not", 2, nested("not (", "b1", ")")), ("bare not", 1, nested("not ", "b1", "")),
        ("brackets", 1, nested("(", "b1", ")")),
        ("and or", 2, nested("(b1 and (b2 or ", "b1", "))")),
        ("or and", 2, nested("((", "b1", " and b2) or b1)")),
        ("chains of 40", 1, nested("(" + String(repeating: "b1 or ", count: 20), "b2", ")")),
        ("equality", 1, nested("(", "b1", ") eq b2")),
        ("right equality", 1, nested("b1 ne (", "b2", ")")),
        ("comparison", 3, nested("(length(cast(", "b1", ",Edm.String)) lt 5)")),
        ("list", 1, nested("(", "b1", ") in (true,b2,null)")),
        ("plain list", 1, nested("(", "b1", ") in (true,false)")),
        ("list element", 1, nested("b1 in (b2,", "b1", ")")),
        ("cast", 2, { nested("cast(cast(", "i1", ",Edm.String),Edm.Int32)")($0) + " eq 1" }),
        (
            "instant", 2,
            {
                nested("cast(cast(", "t1", ",Edm.Date),Edm.DateTimeOffset)")($0) + " eq t1"
            }
        ),
        ("isof", 3, nested("isof(length(cast(", "b1", ",Edm.String)),Edm.Byte)")),
        ("decimal", 1, { nested("floor(", "d1", ")")($0) + " lt 2" }),
        ("decimal sum", 1, { nested("(1 add ", "d1", ")")($0) + " ne i1" }),
        ("prefix", 2, nested("startswith(cast(", "b1", ",Edm.String),'t')")),
    ]

    static let rows: [Row] = [
        ["id": "1", "s1": "x", "i1": 1, "b1": true, "b2": false, "d1": decimal("1.5")],
        ["id": "2"],
        [
            "id": "3", "s1": "", "i1": -1, "b1": false, "b2": true,
            "t1": .date(Date(timeIntervalSince1970: 1_614_902_400)),
        ],
    ]

    /// Returns the maximum number of nestings that the parser accepts.
    private static func most(_ text: (Int) -> String) -> Int {
        var count = 0
        while (try? ODataParser.filter(text(count + 1), dialect: .v4)) != nil { count += 1 }
        return count
    }

    @Test(
        "Each construct works up to the depth limit and is rejected above it",
        arguments: constructs.indices
    )
    func worksToTheLimit(_ index: Int) throws {
        let construct = Self.constructs[index]
        let limit = ODataLimits().depthMax
        let most = Self.most(construct.text)
        let least = (limit - 4) / construct.levels - 1
        #expect((least...limit).contains(most), "\(construct.name): \(most)")
        let schema = FilterGenerator.schema
        for unit in FilterRenderer.DateUnit.allCases {
            let table = try TestTable(schema, Self.rows, unit: unit)
            for count in [1, most / 4, most / 2, most] {
                let parsed = try ODataParser.filter(construct.text(count), dialect: .v4)
                let comment = "\(construct.name) \(count)"
                try Self.expectAgreement(parsed, table, comment)
                try Self.expectAgreement(Self.filled(parsed), table, comment + " with defaults")
            }
        }
        let text = construct.text(most + 1)
        let error = #expect(throws: ODataError.self) {
            try ODataParser.filter(text, dialect: .v4)
        }
        #expect((0..<text.utf8.count).contains(error?.position ?? -1))
        #expect(error?.message.contains("\(limit) levels") == true)
        #expect(error?.reason == .tooLarge)
    }

    /// Returns the filter with a default for null for each column, like the filters of a device.
    private static func filled(_ filter: QueryExpression) -> QueryExpression {
        var row = rows[0]
        row["t1"] = .date(Date(timeIntervalSince1970: 0))
        return filter.replacing { kind in
            guard case .field(let name) = kind, let value = row[name] else { return nil }
            return .orElse(QueryExpression(kind), value)
        }
    }

    private static func expectAgreement(
        _ filter: QueryExpression,
        _ table: TestTable,
        _ comment: String
    ) throws {
        let checked = try FilterChecker(schema: table.schema).filter(filter)
        let expected = Self.rows.filter(Filter(checked).matches).map(\.id)
        let loose = try table.ids(table.renderer.condition(checked))
        #expect(loose == expected, "\(comment)")
        let strict = try table.ids(table.renderer.strictCondition(checked))
        #expect(strict == expected, "\(comment)")
        // Like a server: next to other conditions, and within another statement.
        let condition = table.renderer.condition(checked)
        let counted = try table.query(
            """
            SELECT count(*) FROM (SELECT 1 FROM t WHERE "b1" = 1 AND ("i1" > 0) AND \
            (("i1") > (0)) AND (\(condition)) AND "i1" < 5 LIMIT 3)
            """
        )
        #expect(counted == [expected.contains("1") ? "1" : "0"], "\(comment)")
    }

    @Test("Each construct can be an order up to the depth limit", arguments: constructs.indices)
    func ordersToTheLimit(_ index: Int) throws {
        let construct = Self.constructs[index]
        let text = construct.text(Self.most(construct.text))
        let checker = FilterChecker(schema: FilterGenerator.schema)
        let keys = try checker.order(
            ODataParser.orderBy("\(text) desc,s1", dialect: .v4)
        )
        let table = try TestTable(FilterGenerator.schema, Self.rows, unit: .microseconds)
        let order = table.renderer.orderBy(keys)
        let sorted = RowOrder(keys).sorted(Self.rows)
        let found = try table.ids("1", orderBy: order)
        #expect(found == sorted.map(\.id), "\(construct.name)")
        let keyset = KeysetRenderer(table.renderer, order: keys)
        let rest = try table.ids(
            keyset.condition(after: keyset.values(of: sorted[0])),
            orderBy: order
        )
        #expect(rest == sorted.dropFirst().map(\.id), "\(construct.name)")
    }

    @Test("The size of the SQL does not double at each level of nested lists")
    func listsInListsTakeNoTime() throws {
        let text = Self.nested("(", "b1 eq b2", ") in (true,b2)")(70)
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let table = try TestTable(FilterGenerator.schema, Self.rows, unit: .microseconds)
        let sql = table.renderer.condition(try FilterChecker(schema: table.schema).filter(parsed))
        #expect(sql.text(for: .sqlite).utf8.count < 1000)
    }

    @Test("The shallow parts of a filter with a deep part still use an index")
    func otherPartsKeepTheirIndex() throws {
        let deep = Self.nested("tolower(", "s2", ")")(60) + " eq null"
        let parsed = try ODataParser.filter("s1 eq 'x' and \(deep)", dialect: .v4)
        let table = try TestTable(
            FilterGenerator.schema,
            Self.rows,
            unit: .microseconds,
            indexes: ["CREATE INDEX s ON t (\"s1\")"]
        )
        let condition = table.renderer.condition(parsed)
        #expect(try table.plan(condition).contains("USING INDEX s"))
        #expect(try table.ids(condition) == ["1"])
    }

    /// More columns than a function in SQLite can have arguments.
    @Test("A deep filter on 300 columns works in SQLite and in memory") func wideAndDeep() throws {
        let columns = (0..<300).map { ColumnDefinition("c\($0)", .integer) }
        let schema = TableSchema(name: "t", columns: columns)
        let row: Row = ["id": "1", "c299": 1]
        let table = try TestTable(schema, [row], unit: .milliseconds)
        let sum = columns.map { "\($0.name) eq 1" }.joined(separator: " or ")
        let text = Self.nested("not (not (", sum, "))")(19)
        let parsed = try ODataParser.filter(text, dialect: .v4)
        #expect(try table.ids(table.renderer.condition(parsed)) == ["1"])
        #expect(Filter(parsed).matches(row))
    }

    @Test(
        "Random deep filters find the same rows in memory and in SQLite",
        arguments: UInt64(0)..<6
    )
    func spinesAgree(seed: UInt64) throws {
        var spine = SpineGenerator(seed: seed)
        for unit in FilterRenderer.DateUnit.allCases {
            let table = try TestTable(FilterGenerator.schema, Self.rows, unit: unit)
            for _ in 0..<60 {
                let filter = spine.filter()
                let text = try ODataWriter(.v4).filter(filter)
                guard let parsed = try? ODataParser.filter(text, dialect: .v4) else { continue }
                #expect(parsed == filter, "\(text)")
                try Self.expectAgreement(parsed, table, text)
            }
        }
    }
}
