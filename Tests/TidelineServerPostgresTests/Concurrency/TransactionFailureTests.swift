// Goal: a transaction that PostgreSQL rejects is retried if a retry may succeed, and rejected otherwise; a write is
// executed once, however often its transaction started. Method: a trigger that fails the first n times, counted by a
// sequence, which no rollback undoes; and external transactions that really conflict with the server's.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.serialized, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing"))
struct TransactionFailureTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let state: String
        let times: Int
        var isAtCommit = false
        let status: Int
        var code = ""
        /// How often the row was tried.
        let tries: Int

        var testDescription: String {
            "\(state) \(times) times\(isAtCommit ? " at COMMIT" : "")"
        }
    }

    private static let always = 1000

    static let cases = [
        Case(state: "40001", times: 1, status: 201, tries: 2),
        Case(state: "40001", times: 4, status: 201, tries: 5),
        Case(state: "40001", times: always, status: 503, tries: 5),
        Case(state: "40001", times: 3, isAtCommit: true, status: 201, tries: 4),
        Case(state: "40001", times: always, isAtCommit: true, status: 503, tries: 5),
        Case(state: "40P01", times: 4, status: 201, tries: 5),
        Case(state: "40P01", times: 1, isAtCommit: true, status: 201, tries: 2),
        // A row that appeared can be read by the next attempt; otherwise the error is the row's.
        Case(state: "23505", times: 1, status: 201, tries: 2),
        Case(state: "23505", times: always, status: 400, tries: 6),
        // With a separate savepoint a group is rejected alone.
        Case(state: "23514", times: 1, status: 201, tries: 2),
        Case(state: "23514", times: always, status: 400, tries: 2),
        Case(state: "23514", times: always, isAtCommit: true, status: 400, tries: 2),
        Case(state: "22003", times: always, status: 400, tries: 2),
        Case(state: "55P03", times: always, status: 503, tries: 2),
        Case(state: "XX000", times: always, status: 500, tries: 2),
        // An error that a retry does not fix is rejected at once.
        Case(state: "53100", times: always, status: 503, tries: 1),
        Case(state: "53200", times: always, status: 503, tries: 1),
        Case(state: "57014", times: always, status: 503, tries: 1),
        Case(state: "25006", times: always, status: 503, tries: 1),
        // The COMMIT was sent with it: only the database knows the outcome.
        Case(state: "57P01", times: 1, status: 503, code: "outcomeUnknown", tries: 1),
        Case(
            state: "57P01",
            times: 1,
            isAtCommit: true,
            status: 503,
            code: "outcomeUnknown",
            tries: 1
        ),
    ]

    private static func fail(_ one: Case) -> String {
        """
        CREATE SEQUENCE tries;
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('tries') <= \(one.times) THEN
                RAISE EXCEPTION 'made up' USING ERRCODE = '\(one.state)';
            END IF;
            RETURN NEW;
        END $$;
        CREATE \(one.isAtCommit ? "CONSTRAINT TRIGGER tideline_z_fail AFTER" : "TRIGGER tideline_z_fail AFTER")
        INSERT ON "TodoItem" \(one.isAtCommit ? "DEFERRABLE INITIALLY DEFERRED" : "")
        FOR EACH ROW WHEN (NEW."id" = 'fails') EXECUTE FUNCTION fail();
        """
    }

    private static func named(_ name: String) -> HTTPFields {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        let first = formatter.string(from: Date(timeIntervalSince1970: 1_800_000_000))
        return ["Repeatability-Request-ID": name, "Repeatability-First-Sent": first]
    }

    @Test("A failed transaction is retried or rejected, depending on its error", arguments: cases)
    func transactionsAreRetriedOrRejected(one: Case) async throws {
        let url = try PostgresCluster.shared().database()
        let server = try await TestServer(onPostgres: true, database: url)
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute(Self.fail(one))
        let body = #"{"id":"fails","text":"once"}"#
        func post() async -> ServerResponse {
            await server.send("POST", "/tables/TodoItem", body, headers: Self.named("one"))
        }
        let answer = await post()
        #expect(answer.status == one.status, "\(answer.text)")
        #expect((answer.headers["Retry-After"] != nil) == (one.status == 503))
        if !one.code.isEmpty { #expect(answer.text.contains(one.code)) }
        #expect(try psql.run("SELECT last_value FROM tries").integer(0, 0) == Int64(one.tries))
        let isThere = await server.send("GET", "/tables/TodoItem/fails").status == 200
        #expect(isThere == (one.status == 201))
        // Other writes are unaffected, and the same request is executed once, when that is possible.
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"next"}"#).status == 201)
        try psql.execute("DROP TRIGGER tideline_z_fail ON \"TodoItem\"")
        let again = await post()
        #expect(again.status == 201, "\(again.text)")
        if one.status == 201 { #expect(again.text == answer.text) }
        let rows = try psql.run("SELECT \"id\" FROM \"TodoItem\" WHERE \"text\" = 'once'")
        #expect(rows.count == 1)
    }

    // MARK: - Real conflicts

    /// How long a transaction waits for a row, in milliseconds: long enough for a deadlock to be detected.
    private static let briefLock = 9000

    /// A server whose lock waits are checked for a deadlock after a second.
    private static func begin() async throws -> (
        server: TestServer, url: String, psql: PostgresConnection
    ) {
        let cluster = try PostgresCluster.shared()
        let url = try cluster.database()
        let name = PostgresCluster.name(in: url)
        try cluster.psql("ALTER DATABASE \(name) SET deadlock_timeout = '1s'", in: "postgres")
        let server = try await TestServer(
            onPostgres: true,
            database: url,
            briefLock: Self.briefLock
        )
        for id in ["a", "b"] {
            let body = #"{"id":"\#(id)","text":"first"}"#
            try #require(await server.send("POST", "/tables/TodoItem", body).status == 201)
        }
        return (server, url, try PostgresConnection(PostgresAddress(url)))
    }

    /// Returns when a server waits for a row.
    private static func waits(in url: String) async throws {
        let connection = try PostgresConnection(PostgresAddress(url))
        try await PostgresWrites.soon {
            try connection.run(
                """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                AND wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE%'
                """
            ).integer(0, 0) > 0
        }
    }

    private static let group = """
        {"requests":[\
        {"id":"1","atomicityGroup":"g","method":"PATCH","url":"/tables/TodoItem/a",\
        "headers":{"Content-Type":"application/json"},"body":{"text":"second"}},\
        {"id":"2","atomicityGroup":"g","method":"PATCH","url":"/tables/TodoItem/b",\
        "headers":{"Content-Type":"application/json"},"body":{"text":"second"}},\
        {"id":"3","atomicityGroup":"g","method":"POST","url":"/tables/TodoItem",\
        "headers":{"Content-Type":"application/json"},"body":{"id":"c","text":"second"}}]}
        """

    private static func statuses(_ answer: ServerResponse) -> [Int?] {
        (answer.row["responses"] as? [[String: Any]] ?? []).map { $0["status"] as? Int }
    }

    private static func texts(_ connection: PostgresConnection) throws -> [String] {
        let found = try connection.run("SELECT \"text\" FROM \"TodoItem\" ORDER BY \"id\"")
        return (0..<found.count).map { found.text($0, 0) }
    }

    /// The server locks a, then b; the external transaction b, then a.
    ///
    /// The server's transaction is the one that fails: it has waited longer.
    @Test("A write whose transaction ends in a deadlock is retried")
    func aDeadlockIsRetried() async throws {
        let (server, url, psql) = try await Self.begin()
        for _ in 0..<4 {
            try psql.execute(
                """
                BEGIN; SET LOCAL deadlock_timeout = '60s';
                UPDATE "TodoItem" SET "text" = 'beside' WHERE "id" = 'b'
                """
            )
            let write = Task { await server.send("POST", "/$batch", Self.group) }
            try await Self.waits(in: url)
            try psql.execute(
                "UPDATE \"TodoItem\" SET \"text\" = 'beside' WHERE \"id\" = 'a'; COMMIT"
            )
            let answer = await write.value
            #expect(Self.statuses(answer) == [200, 200, 201], "\(answer.text)")
            #expect(try Self.texts(psql) == ["second", "second", "second"])
            if try await Self.isReported(psql) { return }
            // Too late: the server's check was before the deadlock existed.
            #expect(await server.send("DELETE", "/tables/TodoItem/c").status == 204)
            try psql.execute("SET tideline.own = 'on'; DELETE FROM \"TodoItem\" WHERE \"id\" = 'c'")
            try psql.execute("RESET tideline.own")
        }
        Issue.record("no deadlock came about")
    }

    /// Whether PostgreSQL has counted a deadlock, which it reports with a delay.
    private static func isReported(_ psql: PostgresConnection) async throws -> Bool {
        let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return try await becomesTrue(within: .seconds(12)) {
            try psql.run(count).integer(0, 0) > 0
        }
    }

    /// If transactions use the isolation level repeatable read, which the operator may configure, a row that was
    /// changed in the meantime fails with 40001.
    @Test("A write of a row that changed meanwhile is retried under repeatable read")
    func aRowThatWasChangedMeanwhileIsRetried() async throws {
        let cluster = try PostgresCluster.shared()
        let (first, url, psql) = try await Self.begin()
        await first.store.stop()
        let name = PostgresCluster.name(in: url)
        try cluster.psql(
            "ALTER DATABASE \(name) SET default_transaction_isolation = 'repeatable read'",
            in: "postgres"
        )
        let server = try await TestServer(
            onPostgres: true,
            database: url,
            briefLock: Self.briefLock
        )
        try psql.execute("BEGIN; UPDATE \"TodoItem\" SET \"text\" = 'beside', \"rank\" = 7")
        let write = Task { await server.send("POST", "/$batch", Self.group) }
        try await Self.waits(in: url)
        try psql.execute("COMMIT")
        let answer = await write.value
        #expect(Self.statuses(answer) == [200, 200, 201], "\(answer.text)")
        #expect(try Self.texts(psql) == ["second", "second", "second"])
        // The write was planned on the row of the other transaction.
        #expect(await server.send("GET", "/tables/TodoItem/a").row["rank"] as? Double == 7)
    }

    @Test("One of two concurrent inserts of a row on two servers is rejected")
    func oneOfTwoConcurrentInsertsIsRejected() async throws {
        let url = try PostgresCluster.shared().database()
        let servers = [
            try await TestServer(onPostgres: true, database: url),
            try await TestServer(onPostgres: true, database: url),
        ]
        for number in 0..<20 {
            let statuses = await withTaskGroup(of: Int.self) { group in
                for server in servers {
                    group.addTask {
                        let body = #"{"id":"r\#(number)"}"#
                        return await server.send("POST", "/tables/TodoItem", body).status
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.sorted() == [201, 409])
        }
    }
}
