// FactTests: each fact in memory and in SQLite, with both units of dates, and after a round trip through OData v4.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite

@Suite struct FactTests {
    @Test("A filter finds its rows in memory and in SQL in both dialects", arguments: Fact.all)
    func holds(_ fact: Fact) throws {
        let parsed = try ODataParser.filter(fact.filter, dialect: .v3)
        #expect(try ODataParser.filter(ODataWriter(.v3).filter(parsed), dialect: .v3) == parsed)
        let schemas = fact.number == 45 ? [Fixture.real] : [Fixture.exact, Fixture.real]
        for schema in schemas {
            try expect(parsed, fact.ids, schema)
            guard !fact.filter.contains("round(") else { continue }
            let text = try ODataWriter(.v4, schema: schema).filter(parsed)
            let again = try ODataParser.filter(text, dialect: .v4)
            #expect(again == parsed, "\(text)")
            try expect(again, fact.ids, schema)
        }
    }

    private func expect(
        _ parsed: QueryExpression,
        _ ids: [String],
        _ schema: TableSchema
    ) throws {
        let filter = try FilterChecker(schema: schema).filter(parsed)
        let rows = Fixture.rows(schema)
        let found = rows.filter(Filter(filter).matches).map(\.id)
        #expect(found == ids)
        for unit in FilterRenderer.DateUnit.allCases {
            let table = try TestTable(schema, rows, unit: unit)
            let loose = try table.ids(table.renderer.condition(filter))
            #expect(loose == ids)
            let strict = try table.ids(table.renderer.strictCondition(filter))
            #expect(strict == ids)
            let rest = try table.ids("NOT (\(table.renderer.strictCondition(filter)))")
            #expect(rest == rows.map(\.id).filter { !ids.contains($0) })
        }
    }

    @Test("Halves round away from zero in v3 and to even in v4")
    func roundingDependsOnTheDialect() throws {
        let halves: [Double] = [2.5, -2.5, 3.5, 0.5]
        let classic = try ODataParser.filter("round(weight) eq 3", dialect: .v3)
        let modern = try ODataParser.filter("round(weight) eq 2", dialect: .v4)
        #expect(halves.filter { Filter(classic).matches(["weight": .number($0)]) } == [2.5])
        #expect(halves.filter { Filter(modern).matches(["weight": .number($0)]) } == [2.5])
        #expect(throws: ODataError.self) { try ODataWriter(.v4).filter(classic) }
    }

    static let rejected: [String] = [
        "label eq \"x\"", "label eq", "label eq 'x", "(pieces eq 3", "pieces eq 3)",
        "foo(label) eq 1", "year() eq 1", "year(sentAt,1) eq 1", "startswith(label)", "concat(a)",
        "trim(a,5)", "indexof(a)", "substring(label) eq 'x'",
        "replace(replace(label,'a','b'),'b','c') eq 'x'", "replace(label,'a',depot) eq 'x'",
        "replace(label,'a','\(String(repeating: "x", count: 101))') eq 'x'",
        "sentAt lt datetime'2000x12-12blah2:00'", "sentAt lt datetime'2022-01-01'",
        "id eq guid'nonsense'", "pieces = 3", "(2 ! ??)", "", " ", "()", "not",
        "pieces eq 3 4", "pieces eq 3 and", "and pieces eq 3", "pieces in 3", "pieces in (3",
        "pieces eq 3abc", "pieces eq 1.2.3", "pieces eq 1e", "a//b eq 1", "has(label,'x')",
        "sentAt eq 2021-13-01T00:00:00Z", "sentAt eq 2021-02-29", "a eq 25:00:00",
        "a eq cast('x',Edm.Date)", "a eq cast(1,Edm.Foo)", "a eq cast(300,Edm.Byte)",
        "cast(a)", "isof(a,Edm.Foo)", "isof(a,'b','c')", "isof()", "a eq now(1)", "a eq now(",
        "matchesPattern(a,b)", "matchesPattern(a,'(')", "matchesPattern(a,'a{501}')",
        "matchesPattern(a,'(?=b)')", "matchesPattern(a)", "a eq maxdatetime(1)", "a eq b.c",
        "a eq totaloffsetminutes()", "a eq Example.Rating", "hassubset(a,b)", "x/some(d:d eq 1)",
        "geo.length(a) gt 1", "geo.intersects(a,b)", "geo.distance(a,b) lt 1", "a eq X'123'",
        "a eq binary'***'",
        "a eq geography'POINT(1 2)'", "a eq 1e999", "a eq 99999999999999999999L",
        "a eq 123456789012345678901234567890123456789.5m", "a?b eq 1",
    ]

    @Test(
        "An invalid filter is rejected with a position and a message",
        arguments: rejected,
        ODataDialect.allCases
    )
    func rejects(_ text: String, _ dialect: ODataDialect) {
        let error = #expect(throws: ODataError.self) {
            try ODataParser.filter(text, dialect: dialect)
        }
        #expect((0...text.utf8.count).contains(error?.position ?? -1))
        #expect(error?.message.isEmpty == false)
    }
}
