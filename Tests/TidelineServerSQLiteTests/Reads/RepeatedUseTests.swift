// RepeatedUseTests: the thousandth use of an operation costs as much as the first.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

@Suite struct CommitListenerTests {
    /// The stack depth of the writer's thread at which a report is made.
    private final class Depths: Sendable {
        let depths = Mutex<[UInt]>([])

        func take() {
            var mark = 0
            let address = withUnsafeMutablePointer(to: &mark) { UInt(bitPattern: $0) }
            depths.withLock { $0.append(address) }
        }
    }

    /// A closure stored in a generic type can be wrapped again by each use; the writer would then need more stack for
    /// each commit until the stack overflows.
    @Test("The stack depth of commit reports does not grow with their number")
    func manyCommitsAreReportedLikeTheFirst() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/reports.db")
            let depths = Depths()
            try await server.store.watch { _ in depths.take() }
            for _ in 0..<300 {
                #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
            }
            let taken = depths.depths.withLock { $0 }
            // The first report is from `watch` itself.
            let commits = taken.dropFirst()
            #expect(commits.count == 300)
            let most = commits.max() ?? 0
            let least = commits.min() ?? 0
            #expect(most - least < 4096)
            await server.store.stop()
        }
    }
}

@Suite struct RepeatedReadTests {
    @Test("Digests and changes that were too long do not start as brief reads again")
    func aReadThatWasTooLongIsRemembered() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            // No query reaches it: only the limits of the lanes for brief reads are exceeded.
            limits.queryTime = .seconds(120)
            let server = try await TestServer(
                path: directory + "/long.db",
                limits: limits,
                readers: 2
            )
            let list = await server.send(
                "GET",
                "/tables/TodoItem?$filter=matchesPattern(text,'(a|b)*c$')",
                headers: ["Prefer": "odata.track-changes"]
            )
            let link = try #require(list.deltaLink)
            let text = String(repeating: "abcde", count: 1000)
            for _ in 0..<20 {
                let created = await server.send("POST", "/tables/TodoItem", #"{"text":"\#(text)"}"#)
                #expect(created.status == 201)
            }
            #expect(server.statementsKnownLong == 0)
            for _ in 0..<2 {
                let filter = "matchesPattern(text,'(a|b)*c$')"
                let digest = await server.send("GET", "/tables/TodoItem/$digest?$filter=" + filter)
                #expect(digest.status == 200, "\(digest.text)")
                #expect(server.statementsKnownLong == 1)
            }
            let changes = await server.send("GET", "/tables/TodoItem?" + link)
            #expect(changes.status == 200, "\(changes.text)")
            #expect(server.statementsKnownLong == 2)
            await server.store.stop()
        }
    }

    /// SQLite counts the steps of a statement over all its uses.
    @Test("The work limit of a brief read applies to each read of a statement")
    func briefReadsStayBrief() async throws {
        try await withTemporaryDirectory { directory in
            let database = try Database(path: directory + "/brief.db")
            let sql = """
                WITH RECURSIVE numbers(n) AS (
                    SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1
                )
                SELECT count(*) FROM numbers
                """
            for _ in 0..<500 {
                let count = try database.limitTime(.zero) {
                    try database.integer(sql, [.integer(100)])
                }
                #expect(count == 100)
            }
            // A long read ends at the first check.
            let error = #expect(throws: SQLiteError.self) {
                try database.limitTime(.zero) { try database.integer(sql, [.integer(100_000)]) }
            }
            #expect(error?.isInterrupt == true)
        }
    }
}
