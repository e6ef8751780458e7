// Goal: LISTEN is a hint and the look at the clocks the truth: with it a server hears of another's writes at once,
// without it with its next look, and never not at all. Method: a server that looks seldom.

import Foundation
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
    /// A server that hears, and one that writes.
    private struct Pair {
        let url: String
        let listener: PostgresTableStore
        let writer: PostgresTableStore
        private let told = Told()

        private final class Told: Sendable {
            let stamp = Mutex<Int64>(0)
        }

        init(pooler: PostgresPooler? = nil, looksEvery pause: Int32? = nil) async throws {
            url = try PostgresCluster.shared().database()
            writer = try await OwnerTable.store(url, Door.todo)
            let address = pooler?.url(of: url) ?? url
            listener = try await OwnerTable.store(address, Door.todo) { options in
                if let pause { options.lookPause = pause }
            }
            try await listener.watch { [told] stamps in
                for stamp in stamps where stamp.table == "todoitem" {
                    told.stamp.withLock { $0 = max($0, stamp.stamp) }
                }
            }
        }

        /// Writes a row; returns when the other server has told of it.
        func write(_ id: String) async throws {
            let made = try await OwnerTable.put(id, of: "", writer, Door.todo)
            let stamp = try #require(made.row?.state.version)
            try await PostgresWrites.soon { told.stamp.withLock { $0 >= stamp } }
        }

        func stop() async {
            await listener.stop()
            await writer.stop()
        }
    }

    /// How often the server looks, in milliseconds.
    private static let pause: Int32 = 4000

    @Test(arguments: [false, true])
    func aHintIsSoonerThanALook(isPooled: Bool) async throws {
        let pooler = isPooled ? try PostgresPooler(of: PostgresCluster.shared()) : nil
        let pair = try await Pair(pooler: pooler, looksEvery: Self.pause)
        try await pair.write("first")
        for number in 0..<3 {
            // It has just looked; behind a late notice it looks once more, and waits then.
            let begin = ContinuousClock.now
            try await Task.sleep(for: .milliseconds(300))
            try await pair.write("\(number)")
            let time = begin.duration(to: .now)
            #expect(isPooled == (time > .milliseconds(Self.pause * 3 / 4)), "\(time)")
        }
        await pair.stop()
        withExtendedLifetime(pooler) {}
    }

    /// Whoever listens is ended again and again, so that nobody is told.
    @Test func whatNobodyTellsIsSeen() async throws {
        let pair = try await Pair()
        let beside = try PostgresConnection(PostgresAddress(pair.url))
        for number in 0..<5 {
            try await PostgresWrites.soon {
                let ended = try beside.run(
                    """
                    SELECT count(*) FROM (
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND query LIKE '%tideline.clocks%'
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
