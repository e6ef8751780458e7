// PulledPage: the pages of all generations, and the forms of the Link header.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct PulledPageTests {
    private static let schema = TableSchema(
        name: "T",
        columns: [
            ColumnDefinition("amount", .decimal), ColumnDefinition("due", .dateTime),
            ColumnDefinition("key", .guid), ColumnDefinition("bytes", .binary),
            ColumnDefinition("size", .number), ColumnDefinition("count", .integer),
            ColumnDefinition("more", .json),
        ]
    )

    private func read(_ body: String, _ headers: HTTPFields = [:]) -> PulledPage? {
        PulledPage(
            TransportResponse(status: 200, headers: headers, body: Array(body.utf8)),
            schema: Self.schema
        )
    }

    /// A body, its ids, its count, its next link.
    static let pages: [(String, [String], Int?, String?)] = [
        ("[]", [], nil, nil),
        (#"[{"id":"a"},{"id":"b"}]"#, ["a", "b"], nil, nil),
        (#"{"results":[{"id":"a"}],"count":7}"#, ["a"], 7, nil),
        (#"{"items":[{"id":"a"}],"count":2,"nextLink":"n"}"#, ["a"], 2, "n"),
        (#"{"nextLink":null,"items":[]}"#, [], nil, nil),
        (#"{"value":[{"id":"a"}],"@odata.context":{"x":[1]}}"#, ["a"], nil, nil),
    ]

    @Test("A page is read from each of the response formats", arguments: pages)
    func pagesAreRead(body: String, ids: [String], count: Int?, next: String?) {
        let page = read(body)
        #expect(page?.rows.map(\.id) == ids)
        #expect(page?.count == count)
        #expect(page?.nextLink == next)
    }

    @Test(
        "A body that is not a page is rejected",
        arguments: [
            "", "{}", "null", "1", "\"a\"", "<html></html>", #"{"items":{}}"#, #"{"items":[1]}"#,
            #"{"items":[{"id":"a"}]"#, #"{"items":[]}x"#, #"[{"id":"a","id":"b"}]"#,
            #"{"items":[],"items":[]}"#, #"{"error":"no"}"#,
        ]
    )
    func otherBodiesAreNotPages(body: String) {
        #expect(read(body) == nil)
    }

    @Test("Values of a page get the types of their columns") func columnsGetTheirTypes() throws {
        let row = try #require(
            read(
                #"""
                [{"id":"a","amount":12.50,"due":"2026-11-20T20:32:22.4049Z",
                "key":"AB0C4D9E-0000-4000-8000-00000000000F","bytes":"AQI=","size":3,"count":4,
                "more":{"x": 1},"new":2,"updatedAt":"2026-01-01T00:00:00Z","deleted":true}]
                """#
            )
        ).rows[0]
        #expect(row["amount"] == .decimal(Decimal(string: "12.5")!))
        #expect(row["due"] == .date(Timestamp("2026-11-20T20:32:22.404Z")!.date))
        #expect(row["key"] == "ab0c4d9e-0000-4000-8000-00000000000f")
        #expect(row["bytes"] == .data(Data([1, 2])))
        #expect(row["size"] == .number(3))
        #expect(row["count"] == 4)
        #expect(row["more"] == .json(try JSON(#"{"x":1}"#)))
        #expect(row["new"] == 2)
        #expect(row["updatedAt"] == .date(Timestamp("2026-01-01T00:00:00Z")!.date))
        #expect(row["deleted"] == true)
    }

    @Test(
        "A value that does not fit its column's type is stored unchanged",
        arguments: [
            (#"{"id":"a","due":"tomorrow"}"#, "due", Value.string("tomorrow")),
            (#"{"id":"a","due":7}"#, "due", .integer(7)),
            (#"{"id":"a","amount":"12 euro"}"#, "amount", .string("12 euro")),
            (#"{"id":"a","amount":"12.5"}"#, "amount", .decimal(Decimal(string: "12.5")!)),
            (#"{"id":"a","bytes":"?"}"#, "bytes", .string("?")),
            (#"{"id":"a","count":"many"}"#, "count", .string("many")),
            (#"{"id":"a","count":1.5}"#, "count", .number(1.5)),
            (#"{"id":"a","key":{"x":1}}"#, "key", .json(JSON(checked: #"{"x":1}"#))),
        ]
    )
    func aValueOfAnotherTypeIsKept(json: String, column: String, expected: Value) {
        #expect(read("[\(json)]")?.rows[0][column] == expected)
    }

    @Test("A page summary has the number of rows and the latest update time")
    func theSummaryHasTheLatestTime() {
        let rows = [serverRow("a", 3), serverRow("b", 9), serverRow("c", 5), #"{"id":"d"}"#]
        let summary = read("[\(rows.joined(separator: ","))]")?.summary
        #expect(summary == PageSummary(rowCount: 4, latest: timestamp(9)))
        #expect(read("[]")?.summary == PageSummary(rowCount: 0, latest: nil))
    }

    /// A Link header and its next link.
    static let links: [(String, String?)] = [
        ("http://h/t?a=1; rel=next", "http://h/t?a=1"),
        ("http://h/t?a=1;rel=next", "http://h/t?a=1"),
        ("http://h/t?a=1; rel=\"next\"", "http://h/t?a=1"),
        ("http://h/t?a=x;y,z; rel=next", "http://h/t?a=x;y,z"),
        ("<http://h/t?a=1>; rel=next", "http://h/t?a=1"),
        ("<http://h/t?a=1>; rel=\"next\"", "http://h/t?a=1"),
        ("<http://h/t?a=1> ; Rel = \"Next\"", "http://h/t?a=1"),
        ("<http://h/t?a=x;y,z>; title=\"more\"; rel=next", "http://h/t?a=x;y,z"),
        ("<http://h/p>; rel=prev, <http://h/n>; rel=next", "http://h/n"),
        ("<http://h/n>; rel=\"next\", <http://h/p>; rel=\"prev\"", "http://h/n"),
        ("<http://h/n>; rel=\"last next\"", "http://h/n"),
        ("</t?a=1>; rel=next", "/t?a=1"),
        ("<http://h/n>; rel=prev", nil),
        ("<http://h/n>", nil),
        ("http://h/n", nil),
        ("http://h/n; rel=prev", nil),
        ("http://h/n; rel=nextdoor", nil),
        ("<http://h/n; rel=next", nil),
        ("; rel", nil),
        ("", nil),
    ]

    @Test("The next link is found in a Link header field", arguments: links)
    func theNextLinkIsFound(header: String, expected: String?) {
        #expect(PulledPage.nextLink(header) == expected)
    }

    @Test("The next link of the body takes precedence over the header field")
    func theBodysLinkTakesPrecedence() {
        let header: HTTPFields = ["Link": "http://h/2; rel=next"]
        #expect(read("[]", header)?.nextLink == "http://h/2")
        #expect(read(#"{"items":[],"nextLink":"n"}"#, header)?.nextLink == "n")
    }
}
