// HEAD on every target with GET, and whether the server is ready for writes.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct HeadTests {
    private static let endpoints = [
        Endpoint("GET", "/api/time") { call in
            ServerResponse(
                status: 200,
                headers: ["Content-Type": "text/plain"],
                body: Array(call.request.method.utf8)
            )
        },
        Endpoint("POST", "/api/go") { _ in ServerResponse(status: 204) },
    ]

    /// All header fields except those that identify the request.
    private static func comparable(_ answer: ServerResponse) -> [String] {
        ["\(answer.status)"]
            + answer.headers.filter { $0.name != "X-Request-ID" }.map { "\($0.name): \($0.value)" }
    }

    @Test(
        "HEAD returns the same status and headers as GET",
        arguments: [
            ("/tables/TodoItem", 200), ("/tables/TodoItem?$top=1&$count=true", 200),
            ("/tables/TodoItem/a", 200), ("/tables/TodoItem/gone", 404), ("/tables/none", 404),
            ("/tables/TodoItem?$top=x", 400), ("/health", 200), ("/health/ready", 200),
            ("/metrics", 200), ("/api/time", 200), ("/api/go", 405), ("/nosuch", 404),
        ]
    )
    func answersAsGet(_ target: String, _ status: Int) async throws {
        let server = try await TestServer(endpoints: Self.endpoints)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"milk"}"#)
        let get = await server.send("GET", target)
        let head = await server.send("HEAD", target)
        #expect(head.status == status)
        #expect(Self.comparable(head) == Self.comparable(get))
        // Its length is announced; the code that sends the response omits the body.
        if target != "/metrics" { #expect(head.body.count == get.body.count) }
    }

    @Test("HEAD follows the permissions of the table and the conditions of the request")
    func followsPermissionsAndConditions() async throws {
        var table = TestServer.todo
        table.permissions.read = .disabled
        let server = try await TestServer([table])
        let rejected = await server.send("HEAD", "/tables/TodoItem")
        #expect(rejected.status == 405 && rejected.headers["Allow"] == "POST")
        let open = try await TestServer()
        let row = await open.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let tag = try #require(row.headers["ETag"])
        let same = await open.send(
            "HEAD",
            "/tables/TodoItem/a",
            headers: ["If-None-Match": tag]
        )
        #expect(same.status == 304 && same.headers["ETag"] == tag)
    }
}

@Suite struct ReadinessTests {
    /// Waits until a probe finds the database ready; on a slow machine a probe may take longer than the caller waits.
    private func becomesReady(_ server: TestServer, _ clock: TestClock) async throws {
        try await until {
            clock.move(by: 2_000_000)
            return await server.send("GET", "/health/ready").status == 200
        }
    }

    @Test("The server is ready until it begins to drain")
    func readyWhileWritesAreAccepted() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let ready = await server.send("GET", "/health/ready")
            #expect(ready.status == 200 && ready.text == #"{"status":"ok"}"#)
            server.handler.beginDrain()
            let draining = await server.send("GET", "/health/ready")
            #expect(draining.status == 503 && draining.headers["Retry-After"] != nil)
            #expect(await server.send("GET", "/health").status == 200)
            await server.store.stop()
        }
    }

    /// The writer waits for a lock for longer than a readiness check may take.
    @Test("The server is not ready while another process locks the database")
    func notReadyWhileAnotherProcessLocksTheDatabase() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            let server = try await TestServer(path: directory + "/a.db", clock: clock)
            #expect(await server.send("GET", "/health/ready").status == 200)
            let other = try Database(path: directory + "/a.db")
            try other.execute("BEGIN IMMEDIATE")
            clock.move(by: 2_000_000)
            let held = await server.send("GET", "/health/ready")
            #expect(held.status == 503)
            // On a slow machine the writer's own wait may end before the probe's.
            let causes = ["locked", "not writable"]
            #expect(causes.contains { held.error.contains($0) }, "\(held.error)")
            try other.execute("COMMIT")
            // The probe under way ends, and the next one finds the database ready.
            try await becomesReady(server, clock)
            await server.store.stop()
        }
    }

    @Test("The server is not ready after its store has stopped")
    func notReadyWithoutAWriter() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            await server.store.stop()
            #expect(await server.send("GET", "/health/ready").status == 503)
            #expect(await server.send("GET", "/health").status == 200)
        }
    }

    @Test(
        "The server is not ready while the disk is full",
        .enabled(if: SmallDisk.mayMount, "mounting a small disk needs privileges")
    )
    func notReadyWhileTheDiskIsFull() async throws {
        try await SmallDisk.with { folder in
            let clock = TestClock()
            let server = try await TestServer(path: folder + "/a.db", clock: clock)
            try await becomesReady(server, clock)
            let ballast = try #require(fopen(folder + "/ballast", "w"))
            setvbuf(ballast, nil, _IONBF, 0)
            let block = [UInt8](repeating: 0, count: 4096)
            while fwrite(block, 1, block.count, ballast) == block.count {}
            while fputc(0, ballast) != EOF {}
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 503)
            for _ in 0..<3 {
                clock.move(by: 2_000_000)
                #expect(await server.send("GET", "/health/ready").status == 503)
            }
            fclose(ballast)
            try FileManager.default.removeItem(atPath: folder + "/ballast")
            try await becomesReady(server, clock)
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
            await server.store.stop()
        }
    }

    @Test("The server is not ready while the database cannot be written")
    func notReadyWhenTheDatabaseCannotBeWritten() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            let server = try await TestServer(path: directory + "/a.db", clock: clock)
            let other = try Database(path: directory + "/a.db")
            try other.execute("DROP TABLE tideline_state")
            #expect(await server.send("GET", "/health/ready").status == 503)
            // The result of a probe is valid for a second.
            try other.execute("CREATE TABLE tideline_state (key TEXT PRIMARY KEY, value TEXT)")
            #expect(await server.send("GET", "/health/ready").status == 503)
            try await becomesReady(server, clock)
            await server.store.stop()
        }
    }
}
