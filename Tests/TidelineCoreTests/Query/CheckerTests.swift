// CheckerTests: the names and literals of filters, and the positions of errors.

import Foundation
import Testing
import TidelineCore

@Suite struct CheckerTests {
    static let schema = TableSchema(
        name: "film",
        columns: [
            ColumnDefinition("title", .string), ColumnDefinition("year", .integer),
            ColumnDefinition("score", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("isSeen", .boolean), ColumnDefinition("releasedAt", .dateTime),
            ColumnDefinition("day", .date), ColumnDefinition("clock", .time),
            ColumnDefinition("owner", .guid), ColumnDefinition("hash", .binary),
            ColumnDefinition("extra", .json),
            ColumnDefinition("rating", .enumeration(["Unrated", "G", "PG"])),
        ]
    )

    /// Filters, and the same filters after the check, written in v4.
    static let accepted: [(String, String)] = [
        (
            "TITLE eq 'a' and ID ne 'b' and updatedat ne null",
            "title eq 'a' and id ne 'b' and updatedAt ne null"
        ),
        ("year eq 2.0", "year eq 2"), ("year eq 2.5", "year eq 2.5"),
        ("year div 1000.0 eq 2", "(year div 1000.0) eq 2.0"),
        ("score eq 2", "score eq 2.0"), ("price eq 4.99", "price eq 4.99M"),
        ("4.990 le price", "4.99M le price"), ("price add 1.99 gt 2", "(price add 1.99M) gt 2M"),
        (
            "owner eq '01234567-89AB-CDEF-0123-456789ABCDEF'",
            "owner eq 01234567-89ab-cdef-0123-456789abcdef"
        ),
        (
            "releasedAt ge '2026-11-20T20:32:22.404+01:00'",
            "releasedAt ge 2026-11-20T19:32:22.404Z"
        ),
        ("releasedAt lt 2026-11-20", "releasedAt lt 2026-11-20T00:00:00.000Z"),
        ("day eq '1994-10-14'", "day eq 1994-10-14"), ("clock lt 07:14", "clock lt 07:14:00.000"),
        ("date(releasedAt) eq '1994-10-14'", "date(releasedAt) eq 1994-10-14"),
        ("hash eq 'AP8='", "hash eq binary'AP8='"), ("extra eq null", "extra eq null"),
        ("rating eq 'G'", "rating eq 'G'"), ("rating lt 'PG'", "rating in ('Unrated','G')"),
        ("'G' le rating", "rating in ('G','PG')"), ("rating in ('G')", "rating in ('G')"),
        ("rating lt 'Unrated'", "false"), ("rating lt null", "rating lt null"),
        ("isSeen", "isSeen"), ("not isSeen and null", "not(isSeen) and null"),
        ("contains(title,'x') eq false", "contains(title,'x') eq false"),
        ("year('2021-01-01') eq year", "year('2021-01-01') eq year"),
        ("substring(title,1.0) eq 'x'", "substring(title,1) eq 'x'"),
        ("title eq 2021-01-01T00:00:00Z", "title eq '2021-01-01T00:00:00.000Z'"),
        ("rating has 'G'", "rating eq 'G'"), ("not (rating has 'G')", "not(rating eq 'G')"),
        ("isof(title,Edm.String)", "title ne null"), ("isof(title,Edm.Guid)", "false"),
        ("isof(rating,Edm.String)", "rating ne null"), ("isof(year,Edm.Int64)", "year ne null"),
        ("isof(year,Edm.Int16)", "isof(year,Edm.Int16)"), ("isof(null,Edm.Date)", "null ne null"),
        ("cast(year,Edm.String) eq '5'", "cast(year,Edm.String) eq '5'"),
        ("cast(year,Edm.Decimal) lt 1.5", "cast(year,Edm.Decimal) lt 1.5M"),
        ("cast(title,Edm.Boolean)", "cast(title,Edm.Boolean)"),
        ("cast(releasedAt,Edm.Date) eq '2021-01-01'", "cast(releasedAt,Edm.Date) eq 2021-01-01"),
        ("year divby 2 eq 1", "(year divby 2) eq 1.0"),
        ("tolower(owner) eq owner", "tolower(owner) eq owner"),
    ]

    @Test("A valid filter is accepted with the column names of the schema", arguments: accepted)
    func accepts(_ text: String, _ expected: String) throws {
        let checker = FilterChecker(schema: Self.schema)
        let checked = try checker.filter(ODataParser.filter(text, dialect: .v4))
        #expect(try ODataWriter(.v4, schema: Self.schema).filter(checked) == expected)
        #expect(try checker.filter(checked) == checked)
    }

    /// Invalid filters, and the offsets of their errors.
    static let rejected: [(String, Int)] = [
        ("tilte eq 'a'", 0), ("title eq 'a' and yaer gt 1", 17), ("title eq 5", 9),
        ("year eq '5'", 8), ("year eq 1 and 5", 14), ("title", 0), ("year and isSeen", 0),
        ("not year eq 1", 0), ("not 5", 0), ("-title eq 1", 1), ("title add 1 eq 2", 0),
        ("length(year) eq 1", 7), ("year(title) eq 1", 5), ("floor(title) eq 1", 6),
        ("substring(title,'1') eq 'x'", 16), ("isSeen eq 1", 10), ("isSeen lt true", 0),
        ("owner eq 'nonsense'", 9), ("releasedAt eq 'soon'", 14), ("day eq '1994-02-30'", 7),
        ("rating eq 'X'", 10), ("rating in ('G','X')", 15), ("extra eq 'x'", 9),
        ("hash eq '***'", 8), ("releasedAt gt day", 0), ("title eq year", 0),
        ("rating has 'X'", 11), ("title has 'X'", 0), ("rating has 5", 11),
        ("cast(isSeen,Edm.Guid) eq null", 5), ("cast(extra,Edm.String) eq 'x'", 5),
        ("cast(day,Edm.TimeOfDay) eq 07:00", 5), ("matchesPattern(year,'1')", 15),
        ("totaloffsetminutes(day) eq 0", 19), ("cast(year,Edm.Int32)", 0),
        ("rating lt title", 0), ("year in (1,'2')", 11), ("hour(day) eq 1", 5),
    ]

    @Test("An invalid filter is rejected with the position and the reason", arguments: rejected)
    func rejects(_ text: String, _ position: Int) throws {
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let error = #expect(throws: ODataError.self) {
            try FilterChecker(schema: Self.schema).filter(parsed)
        }
        #expect(error?.position == position, "\(error?.message ?? "")")
        #expect(
            error?.reason
                == (text.contains("tilte") || text.contains("yaer") ? .unknownColumn : .type)
        )
    }

    @Test("Without a schema only the shape of a filter is checked")
    func checksShapeWithoutASchema() throws {
        let checker = FilterChecker(schema: nil)
        for text in ["a", "not a", "a eq 1", "length(a) gt b", "a add b lt c and d"] {
            let parsed = try ODataParser.filter(text, dialect: .v4)
            #expect(try checker.filter(parsed) == parsed)
        }
        for text in ["5", "'a'", "not 5", "a and 5", "a add 1", "length(a)", "-'a' eq 1"] {
            let parsed = try ODataParser.filter(text, dialect: .v4)
            #expect(throws: ODataError.self) { try checker.filter(parsed) }
        }
    }

    @Test("Orders and selections are checked against the schema")
    func checksOrdersAndSelections() throws {
        let checker = FilterChecker(schema: Self.schema)
        var query = TableQuery()
        query.order = try ODataParser.orderBy("RATING desc,Year", dialect: .v4)
        query.select = ["TITLE", "title", "id"]
        let checked = try checker.query(query)
        #expect(checked.select == ["title", "id"])
        #expect(try ODataWriter(.v4).orderBy(checked.order) == "rating desc,year")
        let rows: [Row] = ["Unrated", "PG", "G", nil, "Other"].map {
            ["id": "1", "rating": $0.map { .string($0) } ?? .null]
        }
        let sorted = RowOrder(checked.order).sorted(rows).map { $0["rating"]?.text }
        #expect(sorted == ["Other", "PG", "G", "Unrated", nil])
        query.order = [SortKey(column: "extra")]
        #expect(throws: ODataError.self) { try checker.query(query) }
    }
}
