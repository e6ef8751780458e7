// The SQL of filters as text, and what SQLite makes of it.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite

@Suite struct RendererTests {
    @Test func bindsAndQuotes() {
        let sql: SQL =
            "SELECT \(Identifier("ti\"tle")) WHERE \(Identifier("id")) = \(.text("x'--"))"
        #expect(sql.text(for: .sqlite) == #"SELECT "ti""tle" WHERE "id" = ?1"#)
        #expect(sql.bindings == [.text("x'--")])
        let both: SQL = "\(sql) AND a = \(.integer(2))"
        #expect(both.text(for: .sqlite).hasSuffix(#""id" = ?1 AND a = ?2"#))
    }

    static let cases: [(String, String)] = [
        ("title eq 'a'", #""title" = ?1"#), ("title ne 'a'", #""title" IS NOT ?1"#),
        ("not (title eq 'a')", #"NOT ("title" IS ?1)"#), ("title eq null", #""title" IS NULL"#),
        ("null ne title", #""title" IS NOT NULL"#), ("year lt null", "0"),
        ("year gt 1 and isSeen", #""year" > ?1 AND "isSeen" IS 1"#),
        ("not (year gt 1 or isSeen)", #"NOT (ifnull("year" > ?1, 0) OR "isSeen" IS 1)"#),
        ("year eq 1 and (isSeen or year lt 5)", #""year" = ?1 AND ("isSeen" IS 1 OR "year" < ?2)"#),
        ("year in (1,2)", #""year" IN (?1, ?2)"#),
        ("year in (1,null)", #""year" = ?1 OR "year" IS NULL"#),
        ("startswith(title,'Wi')", #"("title" >= ?1 AND "title" < ?2)"#),
        ("startswith(title,'Wi') eq true", #"(("title" >= ?1 AND "title" < ?2))"#),
        ("startswith(title,'')", #"tl_startswith("title", ?1)"#),
        ("contains(title,'x') eq false", #"tl_contains("title", ?1) = ?2"#),
        ("year add 1 eq 2", #"tl_add("year", ?1) = ?2"#),
        ("price eq 1.5", #""price" = ?1"#),
        ("price lt 1.5", #"tl_decimal_compare("price", ?1) < 0"#),
        ("price eq score", #"tl_decimal_equal("price", "score") IS 1"#),
        ("year(releasedAt) eq 2000", #"tl_year("releasedAt" * 1000) = ?1"#),
        ("releasedAt ge 2026-11-20T20:32:22.404Z", #""releasedAt" >= ?1"#),
        ("releasedAt ge 2026-11-20T20:32:22.404500Z", #""releasedAt" > ?1"#),
        ("releasedAt lt 2026-11-20T20:32:22.404500Z", #""releasedAt" <= ?1"#),
        ("releasedAt eq 2026-11-20T20:32:22.404500Z", "0"),
        ("releasedAt ne 2026-11-20T20:32:22.404500Z", "1"),
        ("rating gt 'Unrated'", #""rating" IN (?1, ?2)"#),
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
                == #"("updatedAt", "id") > (?1, ?2)"#
        )
        #expect(keyset([], ["x"]) == #""id" > ?1"#)
        #expect(
            keyset([SortKey(column: "year", ascending: false)], [5, "x"])
                == #""year" < ?1 OR "year" IS NULL OR ("year" = ?2 AND "id" > ?3)"#
        )
        #expect(
            keyset([SortKey(column: "year")], [nil, "x"])
                == #""year" IS NOT NULL OR ("year" IS NULL AND "id" > ?1)"#
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
