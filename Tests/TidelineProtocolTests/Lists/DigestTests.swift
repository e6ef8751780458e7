// GET /tables/{table}/$digest: count and hash of the rows that a caller sees.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct DigestTests {
    private static func digest(
        _ server: TestServer,
        _ query: String = "",
        _ headers: HTTPFields = [:]
    )
        async throws -> ServerResponse
    {
        let target = "/tables/TodoItem/$digest" + (query.isEmpty ? "" : "?" + query)
        return await server.send("GET", target, headers: headers)
    }

    /// The expected response, computed from the rows of a list.
    private static func expected(_ rows: [[String: Any]]) -> (count: Int, digest: String) {
        let pairs = rows.compactMap { row -> (String, String)? in
            guard let id = row["id"] as? String, let version = row["version"] as? String else {
                return nil
            }
            return (id, version)
        }
        var bytes: [UInt8] = []
        for (id, version) in pairs.sorted(by: { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }) {
            bytes += Array(id.utf8) + [0] + Array(version.utf8) + [0x0A]
        }
        return (pairs.count, SHA256.hex(SHA256.hash(bytes)))
    }

    private static func check(
        _ answer: ServerResponse,
        _ rows: [[String: Any]],
        after: String? = nil,
        upTo: String? = nil
    ) throws {
        try #require(answer.status == 200, "\(answer.text)")
        func isIn(_ row: [String: Any], _ after: String?, _ upTo: String?) -> Bool {
            guard let id = row["id"] as? String else { return false }
            let isBehind = after.map { $0.utf8.lexicographicallyPrecedes(id.utf8) } ?? true
            let isPast = upTo.map { $0.utf8.lexicographicallyPrecedes(id.utf8) } ?? false
            return isBehind && !isPast
        }
        let whole = expected(rows.filter { isIn($0, after, upTo) })
        #expect(answer.row["count"] as? Int == whole.count)
        #expect(answer.row["digest"] as? String == whole.digest)
        let ranges = try #require(answer.row["ranges"] as? [[String: Any]])
        #expect(ranges.count == max(1, min(16, whole.count)))
        var last = after
        var counts: [Int] = []
        for (index, range) in ranges.enumerated() {
            #expect(range["after"] as? String == last)
            last = range["upTo"] as? String
            if index == ranges.count - 1 { #expect(last == upTo) } else { #expect(last != nil) }
            let part = expected(rows.filter { isIn($0, range["after"] as? String, last) })
            #expect(range["count"] as? Int == part.count)
            #expect(range["digest"] as? String == part.digest)
            counts.append(part.count)
        }
        #expect((counts.max() ?? 0) - (counts.min() ?? 0) <= 1)
    }

    private static func rows(
        _ server: TestServer,
        _ query: String = "",
        _ headers: HTTPFields = [:]
    )
        async -> [[String: Any]]
    {
        var fields = headers
        fields.append("Prefer", "maxpagesize=5000")
        return await server.send("GET", "/tables/TodoItem?" + query, headers: fields).rows
    }

    @Test(
        "The ranges of a digest are contiguous and match the rows of a list",
        arguments: [0, 1, 2, 15, 16, 17, 31, 33, 160, 1000]
    )
    func rangesAreContiguous(_ count: Int) async throws {
        let server = try await TestServer()
        for number in 0..<count {
            // Ids of several lengths and scripts; Swift's order differs from the order of bytes.
            let id = ["z", "Z", "\u{E9}", "\u{10FFFF}", "\u{FFFD}"][number % 5] + "\(number)"
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)","rank":\#(number)}"#)
        }
        for number in stride(from: 0, to: count, by: 9) where count > 20 {
            let id = ["z", "Z", "\u{E9}", "\u{10FFFF}", "\u{FFFD}"][number % 5] + "\(number)"
            let path = "/tables/TodoItem/" + PercentCoding.encode(id)
            #expect(await server.send("DELETE", path).status == 204)
        }
        let all = await Self.rows(server)
        let whole = try await Self.digest(server)
        try Self.check(whole, all)
        try Self.check(
            try await Self.digest(server, "$filter=rank lt 40"),
            await Self.rows(server, "$filter=rank lt 40")
        )
        // Requests each range, as a caller that searches for a difference does.
        for range in whole.row["ranges"] as? [[String: Any]] ?? [] {
            let after = range["after"] as? String
            let upTo = range["upTo"] as? String
            var query: [String] = []
            if let after { query.append("after=" + PercentCoding.encode(after)) }
            if let upTo { query.append("upTo=" + PercentCoding.encode(upTo)) }
            let part = try await Self.digest(server, query.joined(separator: "&"))
            try Self.check(part, all, after: after, upTo: upTo)
            #expect(part.row["digest"] as? String == range["digest"] as? String)
        }
    }

    @Test("A digest covers the rows of its caller only") func eachUserSeesTheirOwn() async throws {
        var table = TestServer.todo
        table.owner = "userId"
        let server = try await TestServer([table], authenticator: try Tokens.authenticator())
        for (user, ids) in [("anna", ["a", "c"]), ("bert", ["b"])] {
            for id in ids {
                let headers = try Tokens.headers(user)
                _ = await server.send(
                    "POST",
                    "/tables/TodoItem",
                    #"{"id":"\#(id)"}"#,
                    headers: headers
                )
            }
        }
        for user in ["anna", "bert", "nobody"] {
            let headers = try Tokens.headers(user)
            try Self.check(
                try await Self.digest(server, "", headers),
                await Self.rows(server, "", headers)
            )
        }
        #expect(try await Self.digest(server).status == 401)
    }

    @Test(
        "A digest with an invalid option is rejected with 400",
        arguments: [
            "$top=1", "$orderby=id", "$filter=", "$filter=nothing eq 1", "$filter=id eq",
            "after=", "upTo=", "after=a&after=b", "upTo=%22", "after=a/b", "$filter=a&$filter=b",
        ]
    )
    func invalidOptionsAreRejected(_ query: String) async throws {
        let answer = try await Self.digest(try await TestServer(), query)
        #expect(answer.status == 400 && !answer.error.isEmpty)
    }

    @Test("A digest is limited to the ids between its bounds") func bounds() async throws {
        let server = try await TestServer()
        for id in ["a", "b", "c"] {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        let all = await Self.rows(server)
        try Self.check(try await Self.digest(server, "AFTER=a&UPTO=b"), all, after: "a", upTo: "b")
        try Self.check(try await Self.digest(server, "after=c&upTo=a"), all, after: "c", upTo: "a")
        let answer = try await Self.digest(server, "x=1&__includeDeleted=true")
        #expect(answer.headers["Tideline-Epoch"] != nil)
        try Self.check(answer, all)
    }

    @Test("A digest cannot be written or inserted as a row") func digestIsNotARow() async throws {
        let server = try await TestServer()
        for method in ["PATCH", "PUT", "DELETE", "POST"] {
            let answer = await server.send(method, "/tables/TodoItem/$digest", "{}")
            #expect(answer.status == 405 && answer.headers["Allow"] == "GET, HEAD")
        }
        let insert = await server.send("POST", "/tables/TodoItem", #"{"id":"$digest"}"#)
        #expect(insert.status == 400)
        #expect(await server.send("GET", "/tables/Other/$digest").status == 404)
        let options = await server.send("OPTIONS", "/tables/TodoItem/$digest")
        #expect(options.headers["Allow"] == "GET, HEAD")
        #expect(await server.send("HEAD", "/tables/TodoItem/$digest").status == 200)
        var table = TestServer.todo
        table.permissions.read = .disabled
        let closed = try await TestServer([table])
        for method in ["GET", "HEAD", "PATCH", "DELETE"] {
            // A digest has none of the headers of a row.
            let answer = await closed.send(method, "/tables/TodoItem/$digest", nil)
            #expect(answer.status == 405 && answer.headers["Allow"] == "")
        }
        let closedOptions = await closed.send("OPTIONS", "/tables/TodoItem/$digest")
        #expect(closedOptions.headers["Allow"] == "")
    }
}
