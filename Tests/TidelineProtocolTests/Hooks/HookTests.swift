// Hooks, row filters, conflict handlers and endpoints that are defined in code.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The calls that hooks received, in order.
final class Diary: Sendable {
    private let lines = Mutex<[String]>([])

    func write(_ line: String) { lines.withLock { $0.append(line) } }

    func take() -> [String] {
        lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}

private struct Broken: Error {}

@Suite struct HookTests {
    private static let json: HTTPFields = ["Content-Type": "application/json"]
    private static let patch: HTTPFields = ["Content-Type": "application/json-patch+json"]

    private static func server(
        _ table: TableDefinition = TestServer.todo,
        _ set: (inout TableHooks) -> Void
    ) async throws -> TestServer {
        var hooks = TableHooks()
        set(&hooks)
        return try await TestServer([table], hooks: ["todoitem": hooks])
    }

    // MARK: - Before

    @Test("A hook before a write changes the values of the write")
    func beforeAWriteChangesIt() async throws {
        let server = try await Self.server { hooks in
            hooks.beforeWrite = { change in
                if change.operation == .insert { change.values["rank"] = 7 }
                if case .string(let text) = change.values["text"] {
                    change.values["text"] = .string(text.uppercased())
                }
            }
        }
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        #expect(created.status == 201)
        #expect(created.row["text"] as? String == "X" && created.row["rank"] as? Int == 7)
        let rank = await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":1}"#)
        #expect(rank.row["text"] as? String == "X" && rank.row["rank"] as? Int == 1)
        let put = await server.send("PUT", "/tables/TodoItem/a", #"{"text":"y"}"#)
        #expect(put.row["text"] as? String == "Y" && put.row["rank"] is NSNull)
        let patched = await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            #"[{"op":"replace","path":"/text","value":"z"}]"#,
            headers: Self.patch
        )
        #expect(patched.row["text"] as? String == "Z")
    }

    @Test(
        "A patch that cannot be applied is rejected in the same way with and without a hook",
        arguments: [false, true]
    )
    func aPatchThatIsRejectedByContent(hasHook: Bool) async throws {
        let server = try await Self.server { hooks in
            guard hasHook else { return }
            hooks.beforeWrite = { if $0.operation != .insert { Issue.record("the hook ran") } }
        }
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        let body = #"[{"op":"replace","path":"/complete","value":null}]"#
        func status(_ id: String, _ tag: String? = nil) async -> Int {
            var headers = Self.patch
            if let tag { headers.append("If-Match", tag) }
            return await server.send("PATCH", "/tables/TodoItem/\(id)", body, headers: headers)
                .status
        }
        #expect(await status("none") == 404)
        #expect(await status("a", "\"AAAA\"") == 412)
        #expect(await status("a", "*") == 400)
    }

    @Test("A write is rejected if the hook before it throws or sets invalid values")
    func beforeAWriteRejectsIt() async throws {
        let server = try await Self.server { hooks in
            hooks.beforeWrite = { change in
                if change.operation == .delete { throw Rejection(422, "Not yet.") }
                if change.values["text"] == "broken" { throw Broken() }
                if change.values["text"] == "409" { throw Rejection(409, "No row.") }
                if change.values["text"] == "member" { change.values["txet"] = 5 }
                if change.values["text"] == "id" { change.values["id"] = "b" }
                if change.values["text"] == "type" { change.values["rank"] = "many" }
            }
        }
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        let rejected = await server.send("DELETE", "/tables/TodoItem/a")
        #expect(rejected.status == 422 && rejected.error == "Not yet.")
        let member = await server.send("PATCH", "/tables/TodoItem/a", #"{"deleted":true}"#)
        #expect(member.status == 422)
        for (text, status) in [
            ("broken", 500), ("409", 500), ("member", 500), ("id", 500), ("type", 400),
        ] {
            let body = #"{"text":"\#(text)"}"#
            #expect(await server.send("PATCH", "/tables/TodoItem/a", body).status == status)
        }
        #expect(await server.send("GET", "/tables/TodoItem/a").row["text"] as? String == "x")
    }

    @Test("A hook runs again if the row that it read changed before the write")
    func aRowThatChangesMeanwhileIsPassedToTheHookAgain() async throws {
        let diary = Diary()
        let other = Mutex<TestServer?>(nil)
        let server = try await Self.server { hooks in
            hooks.beforeWrite = { change in
                guard change.values["rank"] == 5 else { return }
                let stored = try await change.stored()
                diary.write("\(stored?["text"] ?? .null)")
                guard stored?["text"] == "old" else { return }
                // Another caller changes the row first.
                let server = other.withLock { $0 }
                _ = await server?.send("PATCH", "/tables/TodoItem/a", #"{"text":"new"}"#)
            }
        }
        other.withLock { $0 = server }
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"old"}"#)
        let answer = await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":5}"#)
        #expect(answer.status == 200)
        #expect(answer.row["text"] as? String == "new" && answer.row["rank"] as? Int == 5)
        #expect(diary.take() == ["\(Value.string("old"))", "\(Value.string("new"))"])
    }

    @Test("A write is rejected with 503 if its row changes during each run of the hook")
    func aRowThatKeepsChangingIsRejected() async throws {
        let other = Mutex<TestServer?>(nil)
        let server = try await Self.server { hooks in
            hooks.beforeWrite = { change in
                guard change.values["rank"] == 5 else { return }
                _ = try await change.stored()
                let server = other.withLock { $0 }
                _ = await server?.send("PATCH", "/tables/TodoItem/a", #"{"text":"new"}"#)
            }
        }
        other.withLock { $0 = server }
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let answer = await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":5}"#)
        #expect(answer.status == 503 && answer.headers["Retry-After"] != nil)
    }

    @Test("Hooks see and set the zero values of columns that are not nullable")
    func hooksSeeZeroValues() async throws {
        let diary = Diary()
        let table = TableDefinition(
            "TodoItem",
            columns: [
                ColumnDefinition("day", .date, nullable: false),
                ColumnDefinition("doc", .json, nullable: false), ColumnDefinition("rank", .integer),
            ]
        )
        let server = try await Self.server(table) { hooks in
            hooks.beforeWrite = { change in
                guard let stored = try await change.stored() else { return }
                diary.write("before \(stored["day"] ?? .null)")
                if stored["doc"]?.isNull == true { diary.write("no document") }
                change.values["day"] = stored["day"]
                change.values["doc"] = stored["doc"]
            }
            hooks.afterWrite = { event in diary.write("after \(event.row?["day"] ?? .null)") }
        }
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        let patched = await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":1}"#)
        #expect(patched.status == 200, "\(patched.text)")
        #expect(patched.text.contains(#""day":"","doc":null,"rank":1"#), "\(patched.text)")
        let empty = Value.string("")
        #expect(
            diary.take() == [
                "after \(empty)", "before \(empty)", "no document", "after \(empty)",
            ]
        )
    }

    @Test("A hook reads null from a row without a date, once its column is nullable")
    func hooksSeeNullInNullableColumns() async throws {
        try await withTemporaryDirectory { directory in
            for isNullable in [false, true] {
                let table = TableDefinition(
                    "TodoItem",
                    columns: [
                        ColumnDefinition("day", .date, nullable: isNullable),
                        ColumnDefinition("rank", .integer),
                    ]
                )
                let diary = Diary()
                var hooks = TableHooks()
                hooks.beforeWrite = { change in
                    guard let stored = try await change.stored() else { return }
                    diary.write("\(stored["day"] ?? .null)")
                }
                let server = try await TestServer(
                    [table],
                    path: directory + "/a.db",
                    hooks: ["TodoItem": hooks]
                )
                if isNullable {
                    let patched = await server.send("PATCH", "/tables/TodoItem/a", #"{"rank":1}"#)
                    #expect(patched.status == 200, "\(patched.text)")
                    #expect(diary.take() == ["\(Value.null)"])
                } else {
                    let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
                    #expect(created.status == 201)
                }
                await server.store.stop()
            }
        }
    }

    @Test("A time that a hook does not change keeps its microseconds")
    func valuesThatHooksDoNotChangeStayExact() async throws {
        let table = TableDefinition("TodoItem", columns: [ColumnDefinition("at", .dateTime)])
        var hooks = TableHooks()
        hooks.beforeWrite = { _ in }
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer([table], path: path, hooks: ["TodoItem": hooks])
            let body = #"{"id":"a","at":"2026-11-21T08:00:00.123456Z"}"#
            _ = await server.send("POST", "/tables/TodoItem", body)
            let stored = try Database(path: path, mode: .existing)
                .integer("SELECT \"at\" FROM \"TodoItem\"")
            #expect(stored.map { $0 % 1000 } == 456)
            await server.store.stop()
        }
    }

    // MARK: - After, and reads

    @Test("The hook after a write runs when the row is stored, and only for executed writes")
    func afterAWriteTheRowIsStored() async throws {
        let diary = Diary()
        let other = Mutex<TestServer?>(nil)
        let server = try await Self.server { hooks in
            hooks.afterWrite = { event in
                let server = other.withLock { $0 }
                let stored = await server?.send("GET", "/tables/TodoItem/\(event.id)")
                let isStored = stored?.row["version"] as? String == event.row?.version
                diary.write("\(event.operation) \(event.requestID) \(isStored)")
                throw Broken()
            }
        }
        other.withLock { $0 = server }
        func send(_ name: String, _ method: String, _ path: String, _ body: String?) async -> Int {
            await server.send(method, path, body, headers: ["X-Request-ID": name]).status
        }
        #expect(await send("1", "POST", "/tables/TodoItem", #"{"id":"a"}"#) == 201)
        #expect(await send("2", "PATCH", "/tables/TodoItem/a", #"{"rank":1}"#) == 200)
        #expect(await send("3", "PUT", "/tables/TodoItem/a", #"{"rank":1}"#) == 200)
        #expect(await send("4", "POST", "/tables/TodoItem", #"{"id":"a"}"#) == 409)
        #expect(await send("5", "PATCH", "/tables/TodoItem/b", #"{"rank":1}"#) == 404)
        #expect(await send("6", "PATCH", "/tables/TodoItem/a", #"{"rank":"x"}"#) == 400)
        #expect(diary.take() == ["insert 1 true", "update 2 true", "replace 3 true"])
        #expect(await send("7", "DELETE", "/tables/TodoItem/a", nil) == 204)
        #expect(await send("8", "PATCH", "/tables/TodoItem/a", #"{"deleted":false}"#) == 200)
        #expect(diary.take() == ["delete 7 false", "undelete 8 true"])
    }

    @Test("Hooks reject reads and observe how many rows a read returned")
    func readsAreObservedAndRejected() async throws {
        let diary = Diary()
        let server = try await Self.server { hooks in
            hooks.beforeRead = { read in if read.id == "b" { throw Rejection(403, "Not this.") } }
            hooks.afterRead = { read, rows in diary.write("\(read.id ?? "list") \(rows)") }
        }
        for id in ["a", "b"] {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        #expect(await server.send("GET", "/tables/TodoItem?$top=1").rows.count == 1)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 200)
        #expect(await server.send("GET", "/tables/TodoItem/b").status == 403)
        #expect(diary.take() == ["list 1", "a 1"])
    }

    // MARK: - Row filters

    @Test("A write of a row outside the row filter is rejected with 403")
    func rowsOutsideTheFilterAreAbsent() async throws {
        let server = try await Self.server { hooks in
            hooks.rowFilter = { _ in "text eq \("it's") or rank gt \(5)" }
        }
        let free = try await TestServer([TestServer.todo])
        #expect(await free.send("POST", "/tables/TodoItem", "{}").status == 201)
        let inside = #"{"id":"in","text":"it's"}"#
        #expect(await server.send("POST", "/tables/TodoItem", inside).status == 201)
        let outside = await server.send("POST", "/tables/TodoItem", #"{"id":"out","text":"no"}"#)
        #expect(outside.status == 403)
        #expect(await server.send("PATCH", "/tables/TodoItem/in", #"{"text":"no"}"#).status == 403)
        #expect(
            await server.send("PATCH", "/tables/TodoItem/in", #"{"text":"no","rank":6}"#).status
                == 200
        )
        let list = await server.send("GET", "/tables/TodoItem?$count=true")
        #expect(list.ids == ["in"] && list.row["count"] as? Int == 1)
    }

    @Test("A row outside the row filter is hidden from every kind of request")
    func aFilteredRowIsHiddenEverywhere() async throws {
        let isOpen = Mutex(true)
        let server = try await Self.server { hooks in
            hooks.rowFilter = { _ in isOpen.withLock { $0 } ? nil : "rank gt 5" }
        }
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","rank":1}"#)
        isOpen.withLock { $0 = false }
        for (method, body) in [
            ("GET", nil), ("PATCH", #"{"rank":9}"#), ("PUT", #"{"rank":9}"#), ("DELETE", nil),
        ] {
            let answer = await server.send(
                method,
                "/tables/TodoItem/a",
                body,
                headers: ["If-Match": created.headers["ETag"] ?? ""]
            )
            #expect(answer.status == 404, "\(method)")
        }
        let taken = await server.send("POST", "/tables/TodoItem", #"{"id":"a","rank":9}"#)
        #expect(taken.status == 409 && taken.body.isEmpty)
        #expect(await server.send("GET", "/tables/TodoItem").rows.isEmpty)
    }

    @Test("The row filter knows the user and is combined with the owner rule")
    func filtersKnowTheUser() async throws {
        var hooks = TableHooks()
        hooks.rowFilter = { user in "rank eq \(user?.id == "anna" ? 1 : 2)" }
        hooks.beforeWrite = { change in
            change.values["text"] = .string("by " + (change.user?.id ?? "nobody"))
            change.values["userId"] = "berta"
        }
        var table = TestServer.todo
        table.owner = "userId"
        let server = try await TestServer(
            [table],
            authenticator: try Tokens.authenticator(),
            hooks: ["TodoItem": hooks],
            endpoints: [
                Endpoint("GET", "/api/mine") { call in
                    await call.send(ServerRequest(method: "GET", path: "/tables/TodoItem"))
                }
            ]
        )
        let anna = try Tokens.headers("anna")
        let created = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"a","rank":1}"#,
            headers: anna
        )
        #expect(created.status == 201 && created.row["text"] as? String == "by anna")
        #expect(created.row["userId"] as? String == "anna")
        let other = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"rank":2}"#,
            headers: anna
        )
        #expect(other.status == 403)
        let berta = try Tokens.headers("berta")
        #expect(await server.send("GET", "/tables/TodoItem/a", headers: berta).status == 404)
        #expect(await server.send("GET", "/api/mine", headers: anna).ids == ["a"])
        #expect(await server.send("GET", "/api/mine", headers: berta).ids == [])
        #expect(await server.send("GET", "/api/mine").status == 401)
    }

    @Test(
        "An invalid row filter makes lists and inserts fail with 500",
        arguments: ["nope eq 1", "text eq", "1"]
    )
    func anInvalidFilterHidesEveryRow(_ text: String) async throws {
        let server = try await Self.server { hooks in
            hooks.rowFilter = { _ in RowFilter(stringLiteral: text) }
        }
        #expect(await server.send("GET", "/tables/TodoItem").status == 500)
        #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 500)
    }

    @Test(
        "A value in a row filter is always a literal",
        arguments: ["x' or 'a' eq 'a", "'", "", "\\", "x') or (1 eq 1", "%", "é\u{1F600}"]
    )
    func valuesAreLiterals(_ text: String) async throws {
        let server = try await Self.server { hooks in
            hooks.rowFilter = { _ in "text eq \(text) and complete eq \(false)" }
        }
        var row = Row()
        row["text"] = .string(text)
        var writer = JSONWriter()
        writer.row(row)
        #expect(await server.send("POST", "/tables/TodoItem", writer.text).status == 201)
        #expect(await server.send("POST", "/tables/TodoItem", #"{"text":"a"}"#).status == 403)
        #expect(await server.send("GET", "/tables/TodoItem").rows.count == 1)
    }
}
