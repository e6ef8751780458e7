// The SQL of filters as text, and what SQLite makes of it.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite

@Suite struct RendererTests {
    @Test func bindsAndQuotes() {
        let sql: SQL =
            "SELECT \(Identifier("ti\"tle")) WHERE \(Identifier("id")) = \(.text("x'--"))"
        #expect(sql.text(for: .sqlite) == #"SELECT "ti""tle" WHERE "id" = ?"#)
        #expect(sql.bindings == [.text("x'--")])
        let both: SQL = "\(sql) AND a = \(.integer(2))"
        #expect(both.text(for: .sqlite).hasSuffix(#""id" = ? AND a = ?"#))
    }

    static let cases: [(String, String)] = [
        ("title eq 'a'", #""title" = ?"#), ("title ne 'a'", #""title" IS NOT ?"#),
        ("not (title eq 'a')", #"NOT ("title" IS ?)"#), ("title eq null", #""title" IS NULL"#),
        ("null ne title", #""title" IS NOT NULL"#), ("year lt null", "0"),
        ("year gt 1 and isSeen", #""year" > ? AND "isSeen" IS 1"#),
        ("not (year gt 1 or isSeen)", #"NOT (ifnull("year" > ?, 0) OR "isSeen" IS 1)"#),
        ("year eq 1 and (isSeen or year lt 5)", #""year" = ? AND ("isSeen" IS 1 OR "year" < ?)"#),
        ("year in (1,2)", #""year" IN (?, ?)"#),
        ("year in (1,null)", #""year" = ? OR "year" IS NULL"#),
        ("startswith(title,'Wi')", #"("title" >= ? AND "title" < ?)"#),
        ("startswith(title,'Wi') eq true", #"(("title" >= ? AND "title" < ?))"#),
        ("startswith(title,'')", #"tl_startswith("title", ?)"#),
        ("contains(title,'x') eq false", #"tl_contains("title", ?) = ?"#),
        ("year add 1 eq 2", #"tl_add("year", ?) = ?"#),
        ("price eq 1.5", #""price" = ?"#),
        ("price lt 1.5", #"tl_decimal_compare("price", ?) < 0"#),
        ("price eq score", #"tl_decimal_equal("price", "score") IS 1"#),
        ("year(releasedAt) eq 2000", #"tl_year("releasedAt" * 1000) = ?"#),
        ("releasedAt ge 2026-11-20T20:32:22.404Z", #""releasedAt" >= ?"#),
        ("releasedAt ge 2026-11-20T20:32:22.404500Z", #""releasedAt" > ?"#),
        ("releasedAt lt 2026-11-20T20:32:22.404500Z", #""releasedAt" <= ?"#),
        ("releasedAt eq 2026-11-20T20:32:22.404500Z", "0"),
        ("releasedAt ne 2026-11-20T20:32:22.404500Z", "1"),
        ("rating gt 'Unrated'", #""rating" IN (?, ?)"#),
    ]

    @Test(arguments: cases)
    func renders(_ text: String, _ expected: String) throws {
        let schema = CheckerTests.schema
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let filter = try FilterChecker(schema: schema).filter(parsed)
        let renderer = FilterRenderer(schema: schema, dateUnit: .milliseconds)
        #expect(renderer.condition(filter).text(for: .sqlite) == expected)
        let joined = FilterRenderer(schema: schema, dateUnit: .milliseconds, table: Identifier("t"))
        #expect(
            joined.condition(filter).text(for: .sqlite)
                == expected
                .replacing(#/"[a-zA-Z]+"/#) { "\"t\".\($0.output)" }
        )
    }

    @Test func rendersOrders() throws {
        let checker = FilterChecker(schema: CheckerTests.schema)
        let renderer = FilterRenderer(schema: CheckerTests.schema, dateUnit: .milliseconds)
        func order(_ text: String) throws -> String {
            let keys = try checker.order(ODataParser.orderBy(text, dialect: .v4))
            return renderer.orderBy(keys).text(for: .sqlite)
        }
        #expect(try order("title,year desc") == #""title", "year" DESC, "id""#)
        #expect(try order("id desc") == #""id" DESC"#)
        #expect(try order("price desc") == #""price" COLLATE tl_decimal DESC, "id""#)
        #expect(try order("rating").hasPrefix(#"CASE WHEN "rating" IS NULL THEN NULL WHEN"#))
    }

    @Test func rendersKeysets() throws {
        let renderer = FilterRenderer(schema: CheckerTests.schema, dateUnit: .microseconds)
        func keyset(_ keys: [SortKey], _ values: [Value]) -> String {
            KeysetRenderer(renderer, order: keys).condition(after: values).text(for: .sqlite)
        }
        let stamp = Value.date(Timestamp(microseconds: 5).date)
        #expect(
            keyset([SortKey(column: "updatedAt")], [stamp, "x"])
                == #"("updatedAt", "id") > (?, ?)"#
        )
        #expect(keyset([], ["x"]) == #""id" > ?"#)
        #expect(
            keyset([SortKey(column: "year", ascending: false)], [5, "x"])
                == #""year" < ? OR "year" IS NULL OR ("year" = ? AND "id" > ?)"#
        )
        #expect(
            keyset([SortKey(column: "year")], [nil, "x"])
                == #""year" IS NOT NULL OR ("year" IS NULL AND "id" > ?)"#
        )
    }

    /// The conditions that a list or a pull sends use the index that is there for them.
    @Test(arguments: [
        "title eq 'a'", "title ge 'a' and title lt 'b'", "title in ('a','b')",
        "startswith(title,'a')", "startswith(title,'a') eq true and year gt 1", "title eq null",
        "title eq 'a' or title eq 'b'", "year gt 3 and title eq 'a' and isSeen",
    ])
    func usesTheIndex(_ text: String) throws {
        let schema = CheckerTests.schema
        let index = #"CREATE INDEX byTitle ON t ("title")"#
        let table = try TestTable(schema, [], unit: .microseconds, indexes: [index])
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let filter = try FilterChecker(schema: schema).filter(parsed)
        let plan = try table.plan(table.renderer.condition(filter))
        #expect(plan.contains("SEARCH t USING INDEX byTitle"), "\(plan)")
    }

    @Test func keysetUsesTheIndex() throws {
        let schema = CheckerTests.schema
        let index = #"CREATE INDEX byYear ON t ("year", "id")"#
        let table = try TestTable(schema, [], unit: .microseconds, indexes: [index])
        let keyset = KeysetRenderer(table.renderer, order: [SortKey(column: "year")])
        let plan = try table.plan(keyset.condition(after: [1, "x"]))
        #expect(plan.contains("SEARCH t USING COVERING INDEX byYear"), "\(plan)")
    }
}
