// FilterSplitTests: tables of the parts of filters that PostgreSQL evaluates, and of their SQL.

import Testing
import TidelineCore

@Suite struct FilterSplitTests {
    static let schema = TableSchema(
        name: "t",
        columns: [
            ColumnDefinition("s", .string), ColumnDefinition("i", .integer),
            ColumnDefinition("n", .number), ColumnDefinition("d", .decimal),
            ColumnDefinition("b", .boolean), ColumnDefinition("t", .dateTime),
            ColumnDefinition("day", .date), ColumnDefinition("hour", .time, nullable: false),
            ColumnDefinition("key", .guid), ColumnDefinition("doc", .json),
            ColumnDefinition("e", .enumeration(["low", "high"])),
        ]
    )

    /// Filters, and their parts that are left for the evaluator.
    static let cases: [(filter: String, rest: String?)] = [
        ("s eq 'a'", nil), ("s eq null", nil), ("not (i gt 3)", nil), ("b", nil),
        ("b eq true", nil), ("i in (1,2,3)", nil), ("startswith(s,'a') and endswith(s,'b')", nil),
        ("contains(s,'a') or length(s) gt 3", nil), ("t ge 2021-03-05T07:08:09Z", nil),
        ("day eq 2021-03-05", nil), ("e gt 'low'", nil), ("d gt i", nil), ("i eq 2", nil),
        ("key eq 01234567-89ab-cdef-0123-456789abcdef", nil), ("hour lt 07:08:09", nil),
        ("deleted or createdAt lt updatedAt", nil), ("(i eq 1) eq (b eq false)", nil),
        ("tolower(s) eq 'a'", "tolower(s) eq 'a'"), ("i eq n", "i eq n"), ("n lt d", "n lt d"),
        ("i add 1 eq 2", "i add 1 eq 2"), ("year(t) eq 2021", "year(t) eq 2021"),
        ("matchesPattern(s,'a')", "matchesPattern(s,'a')"),
        ("s eq 'a' and trim(s) eq 'b'", "trim(s) eq 'b'"),
        ("s eq 'a' and doc/city eq 'b'", "doc/city eq 'b'"),
        ("b and doc/any(x:x eq s)", "doc/any(x:x eq s)"), ("doc/$count gt i", "doc/$count gt i"),
        ("s eq 'a' or trim(s) eq 'b'", "s eq 'a' or trim(s) eq 'b'"),
        ("b and (i eq 1 and (floor(n) eq 1 and s eq 'x'))", "floor(n) eq 1"),
        ("not (trim(s) eq 'b') and floor(n) eq 1 and b", "not (trim(s) eq 'b') and floor(n) eq 1"),
    ]

    @Test("A filter is split into an exact SQL part and an evaluated rest", arguments: cases)
    func splits(filter: String, rest: String?) throws {
        let checker = FilterChecker(schema: Self.schema)
        let whole = try checker.filter(try ODataParser.filter(filter, dialect: .v4))
        let split = FilterSplit(schema: Self.schema).split(whole)
        let wanted = try rest.map {
            try checker.filter(try ODataParser.filter($0, dialect: .v4))
        }
        #expect(split.rest == wanted)
        #expect((split.exact == nil) == (split.rest == whole))
    }

    @Test("A filter with more literals than a statement may have is evaluated in part")
    func listsBeyondTheParametersAreEvaluated() throws {
        let list = "i in (" + String(repeating: "1,", count: 9999) + "1)"
        let checker = FilterChecker(schema: Self.schema)
        let part = try checker.filter(try ODataParser.filter(list, dialect: .v4))
        let parts = Array(repeating: part, count: 7)
        let all = FilterSplit(schema: Self.schema).split(QueryExpression(.all(parts)))
        #expect(all.exact == QueryExpression(.all(Array(parts.dropLast()))))
        #expect(all.rest == part)
        let any = QueryExpression(.any(parts))
        let split = FilterSplit(schema: Self.schema).split(any)
        #expect(split.exact == nil && split.rest == any)
    }

    @Test("A text with a null character is compared in memory")
    func aTextThatNoDatabaseTakesIsEvaluated() {
        let text = QueryExpression(.value(.string("a\0b")))
        let filter = QueryExpression(.compare(.eq, QueryExpression(.field("s")), text))
        #expect(FilterSplit(schema: Self.schema).split(filter).rest == filter)
    }

    /// Filters, and their SQL if null may mean false.
    static let rendered: [(filter: String, sql: String)] = [
        ("s eq 'a'", #""s" = $1 COLLATE "C""#),
        ("s ne 'a'", #""s" IS DISTINCT FROM $1 COLLATE "C""#),
        ("not (i gt 3)", #"NOT (coalesce("i" > $1, FALSE))"#),
        ("b and d lt 1.5", #""b" IS TRUE AND "d" < $1::numeric"#),
        ("day ge 2021-03-05", #"to_char("day", 'YYYY-MM-DD') COLLATE "C" >= $1 COLLATE "C""#),
        (
            "hour eq 07:08:09",
            #"coalesce(regexp_replace(to_char("hour", 'HH24:MI:SS.US'), '000$', ''), '') "#
                + #"COLLATE "C" = $1 COLLATE "C""#
        ),
        ("contains(s,'a')", #"coalesce(strpos("s", $1 COLLATE "C") > 0, FALSE)"#),
        ("startswith(s,'a')", #"("s" >= $1 AND "s" < $2)"#),
        ("i in (1,2)", #""i" IN ($1, $2)"#),
        ("t lt 2021-03-05T07:08:09Z", #""t" < $1::timestamptz"#),
        ("b eq null or false", #""b" IS NULL OR FALSE"#),
    ]

    @Test("A filter is rendered as PostgreSQL", arguments: rendered)
    func renders(filter: String, sql: String) throws {
        let checker = FilterChecker(schema: Self.schema)
        let checked = try checker.filter(try ODataParser.filter(filter, dialect: .v4))
        let renderer = FilterRenderer(
            schema: Self.schema,
            dateUnit: .microseconds,
            dialect: .postgres
        )
        #expect(renderer.condition(checked).text(for: .postgres) == sql)
    }
}
