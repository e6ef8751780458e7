// Lists: response formats, links, and pages that lose no row while rows are edited.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct ListTests {
    private func filled(
        _ count: Int,
        limits: ServerLimits = ServerLimits()
    ) async throws -> TestServer {
        let server = try await TestServer(limits: limits)
        for index in 0..<count {
            let id = String(1000 + index)
            let body = #"{"id":"\#(id)","rank":\#(index % 3),"complete":\#(index % 2 == 0)}"#
            _ = await server.send("POST", "/tables/TodoItem", body)
        }
        return server
    }

    /// The target of a classic `Link` or a datasync `nextLink`.
    private func next(_ answer: ServerResponse) -> String? {
        if let link = answer.headers["Link"] {
            guard link.hasPrefix("http://example.test:8080/"), link.hasSuffix("; rel=next"),
                !link.dropLast(10).contains(";")
            else { return nil }
            return String(link.dropFirst("http://example.test:8080".count).dropLast(10))
        }
        guard let link = answer.row["nextLink"] as? String else { return nil }
        return link.hasPrefix("/") ? link : "/tables/TodoItem?" + link
    }

    @Test("A classic list is an array, or an object if the caller requests a count")
    func classicResponses() async throws {
        let server = try await filled(3)
        let array = await server.send("GET", "/tables/TodoItem", classic: true)
        #expect(array.ids == ["1000", "1001", "1002"])
        #expect(array.headers["Link"] == nil)
        let counted = await server.send(
            "GET",
            "/tables/TodoItem?$inlinecount=allpages&$top=1",
            classic: true
        )
        #expect(counted.row["count"] as? Int == 3)
        #expect(counted.ids == ["1000"])
        let empty = await server.send("GET", "/tables/TodoItem?$filter=rank eq 9", classic: true)
        #expect(empty.text == "[]")
    }

    @Test("A datasync list is an object with items, a count and a next link")
    func datasyncResponses() async throws {
        let server = try await filled(3)
        let empty = await server.send("GET", "/tables/TodoItem?$filter=rank eq 9")
        #expect(empty.text == #"{"items":[],"count":null,"nextLink":null}"#)
        let counted = await server.send("GET", "/tables/TodoItem?$count=false&$top=1&$skip=1")
        #expect(counted.row["count"] as? Int == 3)
        #expect(counted.row["nextLink"] is NSNull)
        #expect(counted.ids == ["1001"])
        let some = await server.send("GET", "/tables/TodoItem?$select=rank,ID&$top=1")
        #expect(some.text.hasPrefix(#"{"items":[{"rank":0,"id":"1000"}],"#))
    }

    @Test(
        "The caller chooses the page size of a datasync list, up to the maximum",
        arguments: [
            ("odata.maxpagesize=3", 3, "odata.maxpagesize=3"),
            ("MaxPageSize=120", 110, "maxpagesize=120"),
            ("return=minimal, maxpagesize = \"4\";a=b, maxpagesize=9", 4, "maxpagesize=4"),
            ("maxpagesize=900", 110, "maxpagesize=500"),
            ("maxpagesize=0, odata.maxpagesize=", 100, nil),
        ]
    )
    func theCallerChoosesThePageSize(prefer: String, rows: Int, applied: String?) async throws {
        var table = TestServer.todo
        table.maxTop = 500
        let server = try await TestServer([table])
        for index in 0..<110 {
            _ = await server.send("POST", "/tables/TodoItem", #"{"rank":\#(index)}"#)
        }
        let headers: HTTPFields = ["Prefer": prefer]
        let page = await server.send("GET", "/tables/TodoItem", headers: headers)
        #expect(page.ids.count == rows)
        #expect(page.headers["Preference-Applied"] == applied)
        #expect((next(page) == nil) == (rows == 110))
        let few = await server.send("GET", "/tables/TodoItem?$top=2", headers: headers)
        #expect(few.ids.count == 2)
        let classic = await server.send("GET", "/tables/TodoItem", classic: true, headers: headers)
        #expect(classic.ids.count == 50)
        #expect(classic.headers["Preference-Applied"] == nil)
    }

    @Test(
        "The next links of a list lead through all its rows",
        arguments: [true, false],
        [
            "$orderby=rank desc,complete", "$orderby=updatedAt", "$filter=complete eq true", "",
            "$orderby=rank add 1 desc&x=%26;", "$orderby=text", "$orderby=id desc", "$skip=7",
        ]
    )
    func linksLeadThroughAllRows(_ isClassic: Bool, _ query: String) async throws {
        let server = try await filled(230)
        let all = await server.send("GET", "/tables/TodoItem?$top=1000&\(query)", classic: true).ids
        var target: String? = "/tables/TodoItem?" + query
        var ids: [String] = []
        var pages = 0
        while let current = target {
            let answer = await server.send("GET", current, classic: isClassic)
            #expect(answer.status == 200, "\(answer.text)")
            ids += answer.ids
            pages += 1
            target = next(answer)
        }
        #expect(ids == all)
        #expect(pages == (all.count + (isClassic ? 49 : 99)) / (isClassic ? 50 : 100))
    }

    @Test("A list whose limit exceeds the page size is paged")
    func aTopAboveThePageSizeIsPaged() async throws {
        let server = try await filled(230)
        let first = await server.send("GET", "/tables/TodoItem?$top=150&$skip=10")
        #expect(first.ids.count == 100)
        let target = try #require(next(first))
        #expect(target.contains("%24top=50") && !target.contains("skip="))
        let second = await server.send("GET", target)
        #expect(second.ids.count == 50)
        #expect(second.ids.last == "1159")
        #expect(next(second) == nil)
        let path = await server.send(
            "GET",
            "/tables/TodoItem",
            headers: ["X-ZUMO-Options": "nextLink=path"]
        )
        #expect((path.row["nextLink"] as? String)?.hasPrefix("/tables/TodoItem?") == true)
    }

    @Test("No row is lost when rows change between the pages of a list", arguments: [true, false])
    func noRowIsLostWhileRowsMove(_ isClassic: Bool) async throws {
        let server = try await filled(300)
        var target: String? = "/tables/TodoItem?$orderby=updatedAt"
        var seen: [String: String] = [:]
        var turn = 0
        while let current = target {
            let answer = await server.send("GET", current, classic: isClassic)
            for row in answer.rows {
                seen[row["id"] as? String ?? ""] = row["text"] as? String ?? ""
            }
            target = next(answer)
            // Rows of earlier and later pages move to the end of the order.
            if turn < 4, target != nil {
                for index in 0..<20 {
                    let id = 1000 + (index * 37 + turn * 11) % 300
                    _ = await server.send(
                        "PATCH",
                        "/tables/TodoItem/\(id)",
                        #"{"text":"\#(turn)"}"#
                    )
                }
            }
            turn += 1
        }
        #expect(seen.count == 300)
        let all = await server.send("GET", "/tables/TodoItem?$top=1000", classic: true)
        for row in all.rows {
            #expect(seen[row["id"] as? String ?? ""] == row["text"] as? String ?? "")
        }
    }

    @Test("A page ends at its byte limit") func aPageEndsAtItsByteLimit() async throws {
        var limits = ServerLimits()
        limits.pageBytes = 2000
        let server = try await filled(60, limits: limits)
        var target: String? = "/tables/TodoItem?$top=45"
        var ids: [String] = []
        while let current = target {
            let answer = await server.send("GET", current)
            #expect(answer.body.count < 2400)
            ids += answer.ids
            target = next(answer)
        }
        #expect(ids == (1000..<1045).map(String.init))
    }

    @Test("A list can be filtered by the version of a row")
    func versionsAreReturnedOnRequest() async throws {
        let server = try await filled(3)
        let version =
            await server.send("GET", "/tables/TodoItem/1001").row["version"] as? String ?? ""
        let encoded = version.replacing("+", with: "%2B").replacing("=", with: "%3D")
        let answer = await server.send("GET", "/tables/TodoItem?$filter=version eq '\(encoded)'")
        #expect(answer.ids == ["1001"])
    }

    @Test("The error for an invalid query option names the option and the position")
    func optionErrorsNameOptionAndPosition() async throws {
        let server = try await TestServer()
        let unknown = await server.send("GET", "/tables/TodoItem?$expand=x")
        #expect(unknown.error.contains("$expand") && unknown.error.contains("$filter"))
        let column = await server.send("GET", "/tables/TodoItem?$filter=rank eq 1 and nope eq 2")
        #expect(column.row["position"] as? Int == 14)
    }

    @Test("An empty list for an unknown column has the retention horizon, and runs the read hooks")
    func listsOfUnknownColumns() async throws {
        let clock = TestClock()
        let diary = Diary()
        var table = TestServer.todo
        table.tombstoneDays = 1
        var hooks = TableHooks()
        hooks.beforeRead = { _ in diary.write("before") }
        hooks.afterRead = { _, rows in diary.write("after \(rows)") }
        let server = try await TestServer(
            [table],
            dynamic: true,
            clock: clock,
            hooks: ["TodoItem": hooks]
        )
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
        clock.move(by: 2 * 86_400_000_000)
        try await server.purge()
        let known = await server.send("GET", "/tables/TodoItem")
        let unknown = await server.send("GET", "/tables/TodoItem?$filter=nope eq 1")
        #expect(unknown.status == 200 && unknown.rows.isEmpty, "\(unknown.text)")
        let horizon = unknown.headers["Tideline-Horizon"]
        #expect(horizon != nil && horizon == known.headers["Tideline-Horizon"])
        #expect(diary.take() == ["before", "after 0", "before", "after 0"])
    }

    @Test("A filter compares strings by their bytes")
    func queriesAreComparedByBytes() async throws {
        let server = try await TestServer()
        for (id, text) in [("one", "caf\u{E9}"), ("two", "cafe\u{301}"), ("three", "K")] {
            let body = #"{"id":"\#(id)","text":"\#(text)"}"#
            _ = await server.send("POST", "/tables/TodoItem", body)
        }
        for (text, id) in [
            ("caf\u{E9}", ["one"]), ("cafe\u{301}", ["two"]), ("K", ["three"]), ("\u{212A}", []),
        ] {
            let list = await server.send("GET", "/tables/TodoItem?$filter=text eq '\(text)'")
            #expect(list.ids == id)
        }
    }

    @Test("A cached query does not outlive the table definition that it was built from")
    func theSameQueryAfterATableChange() async throws {
        let server = try await TestServer(dynamic: true)
        let queries = [
            "$filter=rank eq null", "$filter=complete eq false", "$filter=color eq 'red'",
            "$filter=complete eq false&__includeDeleted=true",
        ]
        func counts() async -> [Int] {
            var counts: [Int] = []
            for query in queries {
                for _ in 0..<3 {
                    counts.append(await server.send("GET", "/tables/TodoItem?" + query).rows.count)
                }
            }
            return counts
        }
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","complete":false}"#)
        #expect(await counts() == [1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1])
        _ = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"b","complete":false,"color":"red"}"#
        )
        #expect(await counts() == [2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2])
        _ = await server.send("DELETE", "/tables/TodoItem/b")
        #expect(await counts() == [1, 1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 2])
        #expect(
            await server.send("GET", "/tables/TodoItem?$filter=complete eq false").rows.first?.keys
                .contains("color") == true
        )
    }
}
