// Repeated batches of writes with idempotency keys: as a whole, in part, and concurrently.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct BatchRepeatTests {
    private static func named(_ name: String) -> [String: String] {
        [
            "Repeatability-Request-ID": name,
            "Repeatability-First-Sent": HTTPDate.text(microseconds: 1_800_000_000_000_000),
        ]
    }

    /// The server creates the ids, and later requests refer to the rows.
    private static func parts(group: String? = nil) -> [BatchPart] {
        [
            BatchPart(
                "1",
                "post",
                "tables/TodoItem",
                #"{"text":"milk"}"#,
                group: group,
                headers: named("one")
            ),
            BatchPart("2", "patch", "$1", #"{"rank":1}"#, group: group, headers: named("two")),
            BatchPart(
                "3",
                "patch",
                "$1",
                #"{"complete":true}"#,
                group: group,
                headers: named("three")
            ),
        ]
    }

    private static func bodies(_ answer: ServerResponse) -> [NSDictionary] {
        answer.parts.indices.map { answer.partBody($0) as NSDictionary }
    }

    @Test(
        "A repeated batch returns the same responses and refers to the same row",
        arguments: [nil, "g"]
    )
    func aRepeatRefersToTheSameRow(_ group: String?) async throws {
        let server = try await TestServer()
        let first = await server.batch(Self.parts(group: group))
        #expect(first.partStatuses == [201, 200, 200], "\(first.text)")
        let again = await server.batch(Self.parts(group: group))
        #expect(again.partStatuses == [201, 200, 200], "\(again.text)")
        #expect(Self.bodies(again) == Self.bodies(first))
        #expect(await server.send("GET", "/tables/TodoItem").rows.count == 1)
    }

    @Test(
        "An idempotency key for a whole batch is rejected",
        arguments: [
            ["Repeatability-Request-ID"], ["Repeatability-First-Sent"],
            ["Repeatability-Request-ID", "Repeatability-First-Sent"],
        ]
    )
    func aBatchHasNoIdempotencyKey(_ names: [String]) async throws {
        let server = try await TestServer()
        var headers: HTTPFields = [:]
        for name in names { headers.append(name, try #require(Self.named("all")[name])) }
        let answer = await server.batch(Self.parts(), headers: headers)
        #expect(answer.status == 400 && answer.row["code"] as? String == "repeatability")
        #expect(answer.error.contains("do not apply to a batch"))
        #expect(answer.headers["Repeatability-Result"] == "rejected")
        #expect(await server.send("GET", "/tables/TodoItem").rows.isEmpty)
    }

    /// The connection was lost after the first of two batches of one queue.
    @Test("A batch that repeats an executed request does not execute it again")
    func theExecutedPartOfABatchIsNotExecutedAgain() async throws {
        let server = try await TestServer()
        let first = await server.batch([Self.parts()[0]])
        let whole = await server.batch(Self.parts())
        #expect(whole.partStatuses == [201, 200, 200])
        #expect(whole.partBody(0)["id"] as? String == first.partBody(0)["id"] as? String)
        let rows = await server.send("GET", "/tables/TodoItem").rows
        #expect(rows.count == 1 && rows[0]["rank"] as? Int == 1)
    }

    @Test("Equal batches that arrive concurrently are executed once")
    func equalConcurrentBatchesAreExecutedOnce() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let answers = await withTaskGroup(of: ServerResponse.self) { group in
                for _ in 0..<12 { group.addTask { await server.batch(Self.parts(group: "g")) } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.allSatisfy { $0.partStatuses == [201, 200, 200] })
            #expect(Set(answers.map(Self.bodies)).count == 1)
            #expect(await server.send("GET", "/tables/TodoItem").rows.count == 1)
            await server.store.stop()
        }
    }

    @Test("The same idempotency key of two callers belongs to two rows")
    func keysOfOtherCallersBelongToOtherRows() async throws {
        let server = try await TestServer(authenticator: try Tokens.authenticator())
        var ids: Set<String> = []
        for user in ["anna", "bert"] {
            let answer = await server.batch(Self.parts(), headers: try Tokens.headers(user))
            #expect(answer.partStatuses == [201, 200, 200])
            ids.insert(answer.partBody(0)["id"] as? String ?? "")
        }
        #expect(ids.count == 2)
        for id in ids {
            // UUIDs of version 7, like those without an idempotency key.
            #expect(id.utf8.count == 36 && Array(id)[14] == "7", "\(id)")
        }
    }
}
