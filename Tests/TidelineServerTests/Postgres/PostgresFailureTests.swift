// Goal: what PostgreSQL cannot do for a while is refused with 503, acknowledges nothing, and goes on when
// its reason is gone: no connection is free, a statement takes too long, a standby does not answer.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresFailureTests {
    private func refusal(_ body: () async throws -> Void) async -> ServerError? {
        await #expect(throws: ServerError.self) { try await body() }
    }

    @Test func noConnectionIsFree() async throws {
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
        let error = await refusal { _ = try await writes.row("a") }
        #expect(error?.status == 503)
        #expect(error?.headers["Retry-After"] != nil)
        others = []
        try await PostgresWrites.soon {
            do {
                return try await writes.row("a") != nil
            } catch let error as ServerError where error.status == 503 {
                return false
            }
        }
        await writes.store.stop()
    }

    @Test func aStatementThatTakesTooLongIsGivenUp() async throws {
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
        #expect(await refusal { try await writes.insert("a") }?.status == 503)
        try other.execute("DROP TRIGGER a_wait ON \"TodoItem\"")
        #expect(try await writes.insert("a").decision == .insert)
        await writes.store.stop()
    }

    // MARK: - Standbys

    /// From now on no commit ends before a standby has it that is not there.
    private func demandStandby(_ cluster: PostgresCluster) throws {
        try cluster.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", in: "postgres")
        try cluster.psql("SELECT pg_reload_conf()", in: "postgres")
    }

    private func demandNoStandby(_ cluster: PostgresCluster) throws {
        try cluster.psql("ALTER SYSTEM RESET synchronous_standby_names", in: "postgres")
        try cluster.psql("SELECT pg_reload_conf()", in: "postgres")
    }

    private static let waits = "wait_event = 'SyncRep'"

    @Test func aCommitWaitsForItsStandbyForAsLongAsItTakes() async throws {
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
            // Far longer than a statement may take.
            try cluster.psql("SELECT pg_sleep(1)", in: "postgres")
            #expect(!isDone.isSet)
            #expect(try writes.connections(where: Self.waits) > 0)
            try demandNoStandby(cluster)
            try await group.waitForAll()
        }
        #expect(try await writes.row("a") != nil)
        await writes.store.stop()
    }

    /// A write that is in the primary, and not in its standby, is no answer to its repeat.
    @Test func aRepeatWaitsForTheStandbyOfItsWrite() async throws {
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
        let error = await refusal { _ = try await first.value }
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
}
