// RendererTests: the SQL of filters, and SQLite's query plans for it.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite

@Suite struct RendererTests {
    @Test("Interpolated identifiers are quoted, and values are bound") func bindsAndQuotes() {
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

    @Test("A filter is rendered as SQLite's SQL with or without a table name", arguments: cases)
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

    @Test("An order is rendered with collations and with the ID as the last key")
    func rendersOrders() throws {
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

    @Test("A keyset is rendered as the condition for the rows after its values")
    func rendersKeysets() throws {
        let renderer = FilterRenderer(schema: CheckerTests.schema, dateUnit: .microseconds)
        func keyset(_ keys: [SortKey], _ values: [Value]) -> String {
            KeysetRenderer(renderer, order: keys).condition(after: values).text(for: .sqlite)
        }
        let timestamp = Value.date(Timestamp(microseconds: 5).date)
        #expect(
            keyset([SortKey(column: "updatedAt")], [timestamp, "x"])
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

    @Test(
        "A filter of a list or a pull uses its index",
        arguments: [
            "title eq 'a'", "title ge 'a' and title lt 'b'", "title in ('a','b')",
            "startswith(title,'a')", "startswith(title,'a') eq true and year gt 1", "title eq null",
            "title eq 'a' or title eq 'b'", "year gt 3 and title eq 'a' and isSeen",
        ]
    )
    func usesTheIndex(_ text: String) throws {
        let schema = CheckerTests.schema
        let index = #"CREATE INDEX byTitle ON t ("title")"#
        let table = try TestTable(schema, [], unit: .microseconds, indexes: [index])
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let filter = try FilterChecker(schema: schema).filter(parsed)
        let plan = try table.plan(table.renderer.condition(filter))
        #expect(plan.contains("SEARCH t USING INDEX byTitle"), "\(plan)")
    }

    @Test("A keyset uses the index of its order") func keysetUsesTheIndex() throws {
        let schema = CheckerTests.schema
        let index = #"CREATE INDEX byYear ON t ("year", "id")"#
        let table = try TestTable(schema, [], unit: .microseconds, indexes: [index])
        let keyset = KeysetRenderer(table.renderer, order: [SortKey(column: "year")])
        let plan = try table.plan(keyset.condition(after: [1, "x"]))
        #expect(plan.contains("SEARCH t USING COVERING INDEX byYear"), "\(plan)")
    }

    @Test(
        "A server compares dates by milliseconds and updatedAt exactly",
        arguments: [
            ("t eq 2026-01-02T03:04:05.123Z", #"("t" >= ? AND "t" < ?)"#),
            ("t gt 2026-01-02T03:04:05.123Z", #""t" >= ?"#),
            ("t lt 2026-01-02T03:04:05.123Z", #""t" < ?"#),
            ("t eq 2026-01-02T03:04:05.123456Z", "0"),
            ("t eq null", #""t" IS NULL"#),
            ("updatedAt gt 2026-01-02T03:04:05.123Z", #""updatedAt" > ?"#),
            (
                "t in (2026-01-02T03:04:05.123Z,2026-01-03T03:04:05.123Z)",
                #"(("t" >= ? AND "t" < ?) AND ("t" - ("t" % 1000 + 1000) % 1000) IN (?, ?))"#
            ),
        ]
    )
    func rendersInstantsOfAServer(_ text: String, _ expected: String) throws {
        let schema = TableSchema(name: "t", columns: [ColumnDefinition("t", .dateTime)])
        let parsed = try ODataParser.filter(text, dialect: .v4)
        let filter = try FilterChecker(schema: schema).filter(parsed)
        let renderer = FilterRenderer(schema: schema, dateUnit: .microseconds)
        #expect(renderer.condition(filter).text(for: .sqlite) == expected)
    }

    /// The statements of a page read only the page and its last millisecond.
    @Test("The statements of a page in date order use the index", arguments: [true, false])
    func windowsUseTheIndex(isAscending: Bool) throws {
        let schema = TableSchema(
            name: "t",
            columns: [
                ColumnDefinition("due", .dateTime),
                ColumnDefinition("made", .dateTime, nullable: false),
            ]
        )
        let table = try TestTable(
            schema,
            [],
            unit: .microseconds,
            indexes: ["CREATE INDEX byDue ON t (due)", "CREATE INDEX byMade ON t (made)"]
        )
        for column in ["due", "made"] {
            let order = [SortKey(column: column, ascending: isAscending)]
            let window = try #require(
                InstantWindow(table.renderer, order: order, indexes: [["due"], ["Made", "id"]])
            )
            let keyset = KeysetRenderer(table.renderer, order: order)
            let time = Value.date(Date(timeIntervalSince1970: 1_800_000_000))
            let begin = keyset.condition(after: [time, "x"])
            let probe = window.probe(" FROM t WHERE (\(begin))", after: 10)
            let index = column == "due" ? "byDue" : "byMade"
            let first = try table.query("EXPLAIN QUERY PLAN " + probe, column: 3)
            // The keyset of a descending order with nulls is three ranges of an index.
            if isAscending || column == "made" {
                #expect(!first.joined().contains("TEMP B-TREE"), "\(first)")
            }
            #expect(first.joined().contains("INDEX \(index)"), "\(first)")
            for mayBeNull in isAscending ? [false, true] : [true] {
                let bound = try #require(window.through(time, mayBeNull: mayBeNull))
                let plan = try table.plan(table.renderer.condition(bound))
                #expect(plan.contains("INDEX \(index)"), "\(plan)")
            }
        }
        let other = [SortKey(column: "due")]
        #expect(InstantWindow(table.renderer, order: other, indexes: [["made"]]) == nil)
        let updates = [SortKey(column: "updatedAt")]
        #expect(InstantWindow(table.renderer, order: updates, indexes: [["updatedAt"]]) == nil)
    }
}
