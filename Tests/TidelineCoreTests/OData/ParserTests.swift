// ParserTests: the grammar of both dialects as tables of text, tree, and the text written back.

import Foundation
import Testing
import TidelineCore

private typealias Tree = QueryExpression

private func field(_ name: String) -> Tree { Tree(.field(name)) }
private func value(_ value: Value) -> Tree { Tree(.value(value)) }
private func compare(_ left: Tree, _ comparison: Comparison, _ right: Tree) -> Tree {
    Tree(.compare(comparison, left, right))
}
private func equal(_ name: String, _ other: Value) -> Tree {
    compare(field(name), .eq, value(other))
}
private func instant(_ text: String) -> Value {
    Timestamp(text).map { .date($0.date) } ?? .null
}

@Suite struct ParserTests {
    /// Literals and their values, in both dialects.
    static let literals: [(String, Value)] = [
        ("42", 42), ("-42", -42), ("42L", 42), ("42l", 42), ("1.5", 1.5), ("6.02E+25", 6.02e25),
        ("1e3", 1000.0), ("1.5d", 1.5), ("1.5D", 1.5), ("50f", 50.0), ("50F", 50.0),
        ("42.6f", 42.6), ("1.99m", decimal("1.99")), ("50M", .decimal(50)),
        ("-9223372036854775808", .integer(.min)), ("9223372036854775807", .integer(.max)),
        ("9223372036854775808", decimal("9223372036854775808")),
        ("true", true), ("false", false), ("null", nil), ("'O''Hara'", "O'Hara"), ("''", ""),
        ("''''", "'"), ("'back\\slash'", "back\\slash"), ("'żółw'", "żółw"),
        ("datetime'2012-05-21T00:00:29.300Z'", instant("2012-05-21T00:00:29.300Z")),
        ("datetime'2012-05-21T00:00:29'", instant("2012-05-21T00:00:29Z")),
        ("datetime'2012-05-21T00:00'", instant("2012-05-21T00:00:00Z")),
        (
            "datetimeoffset'2012-05-21T00:00:29.3000000+02:00'",
            instant("2012-05-20T22:00:29.300Z")
        ),
        ("2012-05-21T00:00:29.300Z", instant("2012-05-21T00:00:29.300Z")),
        ("2012-05-21T00:00:29.300-03:30", instant("2012-05-21T03:30:29.300Z")),
        ("2012-05-21T00:00Z", instant("2012-05-21T00:00:00Z")),
        ("1994-10-14", "1994-10-14"), ("07:14:00", "07:14:00.000"), ("07:14", "07:14:00.000"),
        ("07:14:00.1234567", "07:14:00.123456"), ("time'07:14:00'", "07:14:00.000"),
        (
            "guid'01234567-89AB-CDEF-0123-456789ABCDEF'", "01234567-89ab-cdef-0123-456789abcdef"
        ),
        ("01234567-89AB-CDEF-0123-456789ABCDEF", "01234567-89ab-cdef-0123-456789abcdef"),
        ("ab234567-89AB-CDEF-0123-456789ABCDEF", "ab234567-89ab-cdef-0123-456789abcdef"),
        ("X'00ffA0'", .data(Data([0, 255, 160]))), ("binary'AP-g'", .data(Data([0, 255, 160]))),
        ("cast(1994-10-14,Edm.Date)", "1994-10-14"),
        ("cast('1994-10-14', 'Edm.Date')", "1994-10-14"),
        ("cast(07:14:00,Edm.TimeOfDay)", "07:14:00.000"),
        (
            "cast(2024-08-23T20:22:54.291Z,Edm.DateTimeOffset)",
            instant("2024-08-23T20:22:54.291Z")
        ),
        (
            "cast('2024-08-23T20:22:54.291Z',Edm.DateTimeOffset)",
            instant("2024-08-23T20:22:54.291Z")
        ),
        (
            "cast(01234567-89ab-cdef-0123-456789abcdef,Edm.Guid)",
            "01234567-89ab-cdef-0123-456789abcdef"
        ),
        ("cast(3,Edm.Double)", 3.0), ("cast(3.5,Edm.Decimal)", .decimal(3.5)),
        ("cast(1.9,Edm.Int32)", 1), ("cast(-1.9m,Edm.Int32)", -1), ("cast('5',Edm.Int32)", 5),
        ("cast(5,Edm.String)", "5"), ("cast(2.0,Edm.String)", "2"),
        ("cast(2021-01-01T07:08:09Z,Edm.Date)", "2021-01-01"),
        ("cast('AP8=',Edm.Binary)", .data(Data([0, 255]))), ("Example.Rating'G'", "G"),
        ("a.b_1.c'it''s'", "it's"), ("cast('true',Edm.Boolean)", true),
        ("cast(3,Edm.Int64)", 3), ("cast(null,Edm.Date)", nil), ("cast('a',Edm.String)", "a"),
    ]

    @Test(
        "A literal is read and written without a change of its value",
        arguments: literals,
        ODataDialect.allCases
    )
    func readsLiteral(_ literal: (text: String, value: Value), _ dialect: ODataDialect) throws {
        let read = try ODataParser.filter("a eq \(literal.text)", dialect: dialect)
        #expect(read == equal("a", literal.value))
        let written = try ODataWriter(dialect).filter(read)
        let again = try ODataParser.filter(written, dialect: dialect)
        #expect(again == read, "\(written)")
    }

    /// Text, and the output of the v4 and v3 writers for it.
    static let spellings: [(String, v4: String, v3: String)] = [
        ("contains(a,'b')", "contains(a,'b')", "substringof('b',a)"),
        ("substringof('b',a)", "contains(a,'b')", "substringof('b',a)"),
        ("startswith( a , 'b' )", "startswith(a,'b')", "startswith(a,'b')"),
        ("not fragile", "not(fragile)", "not(fragile)"),
        ("not (a eq 1)", "not(a eq 1)", "not(a eq 1)"),
        ("not contains(a,'b')", "not(contains(a,'b'))", "not(substringof('b',a))"),
        ("not a eq true", "(not(a)) eq true", "(not(a)) eq true"),
        (
            "a eq 1 and b eq 2 and c eq 3", "a eq 1 and b eq 2 and c eq 3",
            "a eq 1 and b eq 2 and c eq 3"
        ),
        (
            "a eq 1 and (b eq 2 and c eq 3)", "a eq 1 and (b eq 2 and c eq 3)",
            "a eq 1 and (b eq 2 and c eq 3)"
        ),
        ("a eq 1 or b eq 2 and c", "a eq 1 or (b eq 2 and c)", "a eq 1 or (b eq 2 and c)"),
        ("(a eq 1 or b eq 2) and c", "(a eq 1 or b eq 2) and c", "(a eq 1 or b eq 2) and c"),
        ("a add 1 mul 2 eq 3", "(a add (1 mul 2)) eq 3", "(a add (1 mul 2)) eq 3"),
        ("a sub b sub c gt 0", "((a sub b) sub c) gt 0", "((a sub b) sub c) gt 0"),
        ("-a lt -1", "-(a) lt -1", "-(a) lt -1"),
        ("-(1) lt - 1", "-(1) lt -(1)", "-(1) lt -(1)"),
        ("a in (1,2)", "a in (1,2)", "a eq 1 or a eq 2"),
        ("b and a in ( 'x' , 'y' )", "b and a in ('x','y')", "b and (a eq 'x' or a eq 'y')"),
        ("a in ()", "false", "false"),
        ("a eq 5000000000", "a eq 5000000000", "a eq 5000000000L"),
        ("a eq 15.00m", "a eq 15M", "a eq 15M"),
        ("a eq 2d", "a eq 2.0", "a eq 2.0"),
        ("datetime eq 1", "datetime eq 1", "datetime eq 1"),
        (
            "year eq 2000 and year(sentAt) eq year", "year eq 2000 and year(sentAt) eq year",
            "year eq 2000 and year(sentAt) eq year"
        ),
        ("a-1 eq 2", "a-1 eq 2", "a-1 eq 2"), ("@x eq _y", "@x eq _y", "@x eq _y"),
        ("date(a) eq 2021-01-01", "date(a) eq 2021-01-01", "date(a) eq '2021-01-01'"),
        (
            "fractionalseconds(a) lt 0.5", "fractionalseconds(a) lt 0.5",
            "fractionalseconds(a) lt 0.5"
        ),
        (
            "a eq 2026-11-20T20:32:22.404Z", "a eq 2026-11-20T20:32:22.404Z",
            "a eq datetimeoffset'2026-11-20T20:32:22.404Z'"
        ),
        (
            "a eq 2026-11-20T20:32:22.404123Z", "a eq 2026-11-20T20:32:22.404123Z",
            "a eq datetimeoffset'2026-11-20T20:32:22.404123Z'"
        ),
        ("a lt now()", "a lt now()", "a lt now()"),
        ("a has 'b'", "a has 'b'", "a has 'b'"),
        ("a has E.F'b' eq c", "(a has 'b') eq c", "(a has 'b') eq c"),
        ("a eq cast(b,'Edm.Int32')", "a eq cast(b,Edm.Int32)", "a eq cast(b,Edm.Int32)"),
        ("isof(a,Edm.Guid)", "isof(a,Edm.Guid)", "isof(a,Edm.Guid)"),
        ("isof(Edm.Guid)", "false", "false"), ("isof('Edm.Guid')", "false", "false"),
        (
            "matchesPattern(a,'^b.*')", "matchesPattern(a,'^b.*')", "matchesPattern(a,'^b.*')"
        ),
        ("a divby 2 eq 1", "(a divby 2) eq 1", "(a divby 2) eq 1"),
        (
            "a lt maxdatetime()", "a lt 9999-12-31T23:59:59.999999Z",
            "a lt datetimeoffset'9999-12-31T23:59:59.999999Z'"
        ),
        (
            "a gt mindatetime()", "a gt 0001-01-01T00:00:00.000Z",
            "a gt datetimeoffset'0001-01-01T00:00:00.000Z'"
        ),
        ("a eq X'00FF'", "a eq binary'AP8='", "a eq X'00FF'"),
    ]

    @Test("A filter is written in the spelling of each dialect", arguments: spellings)
    func writes(_ text: String, v4: String, v3: String) throws {
        let parsed = try ODataParser.filter(text, dialect: .v4)
        #expect(try ODataParser.filter(text, dialect: .v3) == parsed)
        #expect(try ODataWriter(.v4).filter(parsed) == v4)
        #expect(try ODataWriter(.v3).filter(parsed) == v3)
    }

    @Test("Literals are written in the notation of their column's type")
    func literalsTakeTheFormOfTheirColumn() throws {
        let schema = TableSchema(
            name: "t",
            columns: [
                ColumnDefinition("g", .guid), ColumnDefinition("d", .date),
                ColumnDefinition("c", .time),
            ]
        )
        let guid = "01234567-89ab-cdef-0123-456789abcdef"
        let text = "g in ('\(guid)','x') and d eq '1994-10-14' and '07:14:00.000' lt c and d eq 'y'"
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let written = try ODataWriter(.v4, schema: schema).filter(parsed)
        #expect(
            written == "g in (\(guid),'x') and d eq 1994-10-14 and 07:14:00.000 lt c and d eq 'y'"
        )
        #expect(try ODataParser.filter(written, dialect: .v4) == parsed)
        let classic = try ODataWriter(.v3, schema: schema).filter(parsed)
        #expect(classic.hasPrefix("(g eq guid'\(guid)' or g eq 'x') and d eq '1994-10-14'"))
    }

    @Test("Relations bind tighter than equality only in v4")
    func relationsBindTighterThanEqualityInV4Only() throws {
        let modern = try ODataParser.filter("a eq b lt c", dialect: .v4)
        #expect(modern == compare(field("a"), .eq, compare(field("b"), .lt, field("c"))))
        let classic = try ODataParser.filter("a eq b lt c", dialect: .v3)
        #expect(classic == compare(compare(field("a"), .eq, field("b")), .lt, field("c")))
    }

    @Test("Names of functions and operators ignore case only in v4")
    func functionNamesIgnoreCaseInV4Only() throws {
        for text in ["toLower(a) eq 'b'", "pieces EQ 3", "a IN (1)", "NOT (a eq 1 OR b) And c"] {
            #expect(throws: Never.self) { try ODataParser.filter(text, dialect: .v4) }
            #expect(throws: ODataError.self) { try ODataParser.filter(text, dialect: .v3) }
        }
        let both = try ODataParser.filter("a eq 1 OR b eq 2 or c eq 3", dialect: .v4)
        #expect(try ODataWriter(.v4).filter(both) == "a eq 1 or b eq 2 or c eq 3")
        let order = try ODataParser.orderBy("a DESC", dialect: .v4)
        #expect(order == [SortKey(column: "a", ascending: false)])
        #expect(throws: ODataError.self) { try ODataParser.orderBy("a DESC", dialect: .v3) }
    }

    @Test("The now function is replaced with the given time and rejected without one")
    func nowIsTheTimeGiven() throws {
        let now = Timestamp("2026-11-20T20:32:22.404Z")!.date
        let parsed = try ODataParser.filter("not (a lt now())", dialect: .v4)
        let bound = try FilterChecker(schema: nil, now: now).filter(parsed)
        #expect(bound == Tree(.not(compare(field("a"), .lt, value(.date(now))))))
        #expect(Filter(parsed).bound(now: now).expression == bound)
        let error = #expect(throws: ODataError.self) {
            try FilterChecker(schema: nil).filter(parsed)
        }
        #expect(error?.position == 10)
    }

    @Test("An order is parsed, and invalid or long orders are rejected") func readsOrders() throws {
        let keys = try ODataParser.orderBy("a, b desc ,length(c) asc", dialect: .v4)
        #expect(try ODataWriter(.v4).orderBy(keys) == "a,b desc,length(c)")
        let many = Array(repeating: "a", count: 17).joined(separator: ",")
        for wrong in ["", "a,", "a foo", "a desc b", "a;b", many] {
            #expect(throws: ODataError.self) { try ODataParser.orderBy(wrong, dialect: .v4) }
        }
    }

    @Test("A selection is parsed, and invalid selections are rejected")
    func readsSelections() throws {
        #expect(try ODataParser.select("a, b,a", dialect: .v4) == ["a", "b"])
        #expect(try ODataParser.select(" * ", dialect: .v4) == nil)
        for wrong in ["", "a b", "a,", "'a'", "a,*", "1"] {
            #expect(throws: ODataError.self) { try ODataParser.select(wrong, dialect: .v4) }
        }
    }

    @Test("A whole query is written as a query string in each dialect")
    func writesWholeQueries() throws {
        var query = TableQuery(
            filter: Filter(try ODataParser.filter("a eq 'x&y' and b", dialect: .v4))
        )
        query.order = [SortKey(column: "a"), SortKey(column: "b", ascending: false)]
        query.offset = 5
        query.limit = 10
        query.select = ["id", "a"]
        query.includesTotalCount = true
        query.includesDeleted = true
        query.parameters = ["z": "1 2", "k": "ż"]
        let rest = "$orderby=a%2Cb%20desc&$skip=5&$top=10&$select=id%2Ca"
        let end = "k=%C5%BC&z=1%202"
        let filter = "$filter=a%20eq%20%27x%26y%27%20and%20b"
        #expect(
            try ODataWriter.queryString(query, .v4)
                == "\(filter)&\(rest)&$count=true&\(end)&__includedeleted=true"
        )
        #expect(
            try ODataWriter.queryString(query, .v3)
                == "\(filter)&\(rest)&$inlinecount=allpages&\(end)&__includeDeleted=true"
        )
        #expect(try ODataWriter.queryString(TableQuery(), .v4) == "")
    }
}
