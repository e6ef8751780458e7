// Delta links: the changes since a list, in commit order.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

/// A device that stores the rows of a list and of the deltas after it.
struct DeltaPuller {
    let server: TestServer
    var headers: HTTPFields = [:]
    /// The rows by id.
    private(set) var rows: [String: String] = [:]
    private(set) var link: String?
    private(set) var reported: [String] = []
    private(set) var requests = 0

    init(_ server: TestServer, headers: HTTPFields = [:]) {
        self.server = server
        self.headers = headers
    }

    /// Lists all rows, or continues from the last link; `between` runs after each page.
    mutating func pull(
        _ query: String = "",
        between: (Int) async throws -> Void = { _ in }
    ) async throws {
        var target = link ?? query
        var fields = headers
        if link == nil {
            rows = [:]
            fields.append("Prefer", "odata.track-changes")
        }
        reported = []
        while true {
            let page = await server.send("GET", "/tables/TodoItem?" + target, headers: fields)
            requests += 1
            try #require(page.status == 200, "\(target): \(page.text)")
            for row in page.rows { try take(row) }
            try await between(requests)
            if let next = page.row["nextLink"] as? String {
                #expect(page.deltaLink == nil)
                target = next
                continue
            }
            let end = try #require(page.deltaLink, "\(page.text)")
            link = end
            return
        }
    }

    private mutating func take(_ row: [String: Any]) throws {
        let id = try #require(row["id"] as? String)
        reported.append(id)
        if let removed = row["@removed"] as? [String: Any] {
            #expect(row.count == 2 && removed.count == 1)
            reported[reported.count - 1] += " " + (removed["reason"] as? String ?? "?")
            rows[id] = nil
        } else {
            #expect(row["deleted"] as? Bool != true)
            rows[id] = row["version"] as? String
        }
    }

    /// The rows of a new list, by id.
    func fresh(_ query: String = "") async throws -> [String: String] {
        var result: [String: String] = [:]
        var target: String? = query
        while let page = target {
            let answer = await server.send("GET", "/tables/TodoItem?" + page, headers: headers)
            try #require(answer.status == 200, "\(answer.text)")
            for row in answer.rows {
                result[try #require(row["id"] as? String)] = row["version"] as? String
            }
            target = answer.row["nextLink"] as? String
        }
        return result
    }
}

@Suite struct DeltaTests {
    private static let tracked: HTTPFields = ["Prefer": "odata.track-changes"]

    private static func write(_ server: TestServer, _ id: String, _ members: String = "") async {
        let answer = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"\#(id)"\#(members.isEmpty ? "" : "," + members)}"#
        )
        #expect(answer.status == 201, "\(answer.text)")
    }

    private static func patch(_ server: TestServer, _ id: String, _ members: String) async {
        let answer = await server.send("PATCH", "/tables/TodoItem/\(id)", "{\(members)}")
        #expect(answer.status == 200, "\(answer.text)")
    }

    @Test(
        "A list with the track-changes preference ends in a delta link",
        arguments: ["odata.track-changes", "track-changes", "maxpagesize=5, Track-Changes"]
    )
    func listsWithThePreferenceEndInALink(_ preference: String) async throws {
        let server = try await TestServer()
        await Self.write(server, "a")
        let list = await server.send("GET", "/tables/TodoItem", headers: ["Prefer": preference])
        #expect(list.status == 200 && list.deltaLink != nil)
        let applied = try #require(list.headers["Preference-Applied"])
        #expect(
            applied.contains(preference.contains("odata") ? "odata.track-changes" : "track-changes")
        )
        #expect(applied.contains("maxpagesize=5") == preference.contains("maxpagesize"))
        let plain = await server.send("GET", "/tables/TodoItem")
        #expect(plain.deltaLink == nil && plain.row["@odata.deltaLink"] == nil)
        #expect(plain.headers["Preference-Applied"] == nil)
    }

    @Test(
        "The server knows the table clock, so a delta without changes needs no read",
        .enabled(if: TestServer.usesSQLite, "Other stores are always read")
    )
    func nothingNewIsAnsweredWithoutARead() async throws {
        let server = try await TestServer()
        await Self.write(server, "a")
        let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
        let link = "/tables/TodoItem?" + (try #require(list.deltaLink))
        await server.store.stop()
        #expect(await server.send("GET", "/tables/TodoItem").status == 503)
        let same = await server.send("GET", link)
        #expect(same.status == 200 && same.rows.isEmpty, "\(same.text)")
        #expect(same.deltaLink == list.deltaLink && same.body.count < 400)
    }

    @Test("A delta reports changes in commit order") func changesAreInCommitOrder() async throws {
        let server = try await TestServer()
        for id in ["a", "b", "c", "d"] { await Self.write(server, id) }
        var puller = DeltaPuller(server)
        try await puller.pull()
        #expect(puller.reported == ["a", "b", "c", "d"])
        await Self.patch(server, "c", #""text":"new""#)
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        await Self.write(server, "A")
        await Self.patch(server, "b", #""rank":1"#)
        await Self.patch(server, "c", #""rank":2"#)
        try await puller.pull()
        #expect(puller.reported == ["a deleted", "A", "b", "c"])
        #expect(puller.rows == (try await puller.fresh()))
        let link = puller.link
        try await puller.pull()
        #expect(puller.reported.isEmpty && puller.link == link)
    }

    @Test("A delta reports a row that no longer matches the filter as removed")
    func rowsThatLeaveTheFilterAreRemoved() async throws {
        let server = try await TestServer()
        let filter = "$filter=complete eq false&$select=id,text,version"
        for id in ["a", "b", "c"] { await Self.write(server, id) }
        await Self.write(server, "done", #""complete":true"#)
        var puller = DeltaPuller(server)
        try await puller.pull(filter)
        #expect(puller.reported == ["a", "b", "c"])
        await Self.patch(server, "a", #""complete":true"#)
        await Self.patch(server, "done", #""text":"still""#)
        _ = await server.send("DELETE", "/tables/TodoItem/b")
        await Self.write(server, "e")
        try await puller.pull()
        #expect(puller.reported == ["a changed", "done changed", "b deleted", "e"])
        let page = await server.send("GET", "/tables/TodoItem?" + (puller.link ?? ""))
        #expect(page.status == 200)
        #expect(puller.rows == (try await puller.fresh(filter)))
        await Self.patch(server, "done", #""complete":false"#)
        try await puller.pull()
        #expect(puller.reported == ["done"])
    }

    @Test("The selection of a list applies to its deltas")
    func aSelectionAppliesToChanges() async throws {
        let server = try await TestServer()
        await Self.write(server, "a")
        let list = await server.send(
            "GET",
            "/tables/TodoItem?$select=text",
            headers: Self.tracked
        )
        await Self.patch(server, "a", #""text":"x""#)
        _ = await server.send("GET", "/tables/TodoItem")
        let page = await server.send("GET", "/tables/TodoItem?" + (list.deltaLink ?? ""))
        #expect(page.text.hasPrefix(#"{"items":[{"text":"x"}],"#))
    }

    @Test("The first list with change tracking contains no tombstones")
    func aFirstListHasNoTombstones() async throws {
        let server = try await TestServer()
        await Self.write(server, "a")
        await Self.write(server, "b")
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        let query = "/tables/TodoItem?__includeDeleted=true"
        let plain = await server.send("GET", query)
        #expect(plain.ids == ["a", "b"])
        let tracked = await server.send("GET", query, headers: Self.tracked)
        #expect(tracked.ids == ["b"])
        #expect(await server.send("GET", query).ids == ["a", "b"])
        _ = await server.send("DELETE", "/tables/TodoItem/b")
        let changes = await server.send("GET", "/tables/TodoItem?" + (tracked.deltaLink ?? ""))
        #expect(
            changes.text.hasPrefix(#"{"items":[{"@removed":{"reason":"deleted"},"id":"b"}],"#)
        )
    }

    /// `$top` limits a page, not the list.
    @Test(
        "A tracked list and its deltas are complete despite writes between pages",
        arguments: [
            "$top=2", "$top=2&$orderby=rank desc,text", "$count=true", "$orderby=updatedAt",
        ]
    )
    func pagesWithWritesInBetween(_ query: String) async throws {
        let server = try await TestServer([
            TableDefinition("TodoItem", columns: TestServer.todo.schema.columns, pageSize: 3)
        ])
        for id in 0..<10 { await Self.write(server, "r\(id)", #""rank":\#(id % 3)"#) }
        var puller = DeltaPuller(server)
        let writes: (Int) async throws -> Void = { page in
            await Self.patch(server, "r\(page * 7 % 5)", #""rank":\#(page)"#)
            await Self.write(server, "n\(page)")
            if page % 2 == 0 { _ = await server.send("DELETE", "/tables/TodoItem/n\(page - 1)") }
        }
        var budget = 6
        for _ in 0..<4 {
            try await puller.pull(query) { page in
                guard budget > 0 else { return }
                budget -= 1
                try await writes(page)
            }
            budget = 4
        }
        budget = 0
        try await puller.pull(query)
        #expect(puller.rows == (try await puller.fresh()))
    }

    @Test("The count of a delta is the number of changes that remain")
    func countsAreForChanges() async throws {
        let server = try await TestServer()
        for id in ["a", "b", "c"] { await Self.write(server, id) }
        let list = await server.send("GET", "/tables/TodoItem?$count=true", headers: Self.tracked)
        #expect(list.row["count"] as? Int == 3)
        let link = "/tables/TodoItem?" + (list.deltaLink ?? "")
        #expect(await server.send("GET", link).row["count"] as? Int == 0)
        for id in ["a", "b"] { await Self.patch(server, id, #""rank":1"#) }
        _ = await server.send("DELETE", "/tables/TodoItem/c")
        let first = await server.send("GET", link, headers: ["Prefer": "maxpagesize=1"])
        #expect(first.row["count"] as? Int == 3 && first.rows.count == 1)
        let next = first.row["nextLink"] as? String ?? ""
        #expect(await server.send("GET", "/tables/TodoItem?" + next).row["count"] as? Int == 2)
    }

    @Test(
        "The preference is not applied to a list whose changes cannot be tracked",
        arguments: [
            "$filter=updatedAt gt now()", "$orderby=now()", "$skip=1", "$top=0",
        ]
    )
    func preferencesThatAreNotApplied(_ query: String) async throws {
        let server = try await TestServer()
        for id in ["a", "b", "c"] { await Self.write(server, id) }
        _ = await server.send("DELETE", "/tables/TodoItem/c")
        for extra in ["", "&__includeDeleted=true"] {
            let target = "/tables/TodoItem?" + query + extra
            let tracked = await server.send("GET", target, headers: Self.tracked)
            #expect(tracked.headers["Preference-Applied"] == nil)
            #expect(tracked.body == (await server.send("GET", target)).body)
        }
        let classic = await server.send(
            "GET",
            "/tables/TodoItem",
            classic: true,
            headers: Self.tracked
        )
        #expect(classic.ids == ["a", "b"] && classic.headers["Preference-Applied"] == nil)
    }

    @Test("A modified delta link works, or is rejected with 400 or 410")
    func modifiedLinksAreHarmless() async throws {
        let server = try await TestServer()
        await Self.write(server, "a")
        let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
        let link = try #require(list.deltaLink)
        let token = String(try #require(link.split(separator: "=").last))
        let good = try #require(DeltaToken(token))
        func status(_ token: String, _ more: String = "") async -> (Int, String?) {
            let target = "/tables/TodoItem?$deltatoken=" + token + more
            let answer = await server.send("GET", target)
            return (answer.status, answer.code)
        }
        #expect(await status(token) == (200, nil))
        for wrong in [
            "", "x", "A", token + "A", token + "=", String(token.dropLast()), "AAAA",
            String(repeating: "A", count: 46), String(repeating: "_", count: 46),
            token.replacing("A", with: "%00"), token + "&$deltatoken=" + token,
            String(repeating: "A", count: 5000),
        ] {
            #expect(await status(wrong).0 == 400, "\(wrong.prefix(60))")
        }
        for query in ["&$skip=1", "&$skiptoken=WyJhIl0", "&$filter=rank eq now()", "&$top=0"] {
            // Also without changes.
            let current = try #require(
                await server.send("GET", "/tables/TodoItem?" + link).deltaLink
            )
            let last = String(try #require(current.split(separator: "=").last))
            #expect(await status(last, query).0 == 400, "\(query)")
            await Self.patch(server, "a", #""rank":1"#)
            #expect(await status(token, query).0 == 400, "\(query)")
        }
        func changed(_ change: (inout DeltaToken) -> Void) -> String {
            var token = good
            change(&token)
            return token.text
        }
        let other = Fingerprint(["other"])
        #expect(await status(changed { $0.scope.epoch = other }) == (410, "epochChanged"))
        #expect(await status(changed { $0.scope.schema = other }) == (410, "schemaChanged"))
        #expect(await status(changed { $0.scope.view = other }) == (410, "viewChanged"))
        #expect(await status(changed { $0.timestamp = .max }) == (410, "epochChanged"))
        #expect(await status(changed { $0.timestamp += 1_000_000_000 }) == (410, "epochChanged"))
        #expect(await status(changed { $0.timestamp = 0 }) == (200, nil))
        for phase in [DeltaToken.Phase.list] {
            #expect(await status(changed { $0.phase = phase }) == (200, nil))
            #expect(
                await status(
                    changed {
                        $0 = DeltaToken(
                            phase,
                            DeltaScope(epoch: other, schema: other, view: other),
                            timestamp: 0
                        )
                    }
                )
                    == (410, "epochChanged")
            )
        }
        // Every single bit.
        let newest = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
        let newestLink = try #require(newest.deltaLink?.split(separator: "=").last)
        let clock = try #require(DeltaToken(String(newestLink))).timestamp
        let bytes = try #require(Base64URL.decode(token.utf8))
        for bit in 0..<bytes.count * 8 {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            let text = Base64URL.encode(flipped)
            // An earlier time is valid. Another scope and a time in the future are gone, and no bit changes the phase
            // to the other one.
            let expected =
                DeltaToken(text).map { changed in
                    changed.scope == good.scope && changed.timestamp <= clock ? 200 : 410
                } ?? 400
            #expect(await status(text).0 == expected, "bit \(bit)")
        }
        let classic = await server.send("GET", "/tables/TodoItem?" + link, classic: true)
        #expect(classic.status == 400)
    }

    @Test("A delta link is rejected if reads of the table are disabled")
    func aLinkNeedsThePermission() async throws {
        let server = try await TestServer()
        let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
        let link = try #require(list.deltaLink)
        var table = TestServer.todo
        table.permissions.read = .disabled
        let closed = try await TestServer([table])
        #expect(await closed.send("GET", "/tables/TodoItem?" + link).status == 405)
    }

    @Test("A delta link from before the retention horizon is rejected with 410")
    func linksBeforeTheRetentionHorizonAreRejected() async throws {
        let clock = TestClock()
        var table = TestServer.todo
        table.tombstoneDays = 1
        let server = try await TestServer([table], clock: clock)
        for id in ["a", "b"] { await Self.write(server, id) }
        let old = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
        #expect(old.headers["Tideline-Horizon"] == nil)
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        let gone = await server.send("GET", "/tables/TodoItem/a?__includeDeleted=true")
        let young = await server.send("GET", "/tables/TodoItem", headers: Self.tracked)
        let link = "/tables/TodoItem?" + (old.deltaLink ?? "")
        let first = await server.send("GET", link)
        #expect(first.rows.count == 1 && first.headers["Tideline-Horizon"] == nil)
        clock.move(by: 2 * 86_400_000_000)
        try await server.purge()
        let expired = await server.send("GET", link)
        #expect(expired.status == 410 && expired.code == "deltaExpired")
        let reported = await server.send("GET", "/tables/TodoItem").headers["Tideline-Horizon"]
        #expect(reported != nil && expired.headers["Tideline-Horizon"] == reported)
        for target in [
            "/tables/TodoItem", "/tables/TodoItem?$count=true",
            "/tables/TodoItem?" + (young.deltaLink ?? ""),
            "/tables/TodoItem?" + (first.deltaLink ?? ""),
        ] {
            let answer = await server.send("GET", target)
            let horizon = try #require(answer.headers["Tideline-Horizon"])
            let deleted = try #require(gone.row["updatedAt"] as? String)
            #expect(answer.status == 200)
            #expect(horizon > deleted && horizon < "2027-01-16")
        }
        #expect(
            await server.send("GET", "/tables/TodoItem", classic: true).headers["Tideline-Horizon"]
                != nil
        )
    }

    @Test("A delta link survives a restart but not a new column")
    func linksAfterARestart() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let clock = TestClock()
            var table = TestServer.todo
            table.tombstoneDays = 1
            var server = try await TestServer([table], path: path, clock: clock)
            await Self.write(server, "a")
            await Self.write(server, "b")
            _ = await server.send("DELETE", "/tables/TodoItem/a")
            clock.move(by: 2 * 86_400_000_000)
            try await server.purge()
            var puller = DeltaPuller(server)
            try await puller.pull()
            let link = "/tables/TodoItem?" + (puller.link ?? "")
            await server.store.stop()
            server = try await TestServer([table], path: path, clock: clock)
            let same = await server.send("GET", link)
            #expect(same.status == 200 && same.rows.isEmpty)
            #expect(same.headers["Tideline-Horizon"] != nil)
            await Self.patch(server, "b", #""rank":3"#)
            #expect(await server.send("GET", link).ids == ["b"])
            await server.store.stop()
            table.schema.columns.append(ColumnDefinition("more", .string))
            server = try await TestServer([table], path: path, clock: clock)
            let changed = await server.send("GET", link)
            #expect(changed.status == 410 && changed.code == "schemaChanged")
            await server.store.stop()
        }
    }

    @Test("A delta without changes is small and returns the same link")
    func aDeltaWithoutChangesIsSmall() async throws {
        let server = try await TestServer()
        for id in 0..<5 { await Self.write(server, "\(id)") }
        let list = await server.send(
            "GET",
            "/tables/TodoItem?$filter=complete eq false and rank gt 3",
            headers: Self.tracked
        )
        let empty = await server.send("GET", "/tables/TodoItem?" + (list.deltaLink ?? ""))
        #expect(empty.rows.isEmpty && empty.deltaLink == list.deltaLink)
        #expect(empty.body.count < 400, "\(empty.text)")
    }
}
