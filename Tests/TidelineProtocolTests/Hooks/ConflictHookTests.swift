// Conflict handlers: the effect of each decision, for each kind of write.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct ConflictHookTests {
    private static func testServer(
        conflict rule: ConflictRule = .reject,
        _ handler: @escaping @Sendable (TableConflict) async throws -> ConflictResolution
    ) async throws -> TestServer {
        var hooks = TableHooks()
        hooks.conflict = handler
        var table = TestServer.todo
        table.conflict = rule
        let testServer = try await TestServer([table], hooks: ["TodoItem": hooks])
        _ = await testServer.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"a","text":"first","rank":1}"#
        )
        return testServer
    }

    /// Sends with the version from before another caller's change.
    private static func stale(
        _ testServer: TestServer,
        _ method: String,
        _ body: String?,
        type: String = "application/json"
    ) async -> ServerResponse {
        let old = await testServer.send("GET", "/tables/TodoItem/a").headers["ETag"] ?? ""
        _ = await testServer.send("PATCH", "/tables/TodoItem/a", #"{"text":"theirs"}"#)
        return await testServer.send(
            method,
            "/tables/TodoItem/a",
            body,
            headers: ["If-Match": old, "Content-Type": type]
        )
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var answer: ConflictResolution
        var method: String
        var status: Int
        /// `text` and `rank` afterwards; nil if the row is deleted.
        var text: String?
        var rank: Int?

        var testDescription: String { "\(answer) \(method)" }
    }

    static let cases = [
        Case(answer: .client, method: "PATCH", status: 200, text: "theirs", rank: 2),
        Case(answer: .client, method: "PUT", status: 200, text: "null", rank: 2),
        Case(answer: .client, method: "DELETE", status: 204),
        Case(answer: .server, method: "PATCH", status: 200, text: "theirs", rank: 1),
        Case(answer: .server, method: "DELETE", status: 412, text: "theirs", rank: 1),
        Case(answer: .write(["text": "both"]), method: "PATCH", status: 200, text: "both", rank: 1),
        Case(answer: .write(["text": "both"]), method: "PUT", status: 200, text: "both", rank: 1),
        Case(
            answer: .write(["text": "both"]),
            method: "DELETE",
            status: 412,
            text: "both",
            rank: 1
        ),
        Case(answer: .policy, method: "PATCH", status: 412, text: "theirs", rank: 1),
        Case(answer: .policy, method: "DELETE", status: 412, text: "theirs", rank: 1),
    ]

    /// A write that succeeded leaves a version other than the one in its condition.
    @Test(
        "The conflict handler is not called for a write without a conflict",
        arguments: ["PATCH", "PUT", "DELETE"],
        [true, false]
    )
    func isNotCalledWithoutAConflict(_ method: String, isClassic: Bool) async throws {
        let calls = Mutex(0)
        let events = Mutex<[TableOperation]>([])
        var hooks = TableHooks()
        hooks.conflict = { _ in
            calls.withLock { $0 += 1 }
            return .client
        }
        hooks.afterWrite = { event in events.withLock { $0.append(event.operation) } }
        let testServer = try await TestServer([TestServer.todo], hooks: ["TodoItem": hooks])
        let created = await testServer.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"a","text":"first"}"#
        )
        let answer = await testServer.send(
            method,
            "/tables/TodoItem/a",
            method == "DELETE" ? nil : #"{"text":"mine"}"#,
            classic: isClassic,
            headers: ["If-Match": created.headers["ETag"] ?? ""]
        )
        #expect(answer.status == (method == "DELETE" ? 204 : 200))
        #expect(calls.withLock { $0 } == 0)
        let expected: TableOperation =
            method == "DELETE" ? .delete : method == "PUT" ? .replace : .update
        #expect(events.withLock { $0 } == [.insert, expected])
    }

    @Test("The resolution that the conflict handler returns is applied", arguments: cases)
    func appliesTheDecision(_ example: Case) async throws {
        let testServer = try await Self.testServer { _ in example.answer }
        let body = example.method == "DELETE" ? nil : #"{"rank":2}"#
        let answer = await Self.stale(testServer, example.method, body)
        #expect(answer.status == example.status)
        let row = await testServer.send("GET", "/tables/TodoItem/a")
        guard let text = example.text else {
            #expect(row.status == 410)
            return
        }
        #expect(row.row["text"] as? String ?? "null" == text)
        #expect(row.row["rank"] as? Int == example.rank)
        if !answer.body.isEmpty {
            #expect(answer.row["version"] as? String == row.row["version"] as? String)
        }
    }

    @Test("The conflict handler receives the server's row and the client's row")
    func theHandlerSeesBothSides() async throws {
        let testServer = try await Self.testServer { conflict in
            #expect(conflict.operation == .update && !conflict.isDelete && conflict.id == "a")
            #expect(conflict.server["text"] == "theirs" && conflict.server.version != nil)
            #expect(conflict.client["text"] == "theirs" && conflict.client["rank"] == 2)
            var row = conflict.client
            row["text"] = "merged"
            return .write(row)
        }
        let answer = await Self.stale(testServer, "PATCH", #"{"rank":2}"#)
        #expect(answer.row["text"] as? String == "merged" && answer.row["rank"] as? Int == 2)
        let patch = #"[{"op":"replace","path":"/rank","value":2}]"#
        let patched = await Self.stale(
            testServer,
            "PATCH",
            patch,
            type: "application/json-patch+json"
        )
        #expect(patched.row["text"] as? String == "merged")
    }

    @Test(
        "The row that the conflict handler returns replaces any kind of write",
        arguments: ["DELETE", "POST", "PATCH"]
    )
    func theWholeRowReplacesAnyWrite(_ method: String) async throws {
        let testServer = try await Self.testServer { conflict in
            var row = conflict.client
            row["text"] = "both"
            return .write(row)
        }
        let answer: ServerResponse
        if method == "POST" {
            let old = await testServer.send("GET", "/tables/TodoItem/a").headers["ETag"] ?? ""
            _ = await testServer.send("DELETE", "/tables/TodoItem/a")
            answer = await testServer.send(
                "POST",
                "/tables/TodoItem/a",
                classic: true,
                headers: ["If-Match": old]
            )
        } else {
            let test = #"[{"op":"test","path":"/rank","value":9},{"op":"remove","path":"/rank"}]"#
            answer = await Self.stale(
                testServer,
                method,
                method == "PATCH" ? test : nil,
                type: method == "PATCH" ? "application/json-patch+json" : "application/json"
            )
        }
        #expect(answer.status == ["DELETE": 412, "POST": 201, "PATCH": 200][method])
        #expect(answer.row["text"] as? String == "both" && answer.row["rank"] as? Int == 1)
        let row = await testServer.send("GET", "/tables/TodoItem/a")
        #expect(row.body == answer.body)
    }

    @Test("The table's conflict rule applies if the handler does not decide")
    func theTablePolicyAppliesIfTheHandlerRejects() async throws {
        let testServer = try await Self.testServer(conflict: .clientWins) { _ in .policy }
        let answer = await Self.stale(testServer, "PATCH", #"{"rank":2}"#)
        #expect(answer.status == 200 && answer.row["rank"] as? Int == 2)
    }

    @Test("A stale version in the body of a classic update calls the conflict handler")
    func classicVersionsInTheBody() async throws {
        let testServer = try await Self.testServer { _ in .client }
        let old = await testServer.send("GET", "/tables/TodoItem/a").row["version"] as? String ?? ""
        _ = await testServer.send("PATCH", "/tables/TodoItem/a", #"{"text":"theirs"}"#)
        let body = #"{"rank":3,"version":"\#(old)"}"#
        let answer = await testServer.send("PATCH", "/tables/TodoItem/a", body, classic: true)
        #expect(answer.status == 200 && answer.row["rank"] as? Int == 3)
    }

    @Test("The conflict handler runs again if the row changed in the meantime")
    func aRowThatChangesWhileTheHandlerRuns() async throws {
        let other = Mutex<TestServer?>(nil)
        let asked = Mutex(0)
        let testServer = try await Self.testServer { _ in
            let count = asked.withLock { asked in
                asked += 1
                return asked
            }
            if count == 1 {
                let testServer = other.withLock { $0 }
                _ = await testServer?.send("PATCH", "/tables/TodoItem/a", #"{"text":"faster"}"#)
            }
            return .client
        }
        other.withLock { $0 = testServer }
        let answer = await Self.stale(testServer, "PATCH", #"{"rank":2}"#)
        #expect(answer.row["text"] as? String == "faster" && answer.row["rank"] as? Int == 2)
        #expect(asked.withLock { $0 } == 2)
    }

    @Test("A failed If-None-Match condition is not a conflict")
    func otherFailedPreconditionsAreNotConflicts() async throws {
        let testServer = try await Self.testServer { _ in .client }
        let answer = await testServer.send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"rank":2}"#,
            headers: ["If-None-Match": "*"]
        )
        #expect(answer.status == 412)
    }

    @Test("A rejection by the conflict handler becomes the response")
    func rejectionsByTheHandler() async throws {
        let testServer = try await Self.testServer { _ in throw Rejection(422, "Ask a person.") }
        let answer = await Self.stale(testServer, "PATCH", #"{"rank":2}"#)
        #expect(answer.status == 422 && answer.error == "Ask a person.")
    }
}
