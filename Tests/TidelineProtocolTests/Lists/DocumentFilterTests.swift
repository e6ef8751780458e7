// Conditions on members and elements of JSON columns: lists, orders, delta links, digests and visibility.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct DocumentFilterTests {
    private static let bodies = [
        #"{"id":"1","title":"Kiel","address":{"city":"Kiel","floor":2,"geo":{"lat":54.5}},"tags":["urgent","a"]}"#,
        #"{"id":"2","title":"b","address":{"city":"kiel","floor":2.0,"geo":null},"tags":["Urgent",null,7]}"#,
        #"{"id":"3","title":"c","address":{"c\u0069ty":"K\u0069el","floor":"2"},"tags":[]}"#,
        #"{"id":"4","title":"d","address":null,"tags":null}"#,
        #"{"id":"5","title":"e","address":["Kiel"],"tags":{"urgent":true}}"#,
        #"{"id":"6","title":"f","address":{"city":"a\u0000b","floor":10},"tags":[["urgent"],{"n":"urgent"}]}"#,
    ]

    private static func server(_ hooks: TableHooks? = nil) async throws -> TestServer {
        let table = TableDefinition(
            "Job",
            columns: [
                ColumnDefinition("title", .string), ColumnDefinition("address", .json),
                ColumnDefinition("tags", .json),
            ]
        )
        let server = try await TestServer([table], hooks: hooks.map { ["Job": $0] } ?? [:])
        for body in bodies {
            #expect(await server.send("POST", "/tables/Job", body).status == 201)
        }
        return server
    }

    private static func target(_ option: String, _ text: String) -> String {
        "/tables/Job?\(option)=" + ODataWriter.percentEncoded(text)
    }

    private static let filters: [(String, [String])] = [
        ("address/city eq 'Kiel'", ["1", "3"]), ("address/city ne 'Kiel'", ["2", "4", "5", "6"]),
        ("address/city eq null", ["4", "5"]), ("ADDRESS/city eq title", ["1"]),
        ("address/floor eq 2", ["1", "2"]), ("address/floor gt 2", ["6"]),
        ("address/geo/lat eq 54.5 and title eq 'Kiel'", ["1"]),
        ("startswith(address/city,'a') or address/floor eq '2'", ["3", "6"]),
        ("tags/any(t:t eq 'urgent')", ["1"]),
        ("not tags/any(t:t eq 'urgent')", ["2", "3", "4", "5", "6"]),
        ("tags/any(t: t eq null or t eq 7)", ["2"]), ("tags/$count ge 2", ["1", "2", "6"]),
        ("tags/all(t: t ne null)", ["1", "3", "4", "5", "6"]),
        ("tags/any(t:t/n eq 'urgent')", ["6"]),
        ("tags/any(t:t/any(u:u eq 'urgent'))", ["6"]),
    ]

    @Test("A list has the rows whose documents match, for both generations", arguments: filters)
    func lists(filter: String, ids: [String]) async throws {
        let server = try await Self.server()
        for classic in [true, false] {
            let answer = await server.send("GET", Self.target("$filter", filter), classic: classic)
            #expect(answer.status == 200 && answer.ids.sorted() == ids, "\(answer.text)")
        }
        let paged = await server.send(
            "GET",
            Self.target("$filter", filter)
                + "&$orderby=cast(address/city,Edm.String)%20desc&$top=1&$count=true"
        )
        #expect(paged.row["count"] as? Int == ids.count, "\(paged.text)")
    }

    @Test("A list that is ordered by a JSON member is paged by the values of the member")
    func orders() async throws {
        let server = try await Self.server()
        for (order, ids) in [
            ("cast(address/city,Edm.String),id desc", ["5", "4", "3", "1", "6", "2"]),
            ("cast(address/floor,Edm.Decimal) desc", ["6", "1", "2", "3", "4", "5"]),
            ("tags/$count desc", ["2", "1", "6", "3", "4", "5"]),
        ] {
            var target: String? = Self.target("$orderby", order)
            var found: [String] = []
            while let next = target {
                let page = await server.send("GET", next, headers: ["Prefer": "maxpagesize=2"])
                try #require(page.status == 200, "\(order): \(page.text)")
                found += page.ids
                target = (page.row["nextLink"] as? String).map { "/tables/Job?" + $0 }
            }
            #expect(found == ids, "\(order)")
        }
        let untyped = await server.send("GET", Self.target("$orderby", "address/city"))
        #expect(untyped.status == 400 && untyped.text.contains("cast(address/city,Edm.String)"))
    }

    @Test(
        "A condition on a document that no document can have is rejected",
        arguments: [
            "title/city eq 'a'", "address/city", "tags/any(t)", "tags/any(t:title/any(u:u eq t))",
            "tags/some(t:t eq 1)", "address/", "address eq 'a'", "tags/any(t:t eq 1) eq",
        ]
    )
    func rejects(filter: String) async throws {
        let server = try await Self.server()
        for classic in [true, false] {
            let answer = await server.send("GET", Self.target("$filter", filter), classic: classic)
            // A member alone is a condition.
            #expect(answer.status == (filter == "address/city" ? 200 : 400), "\(answer.text)")
        }
    }

    @Test("A delta reports rows that begin or cease to match a condition on documents")
    func deltas() async throws {
        let server = try await Self.server()
        let track: HTTPFields = ["Prefer": "odata.track-changes"]
        let filter = Self.target("$filter", "tags/any(t:t eq 'urgent') and address/floor ge 2")
        let first = await server.send("GET", filter, headers: track)
        #expect(first.ids == ["1"])
        let edits = [
            ("1", #"{"tags":["a"]}"#), ("2", #"{"tags":["urgent"]}"#),
            ("3", #"{"tags":["urgent"]}"#),
        ]
        for (id, body) in edits {
            #expect(await server.send("PATCH", "/tables/Job/\(id)", body).status == 200)
        }
        let link = try #require(first.deltaLink)
        let changes = await server.send("GET", "/tables/Job?" + link)
        let isRemoved = changes.rows.map { $0["@removed"] != nil }
        #expect(
            changes.ids == ["1", "2", "3"] && isRemoved == [true, false, true],
            "\(changes.text)"
        )
        let digest = await server.send(
            "GET",
            "/tables/Job/$digest?$filter=" + ODataWriter.percentEncoded("tags/any(t:t eq 'urgent')")
        )
        #expect(digest.row["count"] as? Int == 2, "\(digest.text)")
    }

    @Test("A row filter may read documents")
    func visibility() async throws {
        var hooks = TableHooks()
        let isLimited = Atomic(false)
        hooks.rowFilter = { _ in
            guard isLimited.load(ordering: .relaxed) else { return nil }
            return "tags/any(t:t eq 'urgent') or address/city eq 'Kiel'"
        }
        let server = try await Self.server(hooks)
        isLimited.store(true, ordering: .relaxed)
        #expect(await server.send("GET", "/tables/Job").ids.sorted() == ["1", "3"])
        #expect(await server.send("GET", "/tables/Job/2").status == 404)
        #expect(await server.send("GET", "/tables/Job/3").status == 200)
    }
}
