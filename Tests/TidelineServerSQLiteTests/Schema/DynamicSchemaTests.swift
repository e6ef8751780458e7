// A dynamic schema grows with the write that needs it, or not at all.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

@Suite struct DynamicSchemaTests {
    /// The whole schema in the file.
    private static func schema(_ path: String) throws -> [String] {
        let database = try Database(path: path, mode: .readOnly)
        var lines: [String] = []
        for sql in [
            "SELECT \"name\" || coalesce(\"sql\", '') FROM \"sqlite_master\" ORDER BY 1",
            "SELECT \"name\" || \"columns\" FROM \"tideline_tables\" ORDER BY 1",
        ] {
            let statement = try database.prepare(sql)
            defer { statement.reset() }
            while try statement.step() { lines.append(statement.text(0)) }
        }
        return lines
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var method: String
        var path: String
        var body: String
        var classic = false
        var headers: HTTPFields = [:]
        var status: Int

        var testDescription: String { "\(status) \(method) \(path) \(body) \(classic)" }
    }

    static let cases = [
        Case(method: "POST", path: "New", body: #"{"id":"a/b","x":1}"#, status: 400),
        Case(method: "POST", path: "New", body: #"{"a":1,"x y":1}"#, status: 400),
        Case(method: "POST", path: "New", body: #"{"a":1,"b":[]}"#, status: 400),
        Case(method: "POST", path: "New", body: #"{"a":1"#, status: 400),
        Case(method: "POST", path: "New", body: "", status: 415),
        Case(method: "POST", path: "New", body: #"{"deleted":true}"#, classic: true, status: 400),
        Case(method: "PATCH", path: "New/a", body: #"{"a":1}"#, status: 404),
        Case(method: "PUT", path: "New/a", body: #"{"a":1}"#, classic: true, status: 404),
        Case(method: "DELETE", path: "New/a", body: "", status: 404),
        Case(method: "POST", path: "Old", body: #"{"id":"a","x":1}"#, status: 409),
        Case(method: "POST", path: "Old", body: #"{"id":"a","x":1}"#, classic: true, status: 409),
        Case(method: "POST", path: "Old", body: #"{"text":5,"x":1}"#, status: 400),
        Case(method: "PATCH", path: "Old/z", body: #"{"x":1}"#, status: 404),
        Case(method: "PUT", path: "Old/z", body: #"{"x":1}"#, classic: true, status: 404),
        Case(method: "PATCH", path: "Old/dead", body: #"{"x":1}"#, status: 410),
        Case(method: "PATCH", path: "Old/dead", body: #"{"x":1}"#, classic: true, status: 404),
        Case(method: "PATCH", path: "Old/a", body: #"{"x":1,"id":"b"}"#, status: 400),
        Case(method: "PATCH", path: "Old/a", body: #"{"x":1,"version":"no"}"#, status: 400),
        Case(
            method: "PATCH",
            path: "Old/a",
            body: #"{"x":1,"version":"no"}"#,
            classic: true,
            status: 409
        ),
        Case(
            method: "PATCH",
            path: "Old/a",
            body: #"{"x":1}"#,
            headers: ["If-Match": "\"no\""],
            status: 412
        ),
        Case(
            method: "PUT",
            path: "Old/a",
            body: #"{"x":1}"#,
            headers: ["If-None-Match": "*"],
            status: 412
        ),
    ]

    private static func send(_ server: TestServer, _ example: Case) async -> ServerResponse {
        await server.send(
            example.method,
            "/tables/" + example.path,
            example.body.isEmpty ? nil : example.body,
            classic: example.classic,
            headers: example.headers
        )
    }

    private static func server(_ path: String) async throws -> TestServer {
        let server = try await TestServer([], path: path, dynamic: true)
        for id in ["a", "dead"] {
            let body = #"{"id":"\#(id)","text":"t"}"#
            #expect(await server.send("POST", "/tables/Old", body).status == 201)
        }
        #expect(await server.send("DELETE", "/tables/Old/dead").status == 204)
        return server
    }

    @Test("A rejected write creates no table and no column", arguments: cases)
    func rejectedWritesCreateNothing(_ example: Case) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await Self.server(path)
            let before = try Self.schema(path)
            let answer = await Self.send(server, example)
            #expect(answer.status == example.status, "\(answer.text)")
            #expect(answer.row["x"] == nil)
            #expect(try Self.schema(path) == before)
            let row = await server.send("GET", "/tables/Old/a")
            #expect(row.row["x"] == nil && row.row["text"] as? String == "t")
            // A name that was not created can be created with another type.
            let created = await server.send("POST", "/tables/Old", #"{"x":"text"}"#)
            #expect(created.status == 201 && created.row["x"] as? String == "text")
            let new = await server.send("POST", "/tables/New", #"{"a":true,"x":"text"}"#)
            #expect(new.status == 201, "\(new.text)")
            await server.store.stop()
        }
    }

    @Test(
        "Writes of other callers in the same transaction are committed despite rejections",
        arguments: [false, true]
    )
    func groupsOfWrites(_ throwsToo: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.rowBytes = 50_000
            let server = try await TestServer([], path: path, dynamic: true, limits: limits)
            let wide = String(repeating: "x", count: 49_000)
            for name in ["text", "b", "c"] {
                let body = #"{"id":"a","\#(name)":""}"#
                _ = await server.send(
                    name == "text" ? "POST" : "PATCH",
                    "/tables/Old\(name == "text" ? "" : "/a")",
                    body
                )
            }
            for name in ["text", "b"] {
                let answer = await server.send(
                    "PATCH",
                    "/tables/Old/a",
                    #"{"\#(name)":"\#(wide)"}"#
                )
                #expect(answer.status == 200)
            }
            let before = try Self.schema(path)
            await withTaskGroup(of: Void.self) { group in
                for index in 0..<60 {
                    group.addTask {
                        let created = await server.send(
                            "POST",
                            "/tables/Old",
                            #"{"id":"\#(index)"}"#
                        )
                        #expect(created.status == 201)
                    }
                    group.addTask {
                        let body = #"{"id":"a","n\#(index)":1}"#
                        #expect(await server.send("POST", "/tables/Old", body).status == 409)
                    }
                    guard throwsToo else { continue }
                    group.addTask {
                        let body = #"{"c":"\#(wide)","m\#(index)":1}"#
                        #expect(await server.send("PATCH", "/tables/Old/a", body).status == 413)
                    }
                }
            }
            #expect(try Self.schema(path) == before)
            let count = await server.send("GET", "/tables/Old?$count=true&$top=0").row["count"]
            #expect(count as? Int == 61)
            await server.store.stop()
        }
    }

    @Test("Concurrent first writes create one table with all columns")
    func concurrentFirstWrites() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer([], path: path, dynamic: true)
            await withTaskGroup(of: Void.self) { group in
                for index in 0..<40 {
                    group.addTask {
                        let name = index % 2 == 0 ? "Fresh" : "fresh"
                        let body = #"{"id":"\#(index)","c\#(index % 7)":\#(index)}"#
                        let created = await server.send("POST", "/tables/\(name)", body)
                        #expect(created.status == 201, "\(created.text)")
                        #expect(created.row["c\(index % 7)"] as? Int == index)
                    }
                }
            }
            let rows = await server.send("GET", "/tables/FRESH").rows
            #expect(rows.count == 40)
            #expect(Set(rows.compactMap { $0["version"] as? String }).count == 40)
            #expect(rows.allSatisfy { $0.count == 5 + 7 })
            await server.store.stop()
        }
    }

    @Test("Only one of several concurrent writes determines the type of a new column")
    func concurrentWritesDoNotChangeTypes() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer([], path: directory + "/a.db", dynamic: true)
            _ = await server.send("POST", "/tables/T", "{}")
            for round in 0..<20 {
                let answers = await withTaskGroup(of: ServerResponse.self) { group in
                    for value in ["1.5", #""x""#, "true"] {
                        group.addTask {
                            await server.send("POST", "/tables/T", #"{"c\#(round)":\#(value)}"#)
                        }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                #expect(
                    answers.map(\.status).sorted() == [201, 400, 400],
                    "\(answers.map(\.text))"
                )
            }
            await server.store.stop()
        }
    }

    @Test("A hook reads the stored row with the existing columns before a write adds one")
    func hooksSeeTheExistingSchema() async throws {
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            let stored = try await change.stored()
            if stored?["text"] == "keep" { throw Rejection(422, "no") }
        }
        for name in ["New", "Old"] {
            try await withTemporaryDirectory { directory in
                let path = directory + "/a.db"
                let server = try await TestServer(
                    [],
                    path: path,
                    dynamic: true,
                    hooks: ["Old": hooks, "New": hooks]
                )
                _ = await server.send("POST", "/tables/Old", #"{"id":"a","text":"keep"}"#)
                let before = try Self.schema(path)
                let rejected = await server.send("PATCH", "/tables/Old/a", #"{"x":1}"#)
                #expect(rejected.status == 422)
                #expect(try Self.schema(path) == before)
                let created = await server.send("POST", "/tables/\(name)", #"{"id":"b","y":1}"#)
                #expect(created.status == 201 && created.row["y"] as? Int == 1)
                let wider = await server.send("PATCH", "/tables/\(name)/b", #"{"z":1}"#)
                #expect(wider.status == 200 && wider.row["z"] as? Int == 1)
                await server.store.stop()
            }
        }
    }

    @Test("A stale write that the server's policy drops creates no column")
    func droppedWritesCreateNothing() async throws {
        var table = TestServer.todo
        table.conflict = .serverWins
        let server = try await TestServer([table], dynamic: true)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let stale = await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"x":1}"#,
            headers: ["If-Match": "\"no\""]
        )
        #expect(stale.status == 200 && stale.row["x"] == nil)
        #expect(await server.send("GET", "/tables/TodoItem/a").row.keys.contains("x") == false)
    }
}
