// Goal: the number of a server's connections is limited by its settings; when all readers are in use reads wait, and
// when too many wait they are rejected with 503 until readers are free. Method: a lock on the table blocks every reader
// for as long as the test needs.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.serialized, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing"))
struct ReaderPoolTests {
    private static let waits = "wait_event_type = 'Lock'"

    /// Blocks all reads of the table until it is released.
    private static func lock(_ url: String) throws -> PostgresConnection {
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(
            """
            BEGIN; SET LOCAL idle_in_transaction_session_timeout = '300s';
            LOCK TABLE "TodoItem" IN ACCESS EXCLUSIVE MODE
            """
        )
        return connection
    }

    @Test("The number of connections for reads is limited", arguments: [2, 5])
    func theNumberOfConnectionsIsLimited(readers: Int) async throws {
        let writes = try await PostgresWrites(try PostgresCluster.shared().database()) { options in
            options.readers = readers
            options.limits.queryTime = .seconds(300)
        }
        try await writes.insert("a")
        let lock = try Self.lock(writes.url)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<60 {
                group.addTask {
                    let row = try await writes.row("a")
                    #expect(row != nil)
                }
            }
            try await PostgresWrites.soon {
                try writes.connections(where: Self.waits) == Int64(readers)
            }
            // In addition, a connection that writes and one that polls the clocks, and the one that holds the lock.
            let own = "application_name = 'tideline'"
            let others: Int64 = 1
            // A new connection and the one that it replaces may both be visible for a moment.
            try await PostgresWrites.soon {
                try writes.connections(where: own) == Int64(readers) + 2 + others
            }
            try lock.execute("COMMIT")
            try await group.waitForAll()
            for number in 0..<40 {
                group.addTask { try await writes.insert("r\(number)") }
                group.addTask { _ = try await writes.row("r\(number)") }
            }
            try await group.waitForAll()
            try await PostgresWrites.soon {
                try writes.connections(where: own) == Int64(readers) + 2 + others
            }
        }
        await writes.store.stop()
        try await PostgresWrites.soon { try writes.connections(where: "TRUE") <= 1 }
    }

    private final class Count: Sendable {
        private let count = Mutex(0)

        var value: Int { count.withLock { $0 } }

        func add() { count.withLock { $0 += 1 } }
    }

    /// The maximum number of waiting reads in the store.
    private static let queueMax = 10_000

    @Test("A read is rejected with 503 when the queue is full")
    func aReadIsRejectedWhenTheQueueIsFull() async throws {
        // A separate cluster, because this test waits for long, and other tests wait for the end of all transactions.
        let cluster = try PostgresCluster()
        let writes = try await PostgresWrites(try cluster.database()) { options in
            options.limits.queryTime = .seconds(500)
        }
        try await writes.insert("a")
        let lock = try Self.lock(writes.url)
        let (rejected, answered) = (Count(), Count())
        let tooMany = 30
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    await #expect(throws: Never.self) { _ = try await writes.row("a") }
                }
            }
            await #expect(throws: Never.self) {
                try await PostgresWrites.soon { try writes.connections(where: Self.waits) == 2 }
            }
            for _ in 0..<Self.queueMax + tooMany {
                group.addTask {
                    do {
                        _ = try await writes.store.epoch()
                        answered.add()
                    } catch let error as ServerError {
                        #expect(error.status == 503 && error.headers["Retry-After"] != nil)
                        rejected.add()
                    } catch {
                        Issue.record(error)
                    }
                }
            }
            await #expect(throws: Never.self) {
                try await PostgresWrites.soon { rejected.value == tooMany }
            }
            // No read was answered, and writes continue: they have a separate connection.
            #expect(answered.value == 0)
            #expect(throws: Never.self) { try lock.execute("COMMIT") }
            await group.waitForAll()
        }
        #expect(rejected.value == tooMany)
        #expect(answered.value == Self.queueMax)
        #expect(try await writes.row("a") != nil)
        await writes.store.stop()
        withExtendedLifetime(cluster) {}
    }

    @Test("A read that waits longer than the query time limit is rejected")
    func aReadThatWaitsTooLongIsRejected() async throws {
        let cluster = try PostgresCluster()
        let url = try cluster.database()
        var limits = ServerLimits()
        limits.queryTime = .milliseconds(300)
        let server = try await TestServer(onPostgres: true, database: url, limits: limits)
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        let lock = try Self.lock(url)
        await withTaskGroup(of: ServerResponse.self) { group in
            for number in 0..<20 {
                let target = ["", "/a", "/$digest", "?$count=true"][number % 4]
                group.addTask { await server.send("GET", "/tables/TodoItem" + target) }
            }
            var busy = 0
            for await answer in group {
                // 400 if the machine is so slow that the time runs out within a statement.
                let isBusy = answer.status == 503
                let rejection = isBusy ? ServerError.queryTooSlow : .queryTooExpensive
                #expect(answer.status == rejection.status, "\(answer.text)")
                #expect(answer.error == rejection.message)
                #expect((answer.headers["Retry-After"] != nil) == isBusy)
                busy += isBusy ? 1 : 0
            }
            #expect(busy > 0)
        }
        try lock.execute("COMMIT")
        var answer = ServerResponse(status: 0)
        for _ in 0..<50 where answer.status != 200 {
            answer = await server.send("GET", "/tables/TodoItem/a")
        }
        #expect(answer.status == 200)
        withExtendedLifetime(cluster) {}
    }
}
