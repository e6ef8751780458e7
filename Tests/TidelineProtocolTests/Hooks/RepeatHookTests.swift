// Repeated writes for which hooks or rules would reject a new write.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct RepeatHookTests {
    private static func named(_ name: String, firstSent: Int64) -> HTTPFields {
        [
            "Repeatability-Request-ID": name,
            "Repeatability-First-Sent": HTTPDate.text(microseconds: firstSent),
        ]
    }

    /// A First-Sent that is too far in the future before hooks run may be acceptable when the write is executed.
    ///
    /// Method: each read of the clock advances it by a second, and idempotency keys are from around the limit.
    @Test("A First-Sent time at the limit of the allowed future does not bypass a hook")
    func timeThatPassesBypassesNoHook() async throws {
        let clock = TestClock(step: 1_000_000)
        var hooks = TableHooks()
        hooks.beforeWrite = { $0.values["rank"] = 7 }
        let server = try await TestServer(clock: clock, hooks: ["TodoItem": hooks])
        var statuses: Set<Int> = []
        for ahead in 290..<320 as Range<Int64> {
            let answer = await server.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"\#(ahead)"}"#,
                headers: Self.named("\(ahead)", firstSent: clock.now() + ahead * 1_000_000)
            )
            statuses.insert(answer.status)
            if answer.status == 201 { #expect(answer.row["rank"] as? Int == 7, "\(ahead)") }
        }
        #expect(statuses == [201, 412])
    }

    @Test(
        "A repeated write gets its stored answer even if a stricter rule would reject it now",
        arguments: [false, true],
        [false, true]
    )
    func rulesThatBecameStricter(hasHooks: Bool, isInBatch: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            func open(_ rules: ColumnRules) async throws -> TestServer {
                var table = TestServer.todo
                table.schema.columns[0] = ColumnDefinition("text", .string, rules: rules)
                var hooks = TableHooks()
                if hasHooks { hooks.beforeWrite = { _ in } }
                return try await TestServer(
                    [table],
                    path: directory + "/a.db",
                    clock: clock,
                    hooks: ["TodoItem": hooks]
                )
            }
            func send(_ server: TestServer, _ name: String, _ text: String) async -> ServerResponse
            {
                await TestServer.$usesBatches.withValue(isInBatch) {
                    await server.send(
                        "POST",
                        "/tables/TodoItem",
                        #"{"text":"\#(text)"}"#,
                        headers: Self.named(name, firstSent: Tokens.start * 1_000_000)
                    )
                }
            }
            var server = try await open(ColumnRules())
            let first = await send(server, "one", "a long text")
            #expect(first.status == 201)
            await server.store.stop()
            server = try await open(ColumnRules(maxLength: 3))
            let again = await send(server, "one", "a long text")
            #expect(again.status == 201 && again.row["id"] as? String == first.row["id"] as? String)
            #expect(again.headers["Repeatability-Result"] == "accepted")
            // A write that was not executed is rejected as before, even with the key of another request.
            for (name, text) in [("two", "a long text"), ("one", "another long text")] {
                let other = await send(server, name, text)
                #expect(other.status == 400 && other.error.contains("text"), "\(other.text)")
            }
            #expect(await server.send("GET", "/tables/TodoItem").rows.count == 1)
            await server.store.stop()
        }
    }
}
