// Goal: work that PostgreSQL cannot do for a while is rejected with 503, is not acknowledged, and continues when the
// cause is gone: no free connection, a lock, a statement that takes too long, a full disk, an unresponsive standby.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit
import TidelineTestSupport

@Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresFailureTests {
    private func rejection(_ body: () async throws -> Void) async -> ServerError? {
        await #expect(throws: ServerError.self) { try await body() }
    }

    @Test("A read without a free connection is rejected with 503 and succeeds later")
    func noConnectionIsFree() async throws {
        let cluster = try PostgresCluster(settings: [
            "max_connections": "12", "superuser_reserved_connections": "0", "max_wal_senders": "0",
            "wal_level": "replica",
        ])
        let writes = try await PostgresWrites(try cluster.database())
        var others: [PostgresConnection] = []
        while let other = try? PostgresConnection(PostgresAddress(writes.url)) {
            others.append(other)
        }
        // Its writer has a connection, and its readers have none.
        try await writes.insert("a")
        let error = await rejection { _ = try await writes.row("a") }
        #expect(error?.status == 503)
        #expect(error?.headers["Retry-After"] != nil)
        others = []
        #expect(try await writes.answer { try await writes.row("a") } != nil)
        await writes.store.stop()
    }

    @Test("Reads and writes of a locked table are rejected with 503 and succeed later")
    func aLockedTableIsNotAnErrorOfTheReader() async throws {
        // A separate cluster: other tests wait for the end of all transactions in the shared one.
        let cluster = try PostgresCluster()
        let writes = try await PostgresWrites(try cluster.database()) { options in
            options.limits.queryTime = .milliseconds(400)
        }
        try await writes.insert("a")
        let other = try PostgresConnection(PostgresAddress(writes.url))
        try other.execute(
            """
            BEGIN; SET LOCAL idle_in_transaction_session_timeout = '300s';
            LOCK TABLE "TodoItem" IN ACCESS EXCLUSIVE MODE
            """
        )
        #expect(await rejection { _ = try await writes.row("a") }?.status == 503)
        #expect(await rejection { try await writes.insert("b") }?.status == 503)
        try other.execute("COMMIT")
        #expect(try await writes.row("a") != nil)
        #expect(try await writes.insert("b").decision == .insert)
        await writes.store.stop()
        withExtendedLifetime(cluster) {}
    }

    @Test("A read of the locked catalog of tables times out", .timeLimit(.minutes(10)))
    func aReadOfTheCatalogTimesOut() async throws {
        let writes = try await PostgresWrites(try PostgresCluster.shared().database())
        let other = try PostgresConnection(PostgresAddress(writes.url))
        try other.execute("BEGIN; LOCK TABLE tideline.tables IN ACCESS EXCLUSIVE MODE")
        let rejected = await rejection { _ = try await writes.store.stored("todoitem") }
        #expect(rejected?.status == 503)
        try other.execute("COMMIT")
        #expect(try await writes.store.stored("todoitem")?.name == "TodoItem")
        await writes.store.stop()
    }

    @Test("A statement that takes too long is cancelled and rejected with 503")
    func aStatementThatTakesTooLongIsCancelled() async throws {
        let writes = try await PostgresWrites(try PostgresCluster.shared().database()) { options in
            options.times.statement = 300
        }
        let other = try PostgresConnection(PostgresAddress(writes.url))
        try other.execute(
            """
            CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
            CREATE TRIGGER a_wait BEFORE INSERT ON "TodoItem" FOR EACH ROW EXECUTE FUNCTION wait();
            """
        )
        #expect(await rejection { try await writes.insert("a") }?.status == 503)
        try other.execute("DROP TRIGGER a_wait ON \"TodoItem\"")
        #expect(try await writes.insert("a").decision == .insert)
        await writes.store.stop()
    }

    @Test(
        "A write to a full disk is rejected with 503, and later writes succeed",
        .enabled(if: SmallDisk.mayMount, "mounting a small disk needs privileges")
    )
    func aFullDisk() async throws {
        let cluster = try PostgresCluster()
        try await SmallDisk.with(size: "40m") { folder in
            let writes = try await PostgresWrites(try cluster.database(in: folder))
            let ballast = folder + "/ballast"
            #expect(
                FileManager.default.createFile(atPath: ballast, contents: Data(count: 8 << 20))
            )
            let text = (0..<400).map { _ in UUID().uuidString }.joined()
            var done = 0
            let full = await rejection {
                while done < 5000 {
                    try await writes.insert("a\(done)", text: text)
                    done += 1
                }
            }
            #expect(done > 10)
            #expect(full?.status == 503)
            #expect(full?.headers["Retry-After"] != nil)
            // While the disk is full, PostgreSQL 15 may end a new connection, because it caches its catalog in a file.
            try FileManager.default.removeItem(atPath: ballast)
            let first = try await writes.answer { try await writes.insert("b", text: text) }
            #expect(first.decision == .insert)
            #expect(try await writes.answer { try await writes.row("a\(done)") } == nil)
            #expect(try await writes.answer { try await writes.row("a\(done - 1)") } != nil)
            await writes.store.stop()
        }
        withExtendedLifetime(cluster) {}
    }

    // MARK: - Standbys

    /// From now on, no commit returns before a standby that does not exist has it.
    private func demandStandby(_ cluster: PostgresCluster) throws {
        try cluster.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", in: "postgres")
        try cluster.psql("SELECT pg_reload_conf()", in: "postgres")
    }

    private func demandNoStandby(_ cluster: PostgresCluster) throws {
        try cluster.psql("ALTER SYSTEM RESET synchronous_standby_names", in: "postgres")
        try cluster.psql("SELECT pg_reload_conf()", in: "postgres")
    }

    private static let waits = "wait_event = 'SyncRep'"

    @Test("A commit waits for its synchronous standby longer than the statement timeout")
    func aCommitWaitsForItsStandbyWithoutALimit() async throws {
        let cluster = try PostgresCluster(keepsCommits: true)
        let writes = try await PostgresWrites(try cluster.database()) { $0.times.statement = 200 }
        try demandStandby(cluster)
        let isDone = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await writes.insert("a")
                isDone.set()
            }
            try await PostgresWrites.soon { try writes.connections(where: Self.waits) > 0 }
            // Far longer than the statement timeout.
            try cluster.psql("SELECT pg_sleep(1)", in: "postgres")
            #expect(!isDone.isSet)
            #expect(try writes.connections(where: Self.waits) > 0)
            try demandNoStandby(cluster)
            try await group.waitForAll()
        }
        #expect(try await writes.row("a") != nil)
        await writes.store.stop()
    }

    @Test("A repeated write waits for the standby before it gets the replayed answer")
    func aRepeatedWriteWaitsForTheStandby() async throws {
        let cluster = try PostgresCluster(keepsCommits: true)
        let writes = try await PostgresWrites(try cluster.database())
        let key = RepeatKey(
            caller: nil,
            requestID: "one",
            firstSent: Int64(Date().timeIntervalSince1970 * 1_000_000),
            digest: [1]
        )
        try await writes.insert("before")
        try demandStandby(cluster)
        let first = Task { try await writes.insert("a", named: key) }
        try await PostgresWrites.soon { try writes.connections(where: Self.waits) > 0 }
        try cluster.psql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \(Self.waits)",
            in: "postgres"
        )
        let error = await rejection { _ = try await first.value }
        #expect(error?.code == ServerError.outcomeUnknown.code)
        #expect(try await writes.row("a") != nil)
        let again = Task { try await writes.insert("a", named: key) }
        try await PostgresWrites.soon { try writes.connections(where: Self.waits) > 0 }
        try demandNoStandby(cluster)
        let outcome = try await again.value
        #expect(outcome.decision == .insert)
        #expect(outcome.repeatedID == "a")
        await writes.store.stop()
    }

    // MARK: - Users

    @Test("The database user may have the name of the server's schema")
    func theDatabaseUserMayHaveTheNameOfTheServersSchema() async throws {
        let cluster = try PostgresCluster()
        try cluster.psql("CREATE ROLE tideline SUPERUSER LOGIN", in: "postgres")
        let url = try cluster.database().replacing("//postgres@", with: "//tideline@")
        let writes = try await PostgresWrites(url)
        let other = try PostgresConnection(PostgresAddress(url))
        try other.execute("INSERT INTO \"TodoItem\" (\"id\", \"complete\") VALUES ('a', FALSE)")
        let first = try #require(try await writes.row("a")?.state.version)
        #expect(first > 0)
        try other.execute("UPDATE \"TodoItem\" SET \"complete\" = TRUE")
        #expect(try #require(try await writes.row("a")?.state.version) > first)
        try other.execute("DELETE FROM \"TodoItem\"")
        #expect(try #require(try await writes.row("a")).state.isDeleted)
        await writes.store.stop()
        withExtendedLifetime(cluster) {}
    }

    // MARK: - Crashes

    /// A database that acknowledges a commit before it is on disk; no other commit flushes it.
    @Test("Acknowledged writes survive a crash although synchronous_commit is off")
    func anAcknowledgedWriteSurvivesACrash() async throws {
        let cluster = try PostgresCluster(
            keepsCommits: true,
            settings: ["synchronous_commit": "off", "wal_writer_delay": "10s"]
        )
        let writes = try await PostgresWrites(try cluster.database())
        for count in 0..<20 { try await writes.insert("r\(count)") }
        try await onThread {
            try cluster.crash()
            try cluster.restart()
        }
        for count in 0..<20 {
            #expect(try await writes.answer { try await writes.row("r\(count)") } != nil)
        }
        await writes.store.stop()
    }

    // MARK: - Timelines

    @Test(
        "A promoted standby without the last commit gives the database a new epoch",
        arguments: [false, true]
    )
    func aPromotedStandbyIsDetected(withoutTheLastCommit isBehind: Bool) async throws {
        let cluster = try PostgresCluster(
            keepsCommits: true,
            settings: ["restore_command": "false"]
        )
        // Two servers, either of which may be first.
        let writes = try await PostgresWrites(try cluster.database())
        let other = try await PostgresWrites(writes.url)
        try await writes.insertSoon("a")
        let epoch = try await writes.answer { try await writes.store.epoch() }
        try await onThread {
            try cluster.crash()
            try cluster.copyData()
            try cluster.restart()
        }
        try await writes.insertSoon("b")
        try await onThread {
            try cluster.crash()
            if isBehind { try cluster.restoreData() }
            try cluster.restart(promoted: true)
        }
        try await other.insertSoon("c")
        try await writes.insertSoon("d")
        let lost = try await writes.answer { try await writes.row("b") } == nil
        #expect(lost == isBehind)
        let renewed = try await other.answer { try await other.store.epoch() }
        #expect((renewed != epoch) == isBehind)
        // Once, however many servers detect it.
        try await other.insertSoon("e")
        #expect(try await writes.answer { try await writes.store.epoch() } == renewed)
        await writes.store.stop()
        await other.store.stop()
    }
}
