// A server that starts on a history other than the one its servers knew renews the epoch; a restart does not.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct HistoryTests {
    /// The epoch that a newly started server finds.
    private static func epoch(_ url: String) async throws -> String {
        let writes = try await PostgresWrites(url)
        let epoch = try await writes.answer { try await writes.store.epoch() }
        await writes.store.stop()
        return epoch
    }

    @Test("A restart of the server keeps the epoch")
    func restart() async throws {
        let url = try PostgresCluster.shared().database()
        let epoch = try await Self.epoch(url)
        for _ in 0..<2 { #expect(try await Self.epoch(url) == epoch) }
    }

    @Test("A failover while no server runs is detected, twice")
    func failoverWhileNoServerRuns() async throws {
        let cluster = try PostgresCluster(
            keepsCommits: true,
            settings: ["restore_command": "false"]
        )
        let url = try cluster.database()
        var epochs = [try await Self.epoch(url)]
        for _ in 0..<2 {
            try await onThread {
                try cluster.crash()
                try cluster.restart(promoted: true)
            }
            epochs.append(try await Self.epoch(url))
            #expect(try await Self.epoch(url) == epochs.last)
        }
        #expect(Set(epochs).count == 3)
    }

    @Test("A restored dump is detected")
    func restoredDump() async throws {
        let url = try PostgresCluster.shared().database()
        let epoch = try await Self.epoch(url)
        // Like a dump: all rows are written again, with the same values.
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            CREATE TEMP TABLE dump AS SELECT * FROM tideline.state;
            DELETE FROM tideline.state;
            INSERT INTO tideline.state SELECT * FROM dump
            """
        )
        #expect(try await Self.epoch(url) != epoch)
    }

    @Test("An earlier state within the same timeline is detected by running servers")
    func sameTimeline() async throws {
        let url = try PostgresCluster.shared().database()
        let writes = try await PostgresWrites(url)
        try await writes.insert("a")
        let epoch = try await writes.store.epoch()
        try Self.setBack(url)
        try await PostgresWrites.soon {
            try await writes.answer { try await writes.store.epoch() } != epoch
        }
        await writes.store.stop()
    }

    @Test("The new epoch is reported before the first write on a new connection returns")
    func epochBeforeWrites() async throws {
        let url = try PostgresCluster.shared().database()
        // Only the writer finds out, not the check of the clocks.
        let writes = try await PostgresWrites(url) { $0.checkPause = 3_600_000 }
        let reported = Mutex<[String]>([])
        writes.store.watchEpoch { epoch in reported.withLock { $0.append(epoch) } }
        try await writes.insert("a")
        let epoch = try await writes.store.epoch()
        try Self.setBack(url)
        // The first attempt may find its connection closed.
        try await writes.insertSoon("b")
        let last = reported.withLock { $0.last }
        #expect(last != nil && last != epoch)
        #expect(try await writes.store.epoch() == last)
        await writes.store.stop()
    }

    @Test("tideline restored renews the epoch, and servers that start later keep it")
    func restored() async throws {
        let url = try PostgresCluster.shared().database()
        _ = try await Self.epoch(url)
        let renewed = try PostgresMaintenance(url: url).renewEpoch()
        #expect(try await Self.epoch(url) == renewed)
    }

    /// Sets the table clocks back, which looks like a restore to the servers, and closes their connections.
    private static func setBack(_ url: String) throws {
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            BEGIN; SET LOCAL tideline.own = 'on';
            UPDATE tideline.clocks SET "stamp" = "stamp" - 1000;
            COMMIT;
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        )
    }
}
