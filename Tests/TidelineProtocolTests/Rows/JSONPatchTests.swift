// JSON Patch (RFC 6902) on the members of a row, in the datasync dialect.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore

@Suite struct JSONPatchTests {
    private static let table = TableDefinition(
        "TodoItem",
        columns: [
            ColumnDefinition("text", .string),
            ColumnDefinition("note", .string, rules: ColumnRules(maxLength: 5)),
            ColumnDefinition("complete", .boolean, nullable: false),
            ColumnDefinition("rank", .integer, default: 7),
            ColumnDefinition("due", .dateTime),
            ColumnDefinition("tags", .json),
        ]
    )

    private static let row = #"""
        {"id":"a","text":"x","note":"n","complete":true,"rank":1,
         "due":"2026-11-20T20:32:22.404999Z","tags":{"b":[1,2.0],"a":null}}
        """#

    private func server() async throws -> TestServer {
        let server = try await TestServer([Self.table])
        let created = await server.send("POST", "/tables/TodoItem", Self.row)
        #expect(created.status == 201, "\(created.text)")
        return server
    }

    private func patch(
        _ server: TestServer,
        _ body: String,
        type: String = "application/json-patch+json",
        headers: HTTPFields = [:],
        classic: Bool = false
    ) async -> ServerResponse {
        var headers = headers
        headers.append("Content-Type", type)
        return await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            body,
            classic: classic,
            headers: headers
        )
    }

    /// Operations, and the members of the row afterwards.
    private static let changes: [(String, String)] = [
        ("[]", #""text":"x","note":"n""#),
        (#"[{"op":"replace","path":"/text","value":"y"}]"#, #""text":"y""#),
        (#"[{"op":"replace","path":"/TEXT","value":"y"}]"#, #""text":"y""#),
        (#"[{"value":null,"extra":{"a":[]},"path":"/text","op":"add"}]"#, #""text":null"#),
        (#"[{"op":"remove","path":"/text"}]"#, #""text":null"#),
        (#"[{"op":"remove","path":"/rank"}]"#, #""rank":7"#),
        (#"[{"op":"remove","path":"/complete"}]"#, #""complete":false"#),
        (#"[{"op":"copy","from":"/text","path":"/note"}]"#, #""text":"x","note":"x""#),
        (#"[{"op":"move","from":"/text","path":"/note"}]"#, #""text":null,"note":"x""#),
        (#"[{"op":"move","from":"/text","path":"/text"}]"#, #""text":"x""#),
        (
            #"[{"op":"replace","path":"/text","value":"1"},{"op":"copy","from":"/text","path":"/note"},{"op":"replace","path":"/text","value":"2"}]"#,
            #""text":"2","note":"1""#
        ),
        (
            #"[{"op":"test","path":"/text","value":"x"},{"op":"replace","path":"/rank","value":2}]"#,
            #""rank":2"#
        ),
        (#"[{"op":"test","path":"/due","value":"2026-11-20T20:32:22.404Z"}]"#, #""rank":1"#),
        (#"[{"op":"test","path":"/tags","value":{"a":null,"b":[1,2]}}]"#, #""rank":1"#),
        (#"[{"op":"test","path":"/id","value":"a"}]"#, #""rank":1"#),
        (#"[{"op":"test","path":"/deleted","value":false}]"#, #""rank":1"#),
        (#"[{"op":"replace","path":"/tags","value":[1, 2]}]"#, #""tags":[1,2]"#),
        (#"[{"op":"replace","path":"/id","value":"a"}]"#, #""rank":1"#),
        (#"[{"op":"replace","path":"/deleted","value":true}]"#, #""deleted":true"#),
        // Only the final value of a member has to be valid for its column.
        (
            #"[{"op":"replace","path":"/note","value":"toolong"},{"op":"replace","path":"/note","value":"ok"}]"#,
            #""note":"ok""#
        ),
        (
            #"[{"op":"replace","path":"/rank","value":"x"},{"op":"add","path":"/rank","value":3}]"#,
            #""rank":3"#
        ),
        (
            #"[{"op":"replace","path":"/complete","value":null},{"op":"remove","path":"/complete"}]"#,
            #""complete":false"#
        ),
        (
            #"[{"op":"replace","path":"/text","value":5},{"op":"move","from":"/text","path":"/note"},{"op":"replace","path":"/note","value":"m"}]"#,
            #""text":null,"note":"m""#
        ),
        (
            #"[{"op":"replace","path":"/note","value":"toolong"},{"op":"copy","from":"/text","path":"/note"}]"#,
            #""note":"x""#
        ),
    ]

    @Test("A JSON Patch changes the row", arguments: changes)
    func changesTheRow(_ body: String, _ expected: String) async throws {
        let server = try await server()
        let answer = await patch(server, body)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.text.contains(expected), "\(answer.text)")
        let target = "/tables/TodoItem/a?__includedeleted=true"
        #expect(await server.send("GET", target).body == answer.body)
    }

    private static let rejections: [(String, Int)] = [
        ("", 400), ("{}", 400), ("null", 400), ("[1]", 400), ("[", 400), ("[{}]", 400),
        (#"[{"op":"replace","path":"/text"}]"#, 400),
        (#"[{"op":"replace","value":"y"}]"#, 400),
        (#"[{"op":"put","path":"/text","value":"y"}]"#, 400),
        (#"[{"op":5,"path":"/text","value":"y"}]"#, 400),
        (#"[{"op":"test","op":"test","path":"/text","value":"y"}]"#, 400),
        (#"[{"op":"replace","path":"text","value":"y"}]"#, 400),
        (#"[{"op":"replace","path":"","value":{}}]"#, 400),
        (#"[{"op":"replace","path":"/","value":"y"}]"#, 400),
        (#"[{"op":"replace","path":"/\u0301text","value":"y"}]"#, 400),
        (#"[{"op":"replace","path":"/other","value":"y"}]"#, 400),
        (#"[{"op":"replace","path":"/tags/b","value":"y"}]"#, 400),
        (#"[{"op":"replace","path":"/text","value":5}]"#, 400),
        (#"[{"op":"replace","path":"/complete","value":null}]"#, 400),
        (#"[{"op":"replace","path":"/note","value":"toolong"}]"#, 400),
        (#"[{"op":"copy","path":"/text"}]"#, 400),
        (#"[{"op":"copy","from":"/rank","path":"/text"}]"#, 400),
        (#"[{"op":"copy","from":"/id","path":"/text"}]"#, 400),
        (#"[{"op":"remove","path":"/version"}]"#, 400),
        (#"[{"op":"replace","path":"/id","value":"b"}]"#, 400),
        (#"[{"op":"replace","path":"/id","value":null}]"#, 400),
        (#"[{"op":"replace","path":"/version","value":"x"}]"#, 400),
        (#"[{"op":"replace","path":"/createdAt","value":null}]"#, 400),
        (#"[{"op":"add","path":"/createdAt","value":5}]"#, 400),
        (#"[{"op":"remove","path":"/createdAt"}]"#, 400),
        (#"[{"op":"copy","from":"/createdAt","path":"/due"}]"#, 400),
        (#"[{"op":"replace","path":"/updatedAt","value":"2020-01-01T00:00:00Z"}]"#, 400),
        (#"[{"op":"test","path":"/text","value":"y"}]"#, 409),
        (#"[{"op":"test","path":"/text","value":null}]"#, 409),
        (#"[{"op":"test","path":"/text","value":5}]"#, 409),
        (#"[{"op":"test","path":"/version","value":"x"}]"#, 409),
        (
            #"[{"op":"replace","path":"/text","value":"z"},{"op":"test","path":"/text","value":"x"}]"#,
            409
        ),
        (
            #"[{"op":"replace","path":"/text","value":"toolong"},{"op":"copy","from":"/text","path":"/note"}]"#,
            400
        ),
        (
            #"[{"op":"replace","path":"/note","value":"ok"},{"op":"replace","path":"/note","value":"toolong"}]"#,
            400
        ),
        (
            #"[{"op":"replace","path":"/rank","value":2},{"op":"replace","path":"/rank","value":"x"}]"#,
            400
        ),
        (
            #"[{"op":"replace","path":"/text","value":5},{"op":"copy","from":"/text","path":"/note"},{"op":"remove","path":"/text"}]"#,
            400
        ),
        (
            #"[{"op":"replace","path":"/text","value":5},{"op":"test","path":"/text","value":"x"},{"op":"remove","path":"/text"}]"#,
            400
        ),
    ]

    @Test("A JSON Patch that cannot be applied leaves the row unchanged", arguments: rejections)
    func rejectsAndLeavesTheRow(_ body: String, _ status: Int) async throws {
        let server = try await server()
        let before = await server.send("GET", "/tables/TodoItem/a")
        let answer = await patch(server, body)
        #expect(answer.status == status, "\(answer.text)")
        #expect((answer.body == before.body) == (status == 409))
        #expect(await server.send("GET", "/tables/TodoItem/a").body == before.body)
    }

    @Test("The createdAt in a JSON Patch is ignored, as in a merge")
    func createdAtIsIgnored() async throws {
        let server = try await server()
        let before = await server.send("GET", "/tables/TodoItem/a").row["createdAt"] as? String
        for value in ["2020-01-01T00:00:00Z", "x"] {
            let body = #"[{"op":"replace","path":"/createdAt","value":"\#(value)"}]"#
            let answer = await patch(server, body)
            #expect(answer.status == 200)
            #expect(before != nil && answer.row["createdAt"] as? String == before)
        }
    }

    @Test(
        "A document in a JSON Patch may be as deep as one in a whole row",
        arguments: [false, true]
    )
    func documentsAreAsDeepAsInARow(inBatch: Bool) async throws {
        try await TestServer.$usesBatches.withValue(inBatch) {
            let server = try await server()
            for (levels, isFine) in [(63, true), (64, false)] {
                let list =
                    String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
                let row = #"{"id":"\#(levels)","tags":\#(list)}"#
                let created = await server.send("POST", "/tables/TodoItem", row)
                #expect(created.status == (isFine ? 201 : 400), "\(created.text)")
                let patched = await patch(
                    server,
                    #"[{"op":"replace","path":"/tags","value":\#(list)}]"#
                )
                #expect(patched.status == (isFine ? 200 : 400), "\(patched.text)")
            }
        }
    }

    @Test("The conditions and the content type of a JSON Patch are checked")
    func followsTheOrderOfChecks() async throws {
        let server = try await server()
        let replace = #"[{"op":"replace","path":"/text","value":"y"}]"#
        let tag = await server.send("GET", "/tables/TodoItem/a").headers["ETag"] ?? ""
        #expect(await patch(server, replace, headers: ["If-Match": "\"x\""]).status == 412)
        #expect(await patch(server, replace, headers: ["If-Match": tag]).status == 200)
        let version = await server.send("GET", "/tables/TodoItem/a").row["version"] as? String ?? ""
        let own = #"[{"op":"replace","path":"/version","value":"\#(version)"}]"#
        #expect(await patch(server, own).status == 200)
        #expect(await patch(server, replace, type: "application/json").status == 400)
        #expect(await patch(server, replace, type: "text/json").status == 415)
        #expect(await patch(server, replace, classic: true).status == 415)
        let put = await server.send(
            "PUT",
            "/tables/TodoItem/a",
            "[]",
            headers: ["Content-Type": "application/json-patch+json"]
        )
        #expect(put.status == 415)
        #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
        #expect(await patch(server, replace).status == 410)
        let undelete = #"[{"op":"replace","path":"/deleted","value":false}]"#
        #expect(await patch(server, undelete).status == 200)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 200)
    }

    /// A patch with many copies to a checked column once occupied the writer for seconds.
    @Test("The number of steps in a JSON Patch is limited")
    func limitsTheNumberOfSteps() async throws {
        let server = try await server()
        let step = #"{"op":"copy","from":"/text","path":"/note"}"#
        func copies(_ count: Int) -> String {
            "[" + Array(repeating: step, count: count).joined(separator: ",") + "]"
        }
        let answer = await patch(server, copies(17_000))
        #expect(answer.status == 400)
        #expect(answer.error.contains("limits.patchSteps"), "\(answer.error)")
        #expect(await patch(server, copies(1001)).status == 400)
        #expect(await patch(server, copies(1000)).status == 200)
        var limits = ServerLimits()
        limits.patchSteps = 2
        let narrow = try await TestServer([Self.table], limits: limits)
        #expect(await narrow.send("POST", "/tables/TodoItem", Self.row).status == 201)
        #expect(await patch(narrow, copies(3)).status == 400)
        #expect(await patch(narrow, copies(2)).status == 200)
    }

    @Test("A JSON Patch checks only the final value of a column")
    func checksAColumnOnceAtTheEnd() async throws {
        let server = try await server()
        let answer = await patch(
            server,
            #"""
            [{"op":"replace","path":"/text","value":"toolong"},
             {"op":"copy","from":"/text","path":"/note"},
             {"op":"replace","path":"/note","value":"short"}]
            """#
        )
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.row["note"] as? String == "short")
    }

    @Test("The total size of the values that a JSON Patch tests is limited")
    func limitsTheSizeOfComparedValues() async throws {
        var limits = ServerLimits()
        limits.rowBytes = 32 << 20
        let server = try await TestServer([Self.table], limits: limits)
        #expect(await server.send("POST", "/tables/TodoItem", Self.row).status == 201)
        let long = String(repeating: "x", count: 1 << 20)
        let set = #"[{"op":"replace","path":"/text","value":"\#(long)"}]"#
        #expect(await patch(server, set).status == 200)
        let test = #"{"op":"test","path":"/text","value":"\#(long)"}"#
        func tests(_ count: Int) -> String {
            "[" + Array(repeating: test, count: count).joined(separator: ",") + "]"
        }
        let most = await patch(server, tests(8))
        #expect(most.status == 200, "\(most.status) \(most.text.prefix(300))")
        #expect(await patch(server, tests(9)).status == 400)
    }

    /// With hooks a patch is applied before the transaction, to the stored row and not to its JSON representation.
    @Test("A JSON Patch on a table with hooks keeps microseconds")
    func keepsMicrosecondsThroughHooks() async throws {
        var hooks = TableHooks()
        hooks.beforeWrite = { _ in }
        let table = TableDefinition(
            "TodoItem",
            columns: [ColumnDefinition("due", .dateTime), ColumnDefinition("other", .dateTime)]
        )
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer([table], path: path, hooks: ["TodoItem": hooks])
            let created = await server.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"a","due":"2026-11-20T20:32:22.404999Z"}"#
            )
            #expect(created.status == 201)
            let copy = #"[{"op":"copy","from":"/due","path":"/other"}]"#
            #expect(await patch(server, copy).status == 200)
            let stored = try Database(path: path, mode: .existing)
                .integer("SELECT \"other\" FROM \"TodoItem\"")
            #expect(stored.map { $0 % 1000 } == 999)
            await server.store.stop()
        }
    }
}
