// FunctionFactTests: the functions of the original servers' databases and of OData 4.01, in memory and
// in SQLite, with both units of dates.

import Foundation
import Testing
import TidelineCore

@Suite struct FunctionFactTests {
    static let now = Timestamp(microseconds: 1_640_995_200_000_500).date

    private static func instant(_ text: String) -> Value {
        Timestamp(text).map { .date($0.date) } ?? .null
    }

    static let rows: [Row] = [
        [
            "id": "1", "s1": "Alpha 7", "s2": "2021-03-05", "i1": 5, "n1": 2.5,
            "d1": decimal("3.99"), "b1": true, "t1": instant("2021-03-05T07:08:09.120Z"),
            "day": "2021-03-05", "clock": "07:08:09.120",
            "guid": "01234567-89ab-cdef-0123-456789abcdef", "bytes": .data(Data([0, 255])),
            "e1": "low",
        ],
        [
            "id": "2", "s1": "beta\nA", "s2": "-5", "i1": -300, "n1": -2.5, "d1": decimal("-0.5"),
            "b1": false, "t1": instant("1969-07-20T20:17:40Z"), "day": "1969-07-20",
            "clock": "00:00:00.000", "guid": "ffffffff-89ab-cdef-0123-456789abcdef",
            "bytes": .data(Data()), "e1": "high",
        ],
        ["id": "3"],
        [
            "id": "4", "s1": "", "s2": "true", "i1": 70_000, "n1": 1e15, "d1": decimal("7"),
            "b1": true, "t1": instant("2026-11-20T20:32:22.404Z"), "day": "2022-01-01",
            "clock": "23:59:59.999", "guid": "01234567-89ab-cdef-0123-456789abcdee",
            "bytes": .data(Data([1])), "e1": "middle",
        ],
    ]

    static let facts: [(String, String)] = [
        // Time
        ("t1 lt now()", "1 2"), ("t1 gt now()", "4"), ("not (t1 gt now())", "1 2 3"),
        ("now() eq now()", "1 2 3 4"), ("year(now()) eq 2022", "1 2 3 4"),
        ("date(now()) eq day", "4"), ("fractionalseconds(now()) eq 0.0005", "1 2 3 4"),
        ("t1 gt mindatetime() and t1 lt maxdatetime()", "1 2 4"),
        ("year(maxdatetime()) eq 9999 and day(mindatetime()) eq 1", "1 2 3 4"),
        ("totaloffsetminutes(t1) eq 0", "1 2 4"), ("totaloffsetminutes(t1) eq null", "3"),
        ("date(t1) eq 2021-03-05", "1"), ("date(t1) eq day", "1 2 3"),
        ("time(t1) gt 20:00:00", "2 4"), ("time(t1) eq clock", "1 3"),
        ("fractionalseconds(t1) eq 0.12", "1"), ("fractionalseconds(clock) gt 0.9", "4"),
        ("clock ge 07:08:09", "1 4"), ("clock eq cast(07:08:09.120,Edm.TimeOfDay)", "1"),
        ("day eq cast(1969-07-20,Edm.Date)", "2"), ("year(day) eq 1969", "2"),
        ("t1 ge cast(2021-03-05T07:08:09.120Z,Edm.DateTimeOffset)", "1 4"),
        ("t1 lt 2021-03-05T08:08:09.121+01:00", "1 2"), ("t1 ge 2021-03-05", "1 4"),
        // Patterns
        ("matchesPattern(s1,'^Alpha')", "1"), ("matchesPattern(s1,'a')", "1 2"),
        ("matchesPattern(s1,'\\d$')", "1"), ("matchesPattern(s1,'a$')", ""),
        ("matchesPattern(s1,'A$')", "2"), ("matchesPattern(s1,'^.*$')", "1 4"),
        ("matchesPattern(s1,'')", "1 2 4"),
        ("matchesPattern(s1,'\\bA\\b')", "2"), ("matchesPattern(s1,'\\x41l+?pha')", "1"),
        ("not matchesPattern(s1,'a')", "3 4"), ("matchesPattern(tolower(s1),'^ALPHA')", ""),
        ("matchesPattern(e1,'^(low|high)$')", "1 2"), ("matchesPattern(guid,'e$')", "4"),
        // Types
        ("isof(s1,Edm.String)", "1 2 4"), ("isof(s1,Edm.Guid)", ""), ("isof(i1,Edm.Byte)", "1"),
        ("isof(i1,Edm.Int16)", "1 2"), ("isof(i1,'Edm.Int32')", "1 2 4"),
        ("not isof(i1,Edm.Int32)", "3"), ("isof(i1,Edm.Double)", ""), ("isof(Edm.Int32)", ""),
        ("isof(n1,Edm.Double) and isof(d1,Edm.Decimal)", "1 2 4"),
        ("isof(t1,Edm.DateTimeOffset) and isof(day,Edm.Date)", "1 2 4"),
        ("isof(cast(i1,Edm.Byte),Edm.Byte)", "1"), ("isof(b1,Edm.Boolean)", "1 2 4"),
        ("cast(i1,Edm.String) eq '5'", "1"), ("cast(n1,Edm.String) eq '-2.5'", "2"),
        ("cast(n1,Edm.String) eq '1000000000000000'", "4"),
        ("cast(d1,Edm.String) eq '3.99'", "1"), ("cast(b1,Edm.String) eq 'false'", "2"),
        ("cast(t1,Edm.String) eq '2021-03-05T07:08:09.120Z'", "1"),
        ("startswith(cast(day,Edm.String),'2021')", "1"),
        ("cast(clock,Edm.String) eq '00:00:00.000'", "2"),
        ("endswith(cast(guid,Edm.String),'ee')", "4"), ("cast(bytes,Edm.String) eq 'AP8='", "1"),
        ("cast(e1,Edm.String) lt 'low'", "2"), ("cast(n1,Edm.Int32) eq 2", "1"),
        ("cast(n1,Edm.Int32) eq -2", "2"), ("cast(n1,Edm.Int32) eq null", "3 4"),
        ("cast(n1,Edm.Int64) eq 1000000000000000", "4"), ("cast(d1,Edm.Int32) eq 3", "1"),
        ("cast(d1,Edm.Int32) eq 0", "2"), ("cast(i1,Edm.Double) div 2 eq 2.5", "1"),
        ("cast(i1,Edm.Decimal) eq 5", "1"), ("cast(n1,Edm.Decimal) eq 2.5", "1"),
        ("cast(s2,Edm.Int32) eq -5", "2"), ("cast(s2,Edm.Int32) eq null", "1 3 4"),
        ("cast(s2,Edm.Boolean)", "4"), ("cast(s2,Edm.Date) eq day", "1 3"),
        ("cast(s2,Edm.Date) eq null", "2 3 4"), ("cast(t1,Edm.Date) eq day", "1 2 3"),
        ("cast(t1,Edm.TimeOfDay) eq clock", "1 3"),
        ("cast(day,Edm.DateTimeOffset) le t1", "1 2 4"),
        ("cast(day,Edm.DateTimeOffset) eq 2021-03-05T00:00:00Z", "1"),
        ("year(cast(s2,Edm.DateTimeOffset)) eq 2021", "1"),
        ("cast(cast(guid,Edm.String),Edm.Guid) eq guid", "1 2 3 4"),
        ("cast(null,Edm.Int32) eq null", "1 2 3 4"),
        // Enumerations
        ("e1 has 'low'", "1"), ("e1 has Example.Level'high'", "2"),
        ("not (e1 has 'low')", "2 3 4"), ("e1 eq Example.Level'high'", "2"),
        ("e1 gt 'low'", "2 4"), ("e1 in ('low','high')", "1 2"), ("e1 ne 'low'", "2 3 4"),
        // Literals of the clients
        ("i1 eq 5L", "1"), ("n1 eq 2.5f", "1"), ("d1 eq 3.99M", "1"), ("n1 eq -2.5d", "2"),
        ("guid eq cast(01234567-89ab-cdef-0123-456789abcdef,Edm.Guid)", "1"),
        ("guid eq 01234567-89AB-CDEF-0123-456789ABCDEF", "1"), ("clock ge 12:15:00", "4"),
        ("s1 in ( 'Alpha 7', 'x' )", "1"), ("Tolower(S1) eq tolower('ALPHA 7')", "1"),
        // Division and rounding
        ("2001 div 1000.5 eq 2", "1 2 3 4"), ("i1 div 2.5 eq 2", "1"),
        ("ceiling(i1 div 4.0) eq 2", "1"), ("ceiling(i1 div 4) eq 1", "1"),
        ("round(0.5) eq 0 and round(1.5) eq 2 and round(-0.5) eq 0", "1 2 3 4"),
        ("i1 div 2 eq 2", "1"), ("i1 div 2.0 eq 2.5", "1"), ("i1 divby 2 eq 2.5", "1"),
        ("i1 div 7 eq -42", "2"), ("i1 mod 7 eq -6", "2"), ("i1 divby 0 eq null", "1 2 3 4"),
        ("d1 divby 2 eq 1.995", "1"), ("ceiling(i1 div 60.0) eq -5", "2"),
        ("round(n1) eq 2", "1"), ("round(n1) eq -2", "2"), ("round(d1) eq 0", "2"),
        ("floor(n1) eq -3 or ceiling(n1) eq 3", "1 2"),
    ]

    @Test("A filter with functions finds its rows in memory and in SQL", arguments: facts)
    func holds(_ text: String, _ ids: String) throws {
        let schema = FilterGenerator.schema
        let expected = ids.split(separator: " ").map(String.init)
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let checker = FilterChecker(schema: schema, now: Self.now)
        let checked = try checker.filter(parsed)
        #expect(Self.rows.filter(Filter(checked).matches).map(\.id) == expected)
        for unit in FilterRenderer.DateUnit.allCases {
            let table = try TestTable(schema, Self.rows, unit: unit)
            let loose = try table.ids(table.renderer.condition(checked))
            #expect(loose == expected)
            let strict = try table.ids(table.renderer.strictCondition(checked))
            #expect(strict == expected)
        }
        for writer in [ODataWriter(.v4), ODataWriter(.v4, schema: schema)] {
            let written = try writer.filter(parsed)
            #expect(try ODataParser.filter(written, dialect: .v4) == parsed, "\(written)")
        }
    }

    @Test(
        "A v3 filter rounds halves away from zero",
        arguments: [("round(n1) eq 3", "1"), ("round(n1) eq -3", "2"), ("round(d1) eq -1", "2")]
    )
    func classicRounding(_ text: String, _ ids: String) throws {
        let checker = FilterChecker(schema: FilterGenerator.schema)
        let checked = try checker.filter(ODataParser.filter(text, dialect: .v3))
        #expect(Self.rows.filter(Filter(checked).matches).map(\.id) == [ids])
    }

    /// Quadratic time would exceed the time limit.
    @Test(
        "A text that keeps many states of a pattern active takes linear time in SQLite",
        .timeLimit(.minutes(1))
    )
    func patternsTakeLinearTime() throws {
        let schema = TableSchema(name: "t", columns: [ColumnDefinition("s", .string)])
        let text = String(repeating: "a", count: 100_000)
        let table = try TestTable(schema, [["id": "1", "s": .string(text)]], unit: .milliseconds)
        let parsed = try ODataParser.filter("matchesPattern(s,'(a*)*(a|aa)+(a+)+b')", dialect: .v4)
        let found = try table.ids(table.renderer.condition(parsed))
        #expect(found.isEmpty)
    }
}
