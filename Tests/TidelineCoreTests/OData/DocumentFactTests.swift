// DocumentFactTests: conditions on members and elements of JSON documents, in memory, in SQLite, and as text.

import Foundation
import Testing
import TidelineCore
import TidelineTestKit

@Suite struct DocumentFactTests {
    static let schema = TableSchema(
        name: "t",
        columns: [
            ColumnDefinition("title", .string), ColumnDefinition("price", .decimal),
            ColumnDefinition("due", .dateTime), ColumnDefinition("key", .guid),
            ColumnDefinition("doc", .json), ColumnDefinition("tags", .json),
            ColumnDefinition("visits", .json),
        ]
    )

    private static func json(_ text: String) -> Value { .json(JSON(checked: text)) }

    static let rows: [Row] = [
        [
            "id": "1", "title": "Kiel", "price": decimal("0.1"),
            "due": .date(Timestamp(microseconds: 1_614_928_089_120_000).date),
            "key": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "doc": json(
                #"{"city":"Kiel","n":1,"open":true,"price":0.1,"at":"2021-03-05T07:08:09.120Z","#
                    + #""key":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8","geo":{"lat":54.5,"a":null},"#
                    + #""post-code":"24103","any":"a","null":"n"}"#
            ),
            "tags": json(#"["urgent","indoor"]"#),
            "visits": json(
                #"[{"city":"Kiel","done":true,"notes":["a","b"]},{"city":"Bonn","done":false}]"#
            ),
        ],
        [
            "id": "2", "title": "kiel", "price": decimal("1"),
            "doc": json(
                #"{ "city" : "kiel" , "n" : 1.0, "open":"true", "price":"0.1", "geo":[54.5],"#
                    + #" "at":"2021-03-05T08:08:09.12+01:00" }"#
            ),
            "tags": json(#"["Urgent",null,1,1.5,true,"2021-03-05T07:08:09.120Z"]"#),
            "visits": json(#"[{"city":"Bonn","done":true},{"city":"Kiel","done":false},5]"#),
        ],
        ["id": "3"],
        [
            "id": "4",
            "doc": json(#"{"c\u0069ty":"Ki\u0065l","n":1e0,"open":false,"price":1e-1,"geo":{}}"#),
            "tags": json("[]"), "visits": json("{}"),
        ],
        [
            "id": "5",
            "doc": json(#"{"city":"Bonn","n":9007199254740993,"city":"Kiel","open":null}"#),
            "tags": json("[[\"urgent\"],{\"urgent\":1}]"), "visits": json(#"[{"notes":["b"]}]"#),
        ],
        [
            "id": "6",
            "doc": json(#"{"city":null,"n":"1","geo":null,"price":12345678901234567890}"#),
            "tags": json("null"), "visits": json("\"Kiel\""),
        ],
        [
            "id": "7", "doc": json(#"{"city":"Kiel""#), "tags": json("[\"urgent"),
            "visits": json(""),
        ],
        [
            "id": "8", "doc": json("[{\"city\":\"Kiel\"}]"), "tags": json("\"urgent\""),
            "visits": json(String(repeating: "[", count: 70) + String(repeating: "]", count: 70)),
        ],
        [
            "id": "9",
            "doc": json(#"{"city":"Cafe\u0301","n":1e400,"open":1,"\u0000":1,"price":-0.0}"#),
            "tags": json(#"["Caf\u00e9","\ud83d\ude00","a\u0000b"]"#),
            "visits": json(#"[[["a"]]]"#),
        ],
    ]

    static let facts: [(String, String)] = [
        // A member that does not exist, null, and a value of another type.
        ("doc/city eq 'Kiel'", "1 4 5"), ("doc/city ne 'Kiel'", "2 3 6 7 8 9"),
        ("doc/city eq null", "3 6 7 8"), ("doc/city ne null", "1 2 4 5 9"),
        ("doc/city in ('Kiel','kiel')", "1 2 4 5"), ("not (doc/city in ('Kiel',null))", "2 9"),
        ("doc/City eq 'Kiel'", ""), ("DOC/city eq 'Kiel'", "1 4 5"),
        ("doc/city lt 'L'", "1 4 5 9"), ("tolower(doc/city) eq 'kiel'", "1 2 4 5"),
        ("contains(doc/city,'ie')", "1 2 4 5"), ("length(doc/city) eq 5", "9"),
        ("doc/city eq title", "1 2 3 6 7 8"), ("doc/city eq 'Caf\u{E9}'", ""),
        ("doc/city eq 'Cafe\u{301}'", "9"), ("doc/geo/lat eq 54.5", "1"),
        ("doc/geo/lat ne null", "1"), ("doc/geo/a eq null", "1 2 3 4 5 6 7 8 9"),
        ("doc/geo ne null", "1 2 4"), ("doc/geo eq doc/geo", "3 5 6 7 8 9"),
        ("doc/geo in (doc/geo,null)", "3 5 6 7 8 9"), ("doc/geo lt 'x'", ""),
        ("doc/post-code eq '24103'", "1"), ("doc/any eq 'a' and doc/null eq 'n'", "1"),
        ("title eq 'x' or doc/city eq 'Kiel'", "1 4 5"),
        // Numbers
        ("doc/n eq 1", "1 2 4"), ("doc/n eq 1.0", "1 2 4"), ("doc/n eq 1M", "1 2 4"),
        ("doc/n eq '1'", "6"), ("doc/n gt 1", "5"), ("doc/n eq 9007199254740993", "5"),
        ("doc/n eq 9007199254740992", ""), ("doc/n ge 0.5 and doc/n lt 2", "1 2 4"),
        ("doc/n eq null", "3 7 8 9"), ("doc/n div 2 eq 0", "1 2 4"), ("-doc/n eq -1", "1 2 4"),
        ("doc/price eq 0.1", "1 4"), ("doc/price eq 0.1M", "1 4"),
        ("doc/price eq price", "1 3 5 7 8"),
        ("doc/price gt 12345678901234567889M", "6"), ("doc/price eq 0", "9"),
        ("doc/price add 0.2M eq 0.3M", "1 4"), ("round(doc/price) eq 0", "1 4 9"),
        ("cast(doc/n,Edm.String) eq '1'", "1 2 4 6"), ("cast(doc/n,Edm.Int32) gt 0", "1 2 4 6"),
        // Booleans
        ("doc/open", "1"), ("not doc/open", "2 3 4 5 6 7 8 9"), ("doc/open eq true", "1"),
        ("doc/open eq false", "4"), ("doc/open ne true", "2 3 4 5 6 7 8 9"),
        ("doc/open eq 'true'", "2"), ("doc/open eq 1", "9"), ("doc/open and title eq 'Kiel'", "1"),
        // Instants, UUIDs
        ("doc/at eq 2021-03-05T07:08:09.120Z", "1 2"),
        ("doc/at lt 2021-03-05T07:08:09.121Z", "1 2"),
        ("doc/at eq due", "1 3 4 5 6 7 8 9"), ("year(doc/at) eq 2021", "1 2"),
        ("cast(doc/at,Edm.DateTimeOffset) eq cast(doc/at,Edm.DateTimeOffset)", "1 2 3 4 5 6 7 8 9"),
        ("cast(doc/key,Edm.Guid) eq 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "1"),
        ("cast(doc/key,Edm.Guid) eq key", "1 2 3 4 5 6 7 8 9"),
        ("doc/key eq 6ba7b810-9dad-11d1-80b4-00c04fd430c8", ""),
        // Elements
        ("tags/any(t:t eq 'urgent')", "1"), ("tags/any(t: tolower(t) eq 'urgent')", "1 2"),
        ("not tags/any(t:t eq 'urgent')", "2 3 4 5 6 7 8 9"), ("tags/any()", "1 2 5 9"),
        ("not tags/any()", "3 4 6 7 8"), ("tags/any(t:t eq null)", "2"),
        ("tags/any(t:t eq 1)", "2"), ("tags/any(t:t gt 1)", "2"), ("tags/any(t:t)", "2"),
        ("tags/any(t:t eq 2021-03-05T07:08:09.120Z)", "2"),
        ("tags/any(t:t in ('indoor','Urgent'))", "1 2"), ("tags/any(t:t ne 'urgent')", "1 2 5 9"),
        ("tags/all(t:t eq 'urgent')", "3 4 6 7 8"), ("tags/all(t:length(t) gt 2)", "1 3 4 6 7 8"),
        ("tags/any(t:t eq 'Caf\u{E9}') and tags/any(t:t eq '\u{1F600}')", "9"),
        ("tags/any(t:t eq 'a')", ""), ("tags/any(t:t eq doc/city or t eq 'urgent')", "1"),
        ("tags/any(t:t/urgent eq 1)", "5"), ("tags/any(t:t/any(u:u eq 'urgent'))", "5"),
        ("tags/$count eq 2", "1 5"), ("tags/$count eq 0", "3 4 6 7 8"),
        ("tags/$count gt visits/$count", "2 5 9"),
        ("visits/any(v:v/city eq 'Kiel')", "1 2"),
        ("visits/any(v:v/city eq 'Kiel' and v/done)", "1"),
        ("visits/any(v:v/notes/any(n:n eq 'b'))", "1 5"),
        ("visits/any(v:v/notes/any(n:n eq 'a' and v/done))", "1"),
        ("visits/any(v:v/notes/$count eq 2)", "1"), ("visits/all(v:v/done)", "3 4 6 7 8"),
        ("visits/any(title:title/city eq 'Bonn')", "1 2"),
        ("visits/any(v:v/city eq 'Bonn') and tags/any(v:v eq 'indoor')", "1"),
        ("doc/any(d:d/city eq 'Kiel')", "8"), ("doc/geo/any(g:g eq 54.5)", "2"),
    ]

    @Test(
        "A condition on a document has the same result in memory, in SQLite and as text",
        arguments: facts
    )
    func holds(_ text: String, _ ids: String) throws {
        let expected = ids.split(separator: " ").map(String.init)
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let checked = try FilterChecker(schema: Self.schema).filter(parsed)
        let complement = try FilterChecker(schema: Self.schema).filter(
            QueryExpression(.not(parsed))
        )
        let others = Self.rows.map(\.id).filter { !expected.contains($0) }
        #expect(Self.rows.filter(Filter(checked).matches).map(\.id) == expected)
        #expect(Self.rows.filter(Filter(complement).matches).map(\.id) == others)
        for unit in FilterRenderer.DateUnit.allCases {
            let table = try TestTable(Self.schema, Self.rows, unit: unit)
            #expect(try table.ids(table.renderer.condition(checked)) == expected)
            #expect(try table.ids(table.renderer.strictCondition(checked)) == expected)
            #expect(try table.ids(table.renderer.condition(complement)) == others)
        }
        for writer in [ODataWriter(.v4), ODataWriter(.v4, schema: Self.schema)] {
            let written = try writer.filter(parsed)
            #expect(try ODataParser.filter(written, dialect: .v4) == parsed, "\(written)")
        }
        #expect(throws: ODataError.self) { try ODataWriter(.v3).filter(parsed) }
    }

    #if !ONLY_CLIENT
    @Test(
        "PostgreSQL and the evaluator together find the same rows",
        .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
    )
    func postgresAgrees() throws {
        // PostgreSQL checks the syntax of a document.
        let rows = Self.rows.filter { $0.id != "7" }
        let table = try PostgresTestTable(Self.schema, rows)
        for (text, ids) in Self.facts {
            let expected = ids.split(separator: " ").map(String.init).filter { $0 != "7" }
            let parsed = try ODataParser.filter(text, dialect: .v4)
            let checked = try FilterChecker(schema: Self.schema).filter(parsed)
            #expect(try table.ids(checked) == expected, "\(text)")
            #expect(try table.ids(checked, strict: true) == expected, "\(text)")
        }
    }
    #endif

    @Test(
        "A path or a condition on elements that cannot be read is rejected with its position",
        arguments: [
            ("doc/", "a name is expected", 4), ("doc/city/ eq 1", "operator or the end", 13),
            ("doc/1 eq 1", "a name is expected", 4), ("doc/all eq", "operand", 10),
            ("tags/some(t:t eq 1)", "'any' or 'all'", 5), ("tags/all()", "variable", 9),
            ("tags/any(t eq 1)", "':' is expected", 11), ("tags/any(t:)", "operand", 11),
            ("tags/any(t:t eq 1", "')' is expected", 17), ("tags/any(1:t eq 1)", "variable", 9),
            ("tags/any(t:visits/any(v:v eq t))", "must begin with the variable", 18),
            ("visits/any(v:v/notes/any(v:v eq 1))", "in use", 25),
            ("title/city eq 'a'", "this is a string", 0), ("title/any()", "this is a string", 0),
            ("tags/$count/x eq 1", "operator or the end", 11),
            ("doc eq 'a'", "JSON document is expected", 7),
            ("tags/any(t:1)", "a condition is expected", 11), ("doc/city/$count", "condition", 9),
            ("doc/n add 1", "condition", 0), ("$it/doc eq 1", "unexpected character", 0),
        ]
    )
    func rejected(text: String, message: String, position: Int) throws {
        let error = #expect(throws: ODataError.self) {
            try FilterChecker(schema: Self.schema).filter(
                try ODataParser.filter(text, dialect: .v4)
            )
        }
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        #expect(error?.position == position)
    }

    @Test("An order by a JSON member requires its type")
    func orders() throws {
        let checker = FilterChecker(schema: Self.schema)
        let untyped = try ODataParser.orderBy("doc/city", dialect: .v4)
        let error = #expect(throws: ODataError.self) { try checker.order(untyped) }
        #expect(error?.message.contains("cast(address/city,Edm.String)") == true)
        let orders = [
            "cast(doc/city,Edm.String)", "cast(doc/n,Edm.Decimal) desc",
            "cast(doc/at,Edm.DateTimeOffset)",
            "tags/$count desc,cast(doc/geo/lat,Edm.Double)", "tags/any(t:t eq 'Urgent') desc",
            "cast(doc/key,Edm.Guid)", "cast(doc/open,Edm.Boolean) desc",
        ]
        for text in orders {
            let keys = try checker.order(try ODataParser.orderBy(text, dialect: .v4))
            let sorted = RowOrder(keys).sorted(Self.rows).map(\.id)
            #expect(sorted != Self.rows.map(\.id), "\(text) proves little")
            for unit in FilterRenderer.DateUnit.allCases {
                let table = try TestTable(Self.schema, Self.rows, unit: unit)
                #expect(
                    try table.ids("1", orderBy: table.renderer.orderBy(keys)) == sorted,
                    "\(text)"
                )
                let keyset = KeysetRenderer(table.renderer, order: keys)
                for (place, id) in sorted.enumerated() {
                    let row = try #require(Self.rows.first { $0.id == id })
                    let condition = keyset.condition(after: keyset.values(of: row))
                    let rest = try table.ids(condition, orderBy: table.renderer.orderBy(keys))
                    #expect(rest == Array(sorted[(place + 1)...]), "\(text) after \(id)")
                }
            }
        }
    }

    @Test("A member whose name a query cannot express is not sent")
    func names() throws {
        for name in ["", "a b", "1", "a.b", "$count", "a'b", "a/b", "a:b", "\u{301}"] {
            let member = QueryExpression.member(name, of: QueryExpression(.field("doc")))
            let filter = QueryExpression(.compare(.eq, member, QueryExpression(.value(1))))
            let text = try? ODataWriter(.v4).filter(filter)
            let read = try text.map { try ODataParser.filter($0, dialect: .v4) }
            // A combining character is a name by itself.
            #expect(read == (name == "\u{301}" ? filter : nil), "\(name)")
            let row: Row = ["id": "1", "doc": .json(try JSON(encoding: [name: 1]))]
            let table = try TestTable(Self.schema, [row], unit: .milliseconds)
            #expect(try table.ids(table.renderer.condition(filter)) == ["1"], "\(name)")
        }
        #expect(throws: ODataError.self) {
            let member = QueryExpression.member("a b", of: QueryExpression(.field("doc")))
            return try ODataWriter(.v4).filter(QueryExpression(.compare(.eq, member, member)))
        }
    }

    @Test("A variable in a filter has a name that no column of the filter has")
    func variables() throws {
        let x = QueryExpression(.field("x"))
        let isX = QueryExpression(.compare(.eq, QueryExpression(.element(0)), x))
        let filter = QueryExpression(.anyElement(QueryExpression(.field("xx")), 0, isX))
        let text = try ODataWriter(.v4).filter(filter)
        #expect(text == "xx/any(xxx:xxx eq x)")
        #expect(try ODataParser.filter(text, dialect: .v4) == filter)
    }

    @Test("An evaluation of many elements ends when its time is over")
    func ends() throws {
        let list = "[" + Array(repeating: "1", count: 100_000).joined(separator: ",") + "]"
        let parsed = try ODataParser.filter("tags/any(t:t in (2,3,4))", dialect: .v4)
        var bytes = 0
        let watch = EvaluationWatch { read in
            bytes += read
            return bytes > 1 << 20
        }
        let evaluator = FilterEvaluator(watch: watch) { _ in .json(JSON(checked: list)) }
        _ = evaluator.matches(parsed)
        #expect(watch.isOver)
        #expect(bytes < 2 << 20)
    }
}
