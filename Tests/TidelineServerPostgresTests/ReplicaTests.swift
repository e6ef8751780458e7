// ReplicaTests: pages from a standby. However far it lags, a caller sees at least the writes that were acknowledged
// before the request, and a standby is never the reason for a rejection.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(
    .serialized,
    .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
)
struct ReplicaTests {
    /// A store on a primary, and the standby that it reads pages from.
    private struct Scene {
        let primary: PostgresCluster
        let standby: PostgresCluster
        let url: String
        let metrics = StoreMetrics()
        let log = LinesOfLog()

        /// A separate database on the clusters of this suite, which stop responding and crash in some tests.
        init() throws {
            (primary, standby) = try Self.pair.get()
            try standby.resumeReplay()
            url = try primary.database()
        }

        private static let pair = Result {
            let primary = try PostgresCluster()
            return (primary: primary, standby: try PostgresCluster(standbyOf: primary))
        }

        func replica(of name: String? = nil) -> String {
            standby.url(of: name ?? PostgresCluster.name(in: url))
        }

        func options(_ replica: String? = nil) -> PostgresTableStore.Options {
            var options = PostgresTableStore.Options()
            options.readers = 2
            options.replica = replica ?? self.replica()
            options.metrics = metrics
            options.log = log.log
            return options
        }

        func writes(_ replica: String? = nil) async throws -> PostgresWrites {
            let options = options(replica)
            let writes = try await PostgresWrites(url) { $0 = options }
            try await caughtUp()
            return writes
        }

        func caughtUp() async throws {
            try await onThread { [primary, standby] in try standby.catchUp(with: primary) }
        }

        var answered: Int { metrics.replicaPages.current }
        var behind: Int { metrics.replicaBehind.current }
        var failed: Int { metrics.replicaFailures.current }
    }

    private final class LinesOfLog: Sendable {
        private let text = Mutex("")

        var log: ServerLog {
            ServerLog(
                level: .debug,
                now: { 0 },
                sink: { [self] line in text.withLock { $0 += String(decoding: line, as: UTF8.self) }
                }
            )
        }

        func has(_ words: String) -> Bool { text.withLock { $0.contains(words) } }
    }

    // MARK: - What a caller sees

    private func list(
        _ store: PostgresTableStore,
        _ table: Table = PostgresWrites.table
    ) async throws -> (text: String, clock: TableClock) {
        var request = ListRequest()
        request.opening = [UInt8(ascii: "[")]
        let page = try await store.list(request, in: table)
        return (String(decoding: page.bytes, as: UTF8.self), try #require(page.clock))
    }

    private func changes(
        _ store: PostgresTableStore,
        after timestamp: Int64
    ) async throws -> ChangePage {
        let request = ChangeRequest(after: timestamp, rowsMax: 100, bytesMax: 1 << 20)
        return try await store.changes(request, in: PostgresWrites.table)
    }

    private func count(_ store: PostgresTableStore) async throws -> Int64 {
        let digest = try await store.digest(DigestRequest(), in: PostgresWrites.table)
        #expect(digest.clock?.epoch != nil)
        return digest.ranges.reduce(0) { $0 + $1.count }
    }

    // MARK: - Tests

    @Test("Pages, changes and counts are read from an up-to-date standby")
    func pagesAreReadFromAnUpToDateStandby() async throws {
        let scene = try Scene()
        let writes = try await scene.writes()
        try await writes.insert("a")
        try await scene.caughtUp()
        let page = try await list(writes.store)
        #expect(page.text.contains("\"a\"") && page.clock.timestamp > 0)
        #expect(try await changes(writes.store, after: 0).rows == 1)
        #expect(try await count(writes.store) == 1)
        #expect(scene.answered == 3 && scene.behind == 0 && scene.failed == 0)
        await writes.store.stop()
    }

    @Test("An acknowledged write is visible at each server although the standby lags")
    func aWriterSeesItsWrite() async throws {
        let scene = try Scene()
        let writes = try await scene.writes()
        let other = try await scene.writes()
        try await writes.insert("first")
        try await scene.caughtUp()
        try await onThread { try scene.standby.pauseReplay() }
        var last: Int64 = 0
        for number in 0..<5 {
            try await writes.insert("r\(number)")
            for store in [writes.store, other.store] {
                let page = try await list(store)
                #expect(page.text.contains("\"r\(number)\""))
                #expect(try await changes(store, after: last).rows == (last == 0 ? 2 + number : 1))
                #expect(try await count(store) == 2 + Int64(number))
            }
            last = try await list(other.store).clock.timestamp
        }
        #expect(scene.behind > 0 && scene.failed == 0)
        #expect(scene.log.has("it is behind"))
        // When the standby has caught up, it is read again.
        let answered = scene.answered
        try await onThread { try scene.standby.resumeReplay() }
        try await PostgresWrites.soon {
            _ = try await list(writes.store)
            return scene.answered > answered
        }
        #expect(scene.log.has("reads use the replica again"))
        await writes.store.stop()
        await other.store.stop()
    }

    @Test("A page waits for a commit that reaches the standby a moment later")
    func aPageWaitsForTheStandbyForAMoment() async throws {
        let scene = try Scene()
        var options = scene.options()
        options.replicaPatience = .seconds(30)
        let created = options
        let writes = try await PostgresWrites(scene.url) { $0 = created }
        try await scene.caughtUp()
        try await onThread { try scene.standby.pauseReplay() }
        try await writes.insert("a")
        let asked = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = '\(PostgresCluster.name(in: scene.url))' AND query_start >
            """
        let before = try scene.standby.psql("SELECT clock_timestamp()", in: "postgres")
        async let page = list(writes.store)
        // The server has asked the standby, which does not have the row.
        try await PostgresWrites.soon {
            try scene.standby.psql("\(asked) '\(before)'", in: "postgres") != "0\n"
        }
        try await onThread { try scene.standby.resumeReplay() }
        let text = try await page.text
        #expect(text.contains("\"a\""))
        #expect(scene.answered == 1 && scene.behind == 0 && scene.failed == 0)
        await writes.store.stop()
    }

    @Test("An unreachable standby causes no rejection and is read again after its restart")
    func anUnreachableStandbyCausesNoRejection() async throws {
        let scene = try Scene()
        let writes = try await scene.writes()
        try await writes.insert("a")
        try await scene.caughtUp()
        #expect(try await list(writes.store).text.contains("\"a\""))
        #expect(scene.answered == 1)
        try await onThread { try scene.standby.crash() }
        for _ in 0..<10 { #expect(try await list(writes.store).text.contains("\"a\"")) }
        #expect(scene.failed > 0 && scene.answered == 1)
        try await onThread { try scene.standby.restart() }
        try await PostgresWrites.soon {
            _ = try await list(writes.store)
            return scene.answered > 1
        }
        await writes.store.stop()
    }

    /// The standby accepts connections but does not respond: the first caller is answered by the primary, and callers
    /// after it do not wait.
    @Test("A standby that stops responding delays at most one caller and causes no rejection")
    func aStandbyThatStopsRespondingCausesNoRejection() async throws {
        let scene = try Scene()
        var options = scene.options()
        options.limits.queryTime = .seconds(4)
        let created = options
        let other = try await PostgresWrites(scene.url) { $0 = created }
        options.replicaRest = .seconds(600)
        let rests = options
        let writes = try await PostgresWrites(scene.url) { $0 = rests }
        try await writes.insert("a")
        try await scene.caughtUp()
        for store in [writes.store, other.store] {
            #expect(try await list(store).text.contains("\"a\""))
        }
        #expect(scene.answered == 2)
        try await onThread { try scene.standby.setPaused(true) }
        #expect(try await list(writes.store).text.contains("\"a\""))
        #expect(scene.failed == 1)
        for _ in 0..<10 { #expect(try await list(writes.store).text.contains("\"a\"")) }
        // No later caller has tried the standby.
        #expect(scene.failed == 1 && scene.answered == 2)
        #expect(try await list(other.store).text.contains("\"a\""))
        try await onThread { try scene.standby.setPaused(false) }
        try await PostgresWrites.soon {
            _ = try await list(other.store)
            return scene.answered > 2
        }
        await writes.store.stop()
        await other.store.stop()
    }

    /// A recovery that cancels conflicting queries at once, while changes are vacuumed immediately.
    @Test("Queries that are cancelled on a standby cause no rejection")
    func cancelledQueriesOnAStandbyCauseNoRejection() async throws {
        let scene = try Scene()
        try scene.standby.psql("ALTER SYSTEM SET max_standby_streaming_delay = 0", in: "postgres")
        try scene.standby.psql("SELECT pg_reload_conf()", in: "postgres")
        let writes = try await scene.writes()
        for number in 0..<50 { try await writes.insert("r\(number)", text: "long") }
        try await scene.caughtUp()
        let vacuum = Task {
            while !Task.isCancelled {
                try await onThread {
                    try scene.primary.psql(
                        "UPDATE \"TodoItem\" SET \"rank\" = 1 WHERE \"id\" = 'r1'",
                        in: PostgresCluster.name(in: scene.url)
                    )
                    try scene.primary.psql(
                        "VACUUM \"TodoItem\"",
                        in: PostgresCluster.name(in: scene.url)
                    )
                }
            }
        }
        for _ in 0..<200 { #expect(try await count(writes.store) == 50) }
        vacuum.cancel()
        _ = try? await vacuum.value
        try scene.standby.psql("ALTER SYSTEM RESET max_standby_streaming_delay", in: "postgres")
        try scene.standby.psql("SELECT pg_reload_conf()", in: "postgres")
        await writes.store.stop()
    }

    @Test("A page never has the old epoch of a standby that lags")
    func aStandbyNeverServesTheOldEpoch() async throws {
        let scene = try Scene()
        let writes = try await scene.writes()
        try await writes.insert("a")
        try await scene.caughtUp()
        let before = try await list(writes.store).clock.epoch
        #expect(scene.answered == 1)
        try await onThread { try scene.standby.pauseReplay() }
        let renewed = try PostgresMaintenance(url: scene.url).renewEpoch()
        #expect(renewed != before)
        #expect(try await list(writes.store).clock.epoch == renewed)
        #expect(scene.log.has("its epoch differs"))
        try await onThread { try scene.standby.resumeReplay() }
        await writes.store.stop()
    }

    @Test("A page never has the old columns of a standby that lags")
    func aStandbyNeverServesTheOldSchemaVersion() async throws {
        let scene = try Scene()
        let writes = try await scene.writes()
        try await writes.insert("a")
        try await scene.caughtUp()
        try await onThread { try scene.standby.pauseReplay() }
        var definition = TestServer.todo
        definition.schema.columns.append(ColumnDefinition("later", .string))
        var options = scene.options()
        // Each page tries the standby.
        options.replicaRest = .zero
        let store = try PostgresTableStore(url: scene.url, options: options)
        let stored = try await store.prepare([definition], filtered: [], isComplete: true)
        let table = Table(try #require(stored.first))
        for _ in 0..<3 {
            #expect(try await list(store, table).text.contains("\"later\":null"))
        }
        try await onThread { try scene.standby.resumeReplay() }
        try await scene.caughtUp()
        let answered = scene.answered
        try await PostgresWrites.soon {
            let page = try await list(store, table)
            #expect(page.text.contains("\"later\":null"))
            return scene.answered > answered
        }
        await writes.store.stop()
        await store.stop()
    }

    @Test("A replica of another database is not read")
    func anotherDatabaseIsRejectedAsAReplica() async throws {
        let scene = try Scene()
        let other = try scene.primary.database()
        let stranger = try await PostgresWrites(other)
        try await stranger.insert("strange")
        try await scene.caughtUp()
        let writes = try await scene.writes(scene.replica(of: PostgresCluster.name(in: other)))
        for _ in 0..<3 {
            let page = try await list(writes.store)
            #expect(!page.text.contains("strange"))
        }
        #expect(scene.answered == 0 && scene.log.has("a copy of another database"))
        await stranger.store.stop()
        await writes.store.stop()
    }

    @Test(
        "An invalid replica address is rejected without showing the password",
        arguments: ["sqlite:a.db", "mysql://h/d", "postgres://me:se@cret@h/d"]
    )
    func anInvalidAddressIsRejected(address: String) async throws {
        let error = await #expect(throws: (any Error).self) {
            let json = #"{"listen":"127.0.0.1:0","replica":"\#(address)","database":"DATABASE"}"#
            let url = try PostgresCluster.shared().database()
            let text = json.replacing("DATABASE", with: url)
            let configuration = try ServerConfiguration(json: Array(text.utf8))
            _ = try await TidelineServer(configuration: configuration).start()
        }
        let text = String(describing: error)
        #expect(text.contains("replica: ") && !text.contains("cret"))
    }

    @Test("A replica is rejected unless the database is in PostgreSQL")
    func aFileCannotHaveAReplica() async throws {
        var configuration = ServerConfiguration()
        configuration.database = .memory
        configuration.replica = "postgres://h/d"
        configuration.port = 0
        let error = await #expect(throws: (any Error).self) {
            _ = try await TidelineServer(configuration: configuration).start()
        }
        #expect(String(describing: error).contains("replica: only a PostgreSQL database"))
    }
}
