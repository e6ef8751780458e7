// The idempotency ledger is bounded whichever caller fills it, and a caller keeps the entries that fit its share.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineSQLite
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite struct LedgerShareTests {
    /// A server on one of the databases, with a limit for its ledger.
    private struct Server {
        let testServer: TestServer
        let clock: TestClock
        let path: String
        let url: String?

        func named(_ name: String, _ user: String, at time: Int64? = nil) throws -> HTTPFields {
            var fields = try Tokens.headers(user)
            fields.append("Repeatability-Request-ID", name)
            let time = HTTPDate.text(microseconds: time ?? clock.current)
            fields.append("Repeatability-First-Sent", time)
            return fields
        }

        /// The total size of the entries, as recorded in the ledger.
        func bytes() throws -> Int64 {
            guard let url else {
                let file = try Database(path: path, mode: .readOnly)
                let sql = """
                    SELECT sum(200 + ifnull(length(CAST("row" AS BLOB)), 0)) FROM tideline_ledger
                    """
                return try file.integer(sql) ?? 0
            }
            return try PostgresConnection(PostgresAddress(url)).run(
                """
                SELECT sum(200 + coalesce(octet_length("row"), 0))::bigint FROM tideline.ledger
                """
            ).integer(0, 0)
        }
    }

    private static func with(
        _ onPostgres: Bool,
        bytes: Int,
        callerBytes: Int = 0,
        _ body: (Server) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock(step: 1000)
            let path = directory + "/a.db"
            let url = try onPostgres ? PostgresCluster.shared().database() : nil
            var limits = ServerLimits()
            limits.ledgerBytes = bytes
            limits.callerBytes = callerBytes
            let testServer = try await TestServer(
                path: onPostgres ? nil : path,
                onPostgres: onPostgres,
                database: url,
                clock: clock,
                limits: limits,
                authenticator: try Tokens.authenticator()
            )
            try await body(Server(testServer: testServer, clock: clock, path: path, url: url))
            await testServer.store.stop()
        }
    }

    @Test("Small changes of a large row do not fill the ledger", arguments: AuditedServer.backends)
    func aLargeRowIsReadAgain(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres, bytes: 1 << 20) { server in
            let text = String(repeating: "x", count: 300_000)
            let body = #"{"id":"a","text":"\#(text)"}"#
            let fields = try server.named("make", "anna")
            let created = await server.testServer.send(
                "POST",
                "/tables/TodoItem",
                body,
                headers: fields
            )
            #expect(created.status == 201)
            let again = await server.testServer.send(
                "POST",
                "/tables/TodoItem",
                body,
                headers: fields
            )
            #expect(again.status == 201 && again.body == created.body)
            #expect(again.headers["ETag"] == created.headers["ETag"])
            #expect(again.headers["Location"] == created.headers["Location"])
            var last: (HTTPFields, ServerResponse)?
            for number in 0..<60 {
                let fields = try server.named("n\(number)", "anna")
                let patch = #"{"rank":\#(number)}"#
                let answer = await server.testServer.send(
                    "PATCH",
                    "/tables/TodoItem/a",
                    patch,
                    headers: fields
                )
                #expect(answer.status == 200)
                last = (fields, answer)
            }
            #expect(try server.bytes() < 60 * 300)
            let (lastFields, answer) = try #require(last)
            let repeated = await server.testServer.send(
                "PATCH",
                "/tables/TodoItem/a",
                #"{"rank":59}"#,
                headers: lastFields
            )
            #expect(repeated.status == 200 && repeated.body == answer.body)
            #expect(repeated.headers["ETag"] == answer.headers["ETag"])
            // The row is deleted, and the response has the part that the ledger stored.
            let gone = try Tokens.headers("anna")
            _ = await server.testServer.send("DELETE", "/tables/TodoItem/a", headers: gone)
            let late = await server.testServer.send(
                "PATCH",
                "/tables/TodoItem/a",
                #"{"rank":59}"#,
                headers: lastFields
            )
            #expect(late.status == 200 && late.row["id"] as? String == "a")
        }
    }

    @Test("A caller who fills the ledger loses entries first", arguments: AuditedServer.backends)
    func theCallerWithTheMostBytesLosesEntries(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres, bytes: 200_000) { server in
            let body = #"{"text":"bert's"}"#
            let of = try server.named("b", "bert")
            let first = await server.testServer.send("POST", "/tables/TodoItem", body, headers: of)
            #expect(first.status == 201)
            let text = String(repeating: "x", count: 3000)
            var oldest: HTTPFields = [:]
            for number in 0..<150 {
                server.clock.move(by: 1_000_000)
                let fields = try server.named("n\(number)", "anna")
                if number == 0 { oldest = fields }
                let row = #"{"id":"r\#(number)","text":"\#(text)"}"#
                let answer = await server.testServer.send(
                    "POST",
                    "/tables/TodoItem",
                    row,
                    headers: fields
                )
                #expect(answer.status == 201, "\(answer.text)")
                #expect(try server.bytes() <= 200_000)
            }
            let again = await server.testServer.send("POST", "/tables/TodoItem", body, headers: of)
            #expect(again.status == 201 && again.body == first.body)
            // Her dropped writes are not taken for new ones, and none of his writes is rejected because of them.
            let row = #"{"id":"r0","text":"\#(text)"}"#
            let late = await server.testServer.send(
                "POST",
                "/tables/TodoItem",
                row,
                headers: oldest
            )
            #expect(late.status == 412 && late.code == "repeatabilityExpired")
            let old = try server.named("c", "bert", at: server.clock.current - 140_000_000)
            #expect(
                await server.testServer.send("POST", "/tables/TodoItem", "{}", headers: old).status
                    == 201
            )
            try await server.testServer.purge()
            let metrics = await server.testServer.send("GET", "/metrics").text
            #expect(metrics.contains("tideline_ledger_bytes"))
        }
    }

    @Test(
        "A request time in the future does not disable the limit of the ledger",
        arguments: AuditedServer.backends
    )
    func aTimeInTheFutureDisablesNoLimit(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres, bytes: 100_000) { server in
            server.clock.move(by: 600_000_000)
            let wrong = try server.named("ahead", "anna")
            #expect(
                await server.testServer.send("POST", "/tables/TodoItem", "{}", headers: wrong)
                    .status
                    == 201
            )
            server.clock.move(by: -600_000_000)
            let text = String(repeating: "x", count: 3000)
            for number in 0..<80 {
                server.clock.move(by: 1_000_000)
                let user = number % 2 == 0 ? "anna" : "bert"
                let fields = try server.named("n\(number)", user)
                let row = #"{"text":"\#(text)"}"#
                let answer = await server.testServer.send(
                    "POST",
                    "/tables/TodoItem",
                    row,
                    headers: fields
                )
                #expect(answer.status == 201, "\(answer.text)")
                #expect(try server.bytes() <= 100_000)
            }
        }
    }

    @Test(
        "The bytes that a write causes are charged to its caller",
        arguments: AuditedServer.backends
    )
    func causedBytesAreCharged(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres, bytes: 1 << 20, callerBytes: 100_000) { server in
            let text = String(repeating: "x", count: 600_000)
            let body = #"{"id":"a","text":"\#(text)"}"#
            let bert = try Tokens.headers("bert")
            let created = await server.testServer.send(
                "POST",
                "/tables/TodoItem",
                body,
                headers: bert
            )
            #expect(created.status == 201)
            var statuses: [Int] = []
            for number in 0..<4 {
                let fields = try server.named("n\(number)", "anna")
                let patch = #"{"rank":\#(number)}"#
                let answer = await server.testServer.send(
                    "PATCH",
                    "/tables/TodoItem/a",
                    patch,
                    headers: fields
                )
                statuses.append(answer.status)
            }
            // Ten seconds' worth is a million bytes, and each change writes 600,000.
            #expect(statuses == [200, 200, 429, 429])
        }
    }

    @Test("The ledger entries of an older database, which have no sizes, are counted")
    func olderEntriesAreCounted() async throws {
        try await Self.with(false, bytes: 1 << 20) { server in
            let fields = try server.named("n", "anna")
            _ = await server.testServer.send("POST", "/tables/TodoItem", "{}", headers: fields)
            await server.testServer.store.stop()
            let file = try Database(path: server.path, mode: .existing)
            try file.execute(
                """
                DROP TABLE tideline_ledger_callers; DROP INDEX tideline_ledger_caller;
                ALTER TABLE tideline_ledger DROP COLUMN bytes; DROP TABLE tideline_receipts;
                PRAGMA user_version = 5
                """
            )
            let testServer = try await TestServer(
                path: server.path,
                authenticator: try Tokens.authenticator()
            )
            let again = await testServer.send("POST", "/tables/TodoItem", "{}", headers: fields)
            #expect(again.status == 201)
            await testServer.store.stop()
            let counted = try Database(path: server.path, mode: .readOnly)
            let all = "SELECT bytes FROM tideline_ledger_callers WHERE caller = '*'"
            #expect(try counted.integer(all) == server.bytes())
        }
    }
}
