// Table rules: permissions, conflicts, and how long tombstones are kept.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct TableRuleTests {
    private func server(_ change: (inout TableDefinition) -> Void) async throws -> TestServer {
        var table = TestServer.todo
        change(&table)
        return try await TestServer([table])
    }

    @Test("An operation that is disabled for a table is rejected with 405")
    func disabledOperationsAreNotAllowed() async throws {
        let readOnly = try await server {
            $0.permissions = TablePermissions(
                insert: .disabled,
                update: .disabled,
                delete: .disabled
            )
        }
        for (method, target, isClassic) in [
            ("POST", "/tables/TodoItem", false), ("PATCH", "/tables/TodoItem", true),
            ("PATCH", "/tables/todoitem/a", false), ("PUT", "/tables/TodoItem/a", true),
            ("DELETE", "/tables/TodoItem/a", false), ("POST", "/tables/TodoItem/a", true),
        ] {
            let answer = await readOnly.send(method, target, "{}", classic: isClassic)
            #expect(answer.status == 405)
            #expect(answer.headers["Allow"] == "GET, HEAD")
            #expect(answer.headers["Content-Type"] == "application/problem+json")
        }
        #expect(await readOnly.send("GET", "/tables/TodoItem").status == 200)
        #expect(await readOnly.send("GET", "/tables/TodoItem/a").status == 404)
    }

    @Test("A rejection returns no row if reads are disabled")
    func withoutReadPermissionNoRowIsReturned() async throws {
        let server = try await server { $0.permissions.read = .disabled }
        #expect(await server.send("GET", "/tables/TodoItem").status == 405)
        #expect(
            await server.send("GET", "/tables/TodoItem/a").headers["Allow"] == "PATCH, PUT, DELETE"
        )
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        let twice = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        #expect(twice.status == 409 && twice.body.isEmpty && twice.headers["ETag"] == nil)
        let stale = await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            "{}",
            headers: ["If-Match": "\"x\""]
        )
        #expect(stale.status == 412 && stale.body.isEmpty)
    }

    /// A write without changes is not a way to read a row.
    @Test(
        "A write discloses no values of the row to a caller without read permission",
        arguments: ["anna", nil]
    )
    func writesWithoutReadPermissionReturnNoRow(_ user: String?) async throws {
        var table = TestServer.todo
        table.permissions = TablePermissions(
            read: .authenticated,
            insert: .anonymous,
            update: .anonymous,
            delete: .anonymous
        )
        let server = try await TestServer([table], authenticator: try Tokens.authenticator())
        let headers = try user.map(Tokens.headers) ?? HTTPFields()
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        #expect(created.status == 201 && created.row["text"] as? String == "x")
        func expect(_ answer: ServerResponse, _ status: Int) {
            #expect(answer.status == status)
            #expect((answer.row["text"] != nil) == (user != nil))
            #expect(answer.row["id"] as? String == "a" && answer.row["deleted"] as? Bool == false)
            let version = answer.row["version"] as? String ?? ""
            #expect(answer.headers["ETag"] == "\"\(version)\"")
        }
        expect(await server.send("PATCH", "/tables/TodoItem/a", "{}", headers: headers), 200)
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        let undelete = await server.send(
            "POST",
            "/tables/TodoItem/a",
            classic: true,
            headers: headers
        )
        expect(undelete, 201)
        let put = await server.send("PUT", "/tables/TodoItem/a", #"{"text":"y"}"#)
        // A caller that may not read learns nothing of the row, not even when it was created.
        #expect(put.status == 200 && put.row["createdAt"] == nil)
    }

    /// The result of a stale write: method, status, and the text of the row afterwards.
    @Test(
        "A stale write is resolved by the conflict policy of the table",
        arguments: [
            (ConflictRule.reject, "PATCH", 412, "stored"), (.reject, "PUT", 412, "stored"),
            (.reject, "DELETE", 412, "stored"), (.serverWins, "PATCH", 200, "stored"),
            (.serverWins, "PUT", 200, "stored"), (.serverWins, "DELETE", 412, "stored"),
            (.clientWins, "PATCH", 200, "sent"), (.clientWins, "PUT", 200, "sent"),
            (.clientWins, "DELETE", 204, ""),
        ]
    )
    func conflictsAreResolvedByThePolicy(
        _ rule: ConflictRule,
        _ method: String,
        _ status: Int,
        _ text: String
    ) async throws {
        let server = try await server { $0.conflict = rule }
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        let tag = created.headers["ETag"] ?? ""
        let stored = await server.send("PATCH", "/tables/TodoItem/a", #"{"text":"stored"}"#)
        let answer = await server.send(
            method,
            "/tables/TodoItem/a",
            method == "DELETE" ? nil : #"{"text":"sent"}"#,
            headers: ["If-Match": tag]
        )
        #expect(answer.status == status, "\(answer.text)")
        // A device must know that the row may have another writer's values.
        #expect(answer.headers["Tideline-Conflict"] == (status == 200 ? "resolved" : nil))
        #expect(stored.headers["Tideline-Conflict"] == nil)
        let after = await server.send("GET", "/tables/TodoItem/a")
        #expect(after.row["text"] as? String ?? "" == text)
        if text == "stored" { #expect(after.body == stored.body && answer.body == stored.body) }
        // Other failed preconditions are not conflicts.
        let other = await server.send(
            "PUT",
            "/tables/TodoItem/a?__includeDeleted=true",
            "{}",
            headers: ["If-None-Match": "*"]
        )
        #expect(other.status == 412)
    }

    @Test(
        "A stale version in the body of a classic update is resolved by the policy",
        arguments: [(ConflictRule.reject, 409), (.serverWins, 200), (.clientWins, 200)]
    )
    func classicVersionsInTheBodyAreResolvedToo(_ rule: ConflictRule, _ status: Int) async throws {
        let server = try await server { $0.conflict = rule }
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        _ = await server.send("PATCH", "/tables/TodoItem/a", #"{"text":"stored"}"#)
        let version = created.row["version"] as? String ?? ""
        let answer = await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"text":"sent","version":"\#(version)"}"#,
            classic: true
        )
        #expect(answer.status == status)
        #expect(answer.row["text"] as? String == (rule == .clientWins ? "sent" : "stored"))
    }

    @Test("A tombstone is removed after its retention")
    func tombstonesAreRemovedAfterTheirDays() async throws {
        let clock = TestClock()
        var table = TestServer.todo
        table.tombstoneDays = 2
        let server = try await TestServer([table], clock: clock)
        for id in ["old", "young", "live"] {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        _ = await server.send("DELETE", "/tables/TodoItem/old")
        clock.move(by: 86_400_000_000)
        _ = await server.send("DELETE", "/tables/TodoItem/young")
        try await server.purge()
        #expect(await server.send("GET", "/tables/TodoItem/old").status == 410)
        clock.move(by: 86_400_000_000 + 1_000_000)
        try await server.purge()
        #expect(await server.send("GET", "/tables/TodoItem/old").status == 404)
        #expect(await server.send("GET", "/tables/TodoItem/young").status == 410)
        #expect(await server.send("GET", "/tables/TodoItem/live").status == 200)
    }

    @Test("Continuous writes do not postpone the purge of tombstones")
    func theWriterRemovesTombstonesDuringWrites() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            var table = TestServer.todo
            table.tombstoneDays = 1
            let server = try await TestServer(
                [table],
                path: directory + "/a.db",
                clock: clock,
                purgeInterval: .milliseconds(5)
            )
            for id in 0..<10 {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                _ = await server.send("DELETE", "/tables/TodoItem/\(id)")
            }
            clock.move(by: 2 * 86_400_000_000)
            let isGone = Flag()
            let writers = (0..<4).map { number in
                Task {
                    var count = 0
                    while !isGone.isSet, count < 5000 {
                        let body = #"{"text":"\#(number)"}"#
                        _ = await server.send("POST", "/tables/TodoItem", body)
                        count += 1
                    }
                    return count
                }
            }
            defer { isGone.set() }
            try await until {
                // If the writer reads the two clocks before and after a move, it doubts the wall clock for an hour.
                clock.move(by: 3_600_000_000)
                return await server.send("GET", "/tables/TodoItem/9").status == 404
            }
            isGone.set()
            for writer in writers { #expect(await writer.value < 5000) }
            await server.store.stop()
        }
    }

    @Test("The writer removes tombstones even if no writes arrive")
    func theWriterRemovesTombstonesWithoutWrites() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            var table = TestServer.todo
            table.tombstoneDays = 1
            let path = directory + "/a.db"
            let server = try await TestServer([table], path: path, clock: clock)
            for id in 0..<600 {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                _ = await server.send("DELETE", "/tables/TodoItem/\(id)")
            }
            await server.store.stop()
            clock.move(by: 2 * 86_400_000_000)
            let again = try await TestServer(
                [table],
                path: path,
                clock: clock,
                purgeInterval: .milliseconds(20)
            )
            try await until {
                let list = await again.send(
                    "GET",
                    "/tables/TodoItem?__includeDeleted=true&$count=true&$top=0"
                )
                // A clock that is two days ahead is trusted after an hour, and existing tombstones then count as
                // received at that time.
                clock.move(by: 3_600_000_000)
                return list.row["count"] as? Int == 0
            }
            await again.store.stop()
        }
    }
}
