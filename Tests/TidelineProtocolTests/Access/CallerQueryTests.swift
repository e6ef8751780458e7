// CallerQueryTests: how many concurrent queries a caller may have.

import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore

@Suite struct CallerQueryTests {
    private static func limits(_ count: Int) -> ServerLimits {
        var limits = ServerLimits()
        limits.callerQueries = count
        return limits
    }

    @Test("Each caller has a separate limit of concurrent queries")
    func eachCallerHasASeparateLimit() throws {
        let queries = try #require(CallerQueries(Self.limits(2)))
        #expect(queries.begin("a") && queries.begin("a"))
        #expect(!queries.begin("a"))
        #expect(queries.begin("b"))
        queries.end("a")
        #expect(queries.begin("a") && !queries.begin("a"))
        for _ in 0..<2 { queries.end("a") }
        #expect(queries.begin("a") && queries.begin("a") && !queries.begin("a"))
    }

    @Test("The number of a caller's concurrent queries is not limited by default")
    func nothingIsLimitedByDefault() {
        #expect(CallerQueries(ServerLimits()) == nil)
    }

    @Test("A query over the limit is rejected while writes and other callers' queries continue")
    func aQueryOverTheLimitIsRejected() async throws {
        let (entered, enter) = AsyncStream.makeStream(of: Void.self)
        let (released, release) = AsyncStream.makeStream(of: Void.self)
        let slow = Endpoint("GET", "/api/slow") { _ in
            enter.yield()
            for await _ in released { break }
            return ServerResponse(status: 204)
        }
        let server = try await TestServer(
            limits: Self.limits(1),
            authenticator: try Tokens.authenticator(),
            endpoints: [slow]
        )
        let (anna, bela) = (try Tokens.headers("anna"), try Tokens.headers("bela"))
        async let first = server.send("GET", "/api/slow", headers: anna)
        for await _ in entered { break }
        let others: [(String, String, String?)] = [
            ("GET", "/tables/TodoItem", nil), ("GET", "/tables/TodoItem/x", nil),
            ("GET", "/tables/TodoItem/$digest", nil), ("HEAD", "/tables/TodoItem", nil),
            ("POST", "/$batch", #"{"requests":[]}"#), ("POST", "/$batch/", #"{"requests":[]}"#),
            ("POST", "/%24batch", #"{"requests":[]}"#), ("POST", "/$Batch", #"{"requests":[]}"#),
        ]
        for (method, path, body) in others {
            let rejected = await server.send(method, path, body, headers: anna)
            #expect(rejected.status == 429, "\(method) \(path)")
            #expect(rejected.headers["Retry-After"] == "1")
        }
        #expect(await server.send("POST", "/tables/TodoItem", "{}", headers: anna).status == 201)
        #expect(await server.send("GET", "/tables/TodoItem", headers: bela).status == 200)
        let metrics = await server.send("GET", "/metrics").text
        #expect(metrics.contains("tideline_callers_limited_total \(others.count)"))
        release.yield()
        #expect(await first.status == 204)
        #expect(await server.send("GET", "/tables/TodoItem", headers: anna).status == 200)
        // A query that was rejected is counted as ended, too.
        #expect(await server.send("GET", "/tables/none", headers: anna).status == 404)
        #expect(await server.send("GET", "/tables/TodoItem", headers: anna).status == 200)
    }
}
