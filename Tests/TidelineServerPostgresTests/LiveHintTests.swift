// Goal: LISTEN is a hint, and polling the clocks is authoritative: with LISTEN a server sees another server's writes at
// once, without it with its next poll, and it never misses them. Method: a server that polls rarely.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(
    .enabled(
        if: PostgresPooler.reasonToSkip == nil,
        Comment(rawValue: PostgresPooler.reasonToSkip ?? "")
    )
)
struct LiveHintTests {
    /// A server that listens, and one that writes.
    private struct Pair {
        let url: String
        let listener: PostgresTableStore
        let writer: PostgresTableStore
        private let reported = ReportedTimestamp()

        private final class ReportedTimestamp: Sendable {
            let timestamp = Mutex<Int64>(0)
        }

        init(pooler: PostgresPooler? = nil, looksEvery pause: Int32? = nil) async throws {
            url = try PostgresCluster.shared().database()
            writer = try await OwnedTable.store(url, TestServer.todo)
            let address = pooler?.url(of: url) ?? url
            listener = try await OwnedTable.store(address, TestServer.todo) { options in
                if let pause { options.checkPause = pause }
            }
            try await listener.watch { [reported] timestamps in
                for timestamp in timestamps where timestamp.table == "todoitem" {
                    reported.timestamp.withLock { $0 = max($0, timestamp.timestamp) }
                }
            }
        }

        /// Writes rows until the other server listens and reports one.
        func begin() async throws {
            var count = 0
            try await PostgresWrites.soon {
                count += 1
                _ = try await OwnedTable.put("begin\(count)", of: "", writer, TestServer.todo)
                return reported.timestamp.withLock { $0 > 0 }
            }
        }

        /// Writes a row; returns when the other server has reported it.
        func write(_ id: String) async throws {
            let created = try await OwnedTable.put(id, of: "", writer, TestServer.todo)
            let timestamp = try #require(created.row?.state.version)
            try await PostgresWrites.soon { reported.timestamp.withLock { $0 >= timestamp } }
        }

        func stop() async {
            await listener.stop()
            await writer.stop()
        }
    }

    /// The next poll would report the write too late for the test.
    @Test("A write of another server is reported by a notification before the next poll")
    func aNotificationIsFasterThanPolling() async throws {
        let pair = try await Pair(looksEvery: 90_000)
        try await pair.begin()
        // After a late notification the server polls one more time, and then waits: the first of the writes may be
        // found by that poll, and the next one is not.
        for number in 0..<5 { try await pair.write("\(number)") }
        await pair.stop()
    }

    @Test("Writes are reported by polling if no notification passes a pooler")
    func pollingIsEnoughThroughAPooler() async throws {
        let pause: Int32 = 2000
        let pooler = try PostgresPooler(of: PostgresCluster.shared())
        let pair = try await Pair(pooler: pooler, looksEvery: pause)
        try await pair.begin()
        var longest = Duration.zero
        for number in 0..<4 {
            // The server has just polled. A slow machine only makes this longer.
            let begin = ContinuousClock.now
            try await pair.write("\(number)")
            longest = max(longest, begin.duration(to: .now))
        }
        #expect(longest > .milliseconds(pause * 3 / 4), "\(longest)")
        await pair.stop()
        withExtendedLifetime(pooler) {}
    }

    /// The listening connections are terminated repeatedly, so that no server gets a notification.
    ///
    /// Their last statement reads the history.
    @Test("Changes are reported although the listening connections are terminated")
    func changesAreSeenWithoutNotifications() async throws {
        let pair = try await Pair()
        let external = try PostgresConnection(PostgresAddress(pair.url))
        for number in 0..<5 {
            try await PostgresWrites.soon {
                let ended = try external.run(
                    """
                    SELECT count(*) FROM (
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND query LIKE '%''history''%'
                        AND pid <> pg_backend_pid()
                    ) AS ended
                    """
                )
                return ended.integer(0, 0) > 0
            }
            try await pair.write("\(number)")
        }
        await pair.stop()
    }
}
