// Delta links of callers that do not see all rows: a row that leaves their visibility filter is reported, and nothing
// else.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct DeltaViewTests {
    private static let tracked: HTTPFields = ["Prefer": "odata.track-changes"]

    private static func headers(_ user: String) throws -> HTTPFields {
        try Tokens.headers(user)
    }

    private static func send(
        _ server: TestServer,
        _ user: String,
        _ method: String,
        _ path: String,
        _ body: String? = nil
    ) async throws -> ServerResponse {
        await server.send(method, "/tables/TodoItem" + path, body, headers: try headers(user))
    }

    private static func owned(
        softDelete: Bool,
        changeScan: Int = ServerLimits().changeScan
    ) async throws -> TestServer {
        var table = TestServer.todo
        table.owner = "userId"
        table.softDelete = softDelete
        var limits = ServerLimits()
        limits.changeScan = changeScan
        return try await TestServer(
            [table],
            limits: limits,
            authenticator: try Tokens.authenticator()
        )
    }

    /// The rows of the caller's team, as the app's code filters them.
    private static func teamed(
        softDelete: Bool = true,
        fingerprint: String? = nil,
        changeScan: Int = ServerLimits().changeScan
    ) async throws -> TestServer {
        var limits = ServerLimits()
        limits.changeScan = changeScan
        var table = TestServer.todo
        table.softDelete = softDelete
        table.schema.columns.append(ColumnDefinition("team", .string))
        var hooks = TableHooks()
        hooks.rowFilter = { user in
            guard let user, user.id != "root" else { return nil }
            var filter: RowFilter = "team eq \(user.id) or team eq 'all'"
            filter.fingerprint = fingerprint
            return filter
        }
        return try await TestServer(
            [table],
            limits: limits,
            authenticator: try Tokens.authenticator(),
            hooks: ["TodoItem": hooks]
        )
    }

    @Test("A deleted row is reported to its owner only", arguments: [true, false])
    func deletesAreReportedToTheirOwnerOnly(softDelete: Bool) async throws {
        let server = try await Self.owned(softDelete: softDelete)
        for (user, id) in [("anna", "a"), ("anna", "c"), ("bert", "b")] {
            let created = try await Self.send(server, user, "POST", "", #"{"id":"\#(id)"}"#)
            #expect(created.status == 201)
        }
        var anna = DeltaPuller(server, headers: try Self.headers("anna"))
        var bert = DeltaPuller(server, headers: try Self.headers("bert"))
        try await anna.pull()
        try await bert.pull()
        #expect(try await Self.send(server, "anna", "DELETE", "/a").status == 204)
        #expect(try await Self.send(server, "bert", "DELETE", "/b").status == 204)
        try await anna.pull()
        try await bert.pull()
        #expect(anna.reported == ["a deleted"] && bert.reported == ["b deleted"])
        // The id of a row that was removed permanently is free for other owners.
        guard !softDelete else { return }
        #expect(try await Self.send(server, "anna", "DELETE", "/c").status == 204)
        #expect(try await Self.send(server, "bert", "POST", "", #"{"id":"c"}"#).status == 201)
        try await anna.pull()
        try await bert.pull()
        #expect(anna.reported == ["c deleted"] && bert.reported == ["c"])
        #expect(try await Self.send(server, "bert", "DELETE", "/c").status == 204)
        try await anna.pull()
        #expect(anna.reported.isEmpty)
    }

    @Test("The delta link of another caller is rejected with 410")
    func linksOfOtherCallersAreRejected() async throws {
        let server = try await Self.owned(softDelete: true)
        _ = try await Self.send(server, "anna", "POST", "", #"{"id":"a"}"#)
        var anna = DeltaPuller(server, headers: try Self.headers("anna"))
        try await anna.pull()
        let link = "?" + (anna.link ?? "")
        let other = try await Self.send(server, "bert", "GET", link)
        #expect(other.status == 410 && other.code == "viewChanged" && !other.text.contains("\"a\""))
        #expect(await server.send("GET", "/tables/TodoItem" + link).status == 401)
    }

    /// A server without the app's filter does not log the changes that the callers of the filter would need.
    @Test("A delta link from before a run without the row filter expires")
    func linksFromBeforeARunWithoutTheFilter() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            func open(isFiltered: Bool) async throws -> TestServer {
                var hooks = TableHooks()
                if isFiltered { hooks.rowFilter = { _ in "text eq 'red'" } }
                return try await TestServer(
                    path: directory + "/a.db",
                    clock: clock,
                    hooks: ["todoItem": hooks]
                )
            }
            var server = try await open(isFiltered: true)
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"red"}"#)
            let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
            let link = "/tables/TodoItem?" + (try #require(list.deltaLink))
            await server.store.stop()
            server = try await open(isFiltered: false)
            let moved = await server.send("PATCH", "/tables/TodoItem/a", #"{"text":"blue"}"#)
            #expect(moved.status == 200)
            await server.store.stop()
            server = try await open(isFiltered: true)
            let late = await server.send("GET", link)
            #expect(late.status == 410 && late.code == "deltaExpired", "\(late.text)")
            #expect(late.headers["Tideline-Horizon"] != nil)
            let fresh = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
            #expect(fresh.ids.isEmpty)
            let next = "/tables/TodoItem?" + (try #require(fresh.deltaLink))
            await server.store.stop()
            // After a restart with the same code, no change is missing.
            server = try await open(isFiltered: true)
            #expect(await server.send("GET", next).status == 200)
            await server.store.stop()
        }
    }

    @Test(
        "A delta reports rows that enter or leave the row filter of a caller",
        arguments: [true, false]
    )
    func rowsThatLeaveAFilterInCodeAreReported(softDelete: Bool) async throws {
        let server = try await Self.teamed(softDelete: softDelete)
        func post(_ id: String, _ team: String) async throws {
            let body = #"{"id":"\#(id)","team":"\#(team)"}"#
            #expect(try await Self.send(server, "root", "POST", "", body).status == 201)
        }
        func move(_ id: String, _ team: String) async throws {
            let body = #"{"team":"\#(team)"}"#
            #expect(try await Self.send(server, "root", "PATCH", "/" + id, body).status == 200)
        }
        for (id, team) in [("a", "red"), ("b", "red"), ("c", "blue"), ("d", "all")] {
            try await post(id, team)
        }
        var red = DeltaPuller(server, headers: try Self.headers("red"))
        var blue = DeltaPuller(server, headers: try Self.headers("blue"))
        var root = DeltaPuller(server, headers: try Self.headers("root"))
        try await red.pull()
        try await blue.pull()
        try await root.pull()
        #expect(red.rows.keys.sorted() == ["a", "b", "d"])
        try await move("a", "blue")
        try await move("d", "nobody")
        try await move("d", "still nobody")
        try await move("c", "blue")
        #expect(try await Self.send(server, "red", "DELETE", "/b").status == 204)
        try await post("e", "nobody")
        try await move("e", "never seen")
        try await red.pull()
        try await blue.pull()
        try await root.pull()
        #expect(Set(red.reported) == ["a changed", "d changed", "b deleted"])
        #expect(Set(blue.reported) == ["a", "d changed", "c"])
        for puller in [red, blue, root] { #expect(puller.rows == (try await puller.fresh())) }
        // The row leaves the filter and returns.
        try await move("a", "red")
        try await move("a", "blue")
        try await red.pull()
        #expect(red.reported == ["a changed"])
        try await move("a", "red")
        try await red.pull()
        #expect(red.reported == ["a"])
    }

    @Test("A delta link works only with the row filter that it was created with")
    func aFilterInCodeHasAFingerprint() async throws {
        let server = try await Self.teamed()
        var red = DeltaPuller(server, headers: try Self.headers("red"))
        try await red.pull()
        let link = "?" + (red.link ?? "")
        #expect(try await Self.send(server, "red", "GET", link).status == 200)
        #expect(try await Self.send(server, "root", "GET", link).code == "viewChanged")
    }

    @Test("The fingerprint of a row filter is its text unless the code sets another one")
    func fingerprints() async throws {
        let filter = Mutex<RowFilter>("rank eq 0")
        var hooks = TableHooks()
        hooks.rowFilter = { _ in filter.withLock { $0 } }
        let server = try await TestServer(hooks: ["TodoItem": hooks])
        /// Returns the status of a delta link for one filter that is followed with the other, and its error code.
        func follows(
            _ one: (RowFilter, String?),
            _ other: (RowFilter, String?)
        ) async -> String {
            func set(_ view: (RowFilter, String?)) {
                filter.withLock { filter in
                    filter = view.0
                    filter.fingerprint = view.1
                }
            }
            set(one)
            let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
            set(other)
            let answer = await server.send("GET", "/tables/TodoItem?" + (list.deltaLink ?? "x"))
            return "\(answer.status) \(answer.code ?? "")"
        }
        let rejected = "410 viewChanged"
        #expect(await follows(("rank eq \(1)", nil), ("rank eq \(1)", nil)) == "200 ")
        #expect(await follows(("rank eq \(1)", nil), ("rank eq \(2)", nil)) == rejected)
        #expect(await follows(("rank eq \(1)", "v1"), ("rank eq \(2)", "v1")) == "200 ")
        #expect(await follows(("rank eq \(1)", "v1"), ("rank eq \(1)", "v2")) == rejected)
        #expect(await follows(("rank eq \(1)", "rank eq 1"), ("rank eq \(1)", nil)) == rejected)
    }

    @Test("A list whose row filter depends on the time gets no delta link")
    func filtersThatUseTheTime() async throws {
        var hooks = TableHooks()
        hooks.rowFilter = { _ in "updatedAt le now()" }
        let server = try await TestServer(hooks: ["TodoItem": hooks])
        let list = await server.send(
            "GET",
            "/tables/TodoItem?__includeDeleted=true",
            headers: Self.tracked
        )
        #expect(list.status == 200 && list.deltaLink == nil)
        #expect(list.headers["Preference-Applied"] == nil)
    }

    @Test("The change log is purged after its retention, and older delta links expire")
    func logsArePurgedAfterTheirRetention() async throws {
        let clock = TestClock()
        var table = TestServer.todo
        table.softDelete = false
        var limits = ServerLimits()
        limits.changeDays = 2
        let server = try await TestServer([table], clock: clock, limits: limits)
        for id in ["a", "b"] {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        var puller = DeltaPuller(server)
        try await puller.pull()
        let link = "/tables/TodoItem?" + (puller.link ?? "")
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        clock.move(by: 86_400_000_000)
        _ = await server.send("DELETE", "/tables/TodoItem/b")
        try await server.purge()
        try await puller.pull()
        #expect(puller.reported == ["a deleted", "b deleted"])
        clock.move(by: 86_400_000_000 + 60_000_000)
        try await server.purge()
        let expired = await server.send("GET", link)
        #expect(expired.status == 410 && expired.code == "deltaExpired")
        let last = await server.send("GET", "/tables/TodoItem?" + (puller.link ?? ""))
        #expect(last.status == 200 && last.headers["Tideline-Horizon"] != nil)
    }

    @Test(
        "Each delta response checks a bounded number of changes that the caller may not see",
        arguments: [true, false]
    )
    func aResponseChecksABoundedNumberOfWrites(softDelete: Bool) async throws {
        let server = try await Self.teamed(softDelete: softDelete, changeScan: 20)
        func post(_ id: String, _ team: String) async throws {
            let body = #"{"id":"\#(id)","team":"\#(team)"}"#
            #expect(try await Self.send(server, "root", "POST", "", body).status == 201)
        }
        for (id, team) in [("r1", "red"), ("r2", "red"), ("b", "blue")] {
            try await post(id, team)
        }
        var red = DeltaPuller(server, headers: try Self.headers("red"))
        try await red.pull()
        #expect(red.rows.keys.sorted() == ["r1", "r2"])
        // 200 log entries that red may not see, and as many rows after them.
        for number in 0..<200 {
            let body = #"{"rank":\#(number)}"#
            #expect(try await Self.send(server, "root", "PATCH", "/b", body).status == 200)
            try await post("b\(number)", "blue")
            if number == 100 { _ = try await Self.send(server, "red", "DELETE", "/r1") }
        }
        try await post("r3", "red")
        let link = "?$count=true&" + (red.link ?? "")
        let first = try await Self.send(server, "red", "GET", link)
        #expect(first.rows.isEmpty && first.row["nextLink"] is String)
        #expect(first.row["count"] is NSNull, "it does not look at all of them")
        let before = red.requests
        try await red.pull()
        #expect(red.reported == ["r1 deleted", "r3"])
        #expect((10...30).contains(red.requests - before), "\(red.requests - before) pages")
        let last = try await Self.send(server, "red", "GET", "?$count=true&" + (red.link ?? ""))
        #expect(last.row["count"] as? Int == 0 && last.row["nextLink"] is NSNull)
    }

    @Test(
        "A caller that follows delta links has the same rows as a new list",
        arguments: [1, 2, 3, 4, 5, 6]
    )
    func followingLinksGivesTheRowsOfAList(_ seed: UInt64) async throws {
        var chance = SeededChance(seed)
        let isSoft = seed % 2 == 0
        let isOwned = seed % 3 == 0
        // Even if each response checks almost nothing.
        let scan = seed > 3 ? Int(seed) - 3 : ServerLimits().changeScan
        let server =
            try await isOwned
            ? Self.owned(softDelete: isSoft, changeScan: scan)
            : Self.teamed(softDelete: isSoft, changeScan: scan)
        let users = isOwned ? ["anna", "bert"] : ["red", "blue", "root"]
        let filters = ["", "$filter=rank lt 3", "$filter=complete eq false&$orderby=text desc"]
        var pullers: [(query: String, puller: DeltaPuller)] = []
        for user in users {
            for filter in filters {
                let puller = DeltaPuller(server, headers: try Self.headers(user))
                pullers.append((filter + "&$top=\(1 + chance.below(4))", puller))
            }
        }
        func write() async throws {
            let user = users[chance.below(users.count)]
            let id = "r\(chance.below(12))"
            let team = ["red", "blue", "all", "none"][chance.below(4)]
            let members =
                #""rank":\#(chance.below(6)),"complete":\#(chance.below(2) == 0)"#
                + (isOwned ? "" : #","team":"\#(team)""#)
            switch chance.below(6) {
            case 0, 1:
                _ = try await Self.send(server, user, "POST", "", "{\"id\":\"\(id)\",\(members)}")
            case 2: _ = try await Self.send(server, user, "DELETE", "/" + id)
            case 3:
                _ = try await Self.send(server, user, "PATCH", "/" + id, #"{"deleted":false}"#)
            default: _ = try await Self.send(server, user, "PATCH", "/" + id, "{\(members)}")
            }
        }
        for _ in 0..<12 {
            for _ in 0..<chance.below(12) { try await write() }
            for index in pullers.indices where chance.below(3) > 0 {
                var budget = 3
                try await pullers[index].puller.pull(pullers[index].query) { _ in
                    guard budget > 0 else { return }
                    budget -= 1
                    try await write()
                }
            }
        }
        for index in pullers.indices {
            let query = pullers[index].query
            try await pullers[index].puller.pull(query)
            // Without the page limit, which would limit the list here.
            let whole = query.split(separator: "&").filter { !$0.hasPrefix("$top") }
            let fresh = try await pullers[index].puller.fresh(whole.joined(separator: "&"))
            #expect(pullers[index].puller.rows == fresh, "seed \(seed), \(query)")
        }
    }
}

/// Random numbers from a seed.
struct SeededChance {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func below(_ bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(truncatingIfNeeded: state >> 33) % bound
    }
}
