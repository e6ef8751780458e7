// Endpoints under /api: who may call them, what they may do, and how they respond.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore

private struct Broken: Error {}

@Suite struct EndpointTests {
    private static let endpoints = [
        Endpoint("POST", "/api/hello") { call in
            ServerResponse(status: 200, body: Array("hello \(call.request.query)".utf8))
        },
        Endpoint("POST", "/api/todo/complete-all") { call in
            let list = await call.send(ServerRequest(method: "GET", path: "/tables/TodoItem"))
            var count = 0
            for id in list.ids {
                let answer = await call.send(
                    ServerRequest(
                        method: "PATCH",
                        path: "/tables/TodoItem/\(id)",
                        body: Array(#"{"complete":true}"#.utf8)
                    )
                )
                if answer.status == 200 { count += 1 }
            }
            return ServerResponse(status: 200, body: Array("\(count)".utf8))
        },
        Endpoint("GET", "/api/no") { _ in throw Rejection(403, "Never.") },
        Endpoint("GET", "/api/broken") { _ in throw Broken() },
    ]

    @Test("An endpoint returns its response, its rejection, or 500 for an error")
    func respondsAndRejects() async throws {
        let testServer = try await TestServer([TestServer.todo], endpoints: Self.endpoints)
        let hello = await testServer.send("POST", "/API/Hello?x=1")
        #expect(hello.status == 200 && hello.text == "hello x=1")
        #expect(hello.headers["X-Request-ID"]?.isEmpty == false)
        #expect(hello.headers["Cache-Control"] == "no-store")
        let other = await testServer.send("GET", "/api/hello")
        #expect(other.status == 405 && other.headers["Allow"] == "POST")
        #expect(await testServer.send("OPTIONS", "/api/hello").headers["Allow"] == "POST")
        #expect(await testServer.send("POST", "/api/bye").status == 404)
        #expect(await testServer.send("POST", "/api").status == 404)
        let rejected = await testServer.send("GET", "/api/no")
        #expect(rejected.status == 403 && rejected.error == "Never.")
        #expect(await testServer.send("GET", "/api/broken").status == 500)
    }

    @Test("An endpoint reads and writes the rows of tables") func worksOnTables() async throws {
        let testServer = try await TestServer([TestServer.todo], endpoints: Self.endpoints)
        for id in ["a", "b", "c"] {
            _ = await testServer.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        #expect(await testServer.send("POST", "/api/todo/complete-all").text == "3")
        let done = await testServer.send("GET", "/tables/TodoItem?$filter=complete")
        #expect(done.ids == ["a", "b", "c"])
    }

    @Test(
        "An invalid endpoint route is rejected at startup",
        arguments: [
            ("GET", "/tables/x"), ("GET", "/api"), ("GET", "api/x"), ("FETCH", "/api/x"),
            ("GET", "/api/x?y"), ("GET", "/api/x y"),
        ]
    )
    func invalidRoutesAreRejected(_ method: String, _ path: String) async throws {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.database = .memory
        configuration.endpoints = [Endpoint(method, path) { _ in ServerResponse(status: 200) }]
        let server = TidelineServer(configuration: configuration)
        await #expect(throws: ConfigurationError.self) { try await server.start() }
    }

    @Test("Hooks of an unknown table are rejected at startup")
    func hooksOfUnknownTablesAreRejected() async throws {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.database = .memory
        configuration.hooks["Todo"] = TableHooks()
        let server = TidelineServer(configuration: configuration)
        let error = await #expect(throws: ConfigurationError.self) { try await server.start() }
        #expect(error?.description == "hooks: table 'Todo' does not exist")
    }

    /// One of the two would be ignored, and its row filter with it.
    @Test("Two sets of hooks for one table are rejected at startup")
    func duplicateHooksAreRejected() async throws {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.database = .memory
        configuration.tables = [TestServer.todo]
        configuration.hooks = ["TodoItem": TableHooks(), "todoitem": TableHooks()]
        let server = TidelineServer(configuration: configuration)
        let error = await #expect(throws: ConfigurationError.self) { try await server.start() }
        #expect(error?.description.contains("is listed twice") == true)
    }
}
