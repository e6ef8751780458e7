// Goal: each connection prepares a repeated statement once, within a limit; a changed result type, or a pooler that was
// not detected, costs a retry but never a failed request.

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
struct StatementCacheTests {
    private func connection(
        _ url: String? = nil,
        for age: Duration = .seconds(3600)
    ) throws -> PostgresConnection {
        let url = try url ?? PostgresCluster.shared().url(of: "postgres")
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.keepStatements(for: age)
        return connection
    }

    private func names(_ connection: PostgresConnection) throws -> Int64 {
        try connection.run("SELECT count(*) FROM pg_prepared_statements").integer(0, 0)
    }

    // MARK: - Names

    @Test("A statement with parameters of the same types is prepared once")
    func aStatementIsPreparedOnce() throws {
        let connection = try connection()
        let add = { (number: Int64) in
            PostgresStatement("SELECT $1 + 1", values: [.integer(number)]).prepared
        }
        #expect(try connection.run(add(1)).integer(0, 0) == 2)
        #expect(try connection.run(add(2)).integer(0, 0) == 3)
        let results = try connection.pipeline([
            PostgresStatement("BEGIN"), add(3), PostgresStatement("SELECT 9").prepared, add(4),
            PostgresStatement("SELECT 9").prepared, PostgresStatement("COMMIT"),
        ])
        #expect(results.count == 6)
        #expect(results[1...4].map { $0.integer(0, 0) } == [4, 9, 5, 9])
        #expect(try names(connection) == 2)
        // A plain statement has no name, and a null has another type than a number.
        try connection.run("SELECT 1")
        let nothing = PostgresStatement("SELECT $1::bigint + 1", values: [.null]).prepared
        #expect(try connection.run(nothing).isNull(0, 0))
        let number = PostgresStatement("SELECT $1::bigint + 1", values: [.integer(1)]).prepared
        #expect(try connection.run(number).integer(0, 0) == 2)
        #expect(try names(connection) == 4)
    }

    @Test("A statement that was not prepared because of an error is prepared later")
    func aStatementThatAnErrorKeptFromBeingPreparedIsPreparedLater() throws {
        let connection = try connection()
        let good = PostgresStatement("SELECT 1").prepared
        let late = PostgresStatement("SELECT 2").prepared
        for _ in 0..<2 {
            let error = #expect(throws: PostgresError.self) {
                try connection.pipeline([
                    PostgresStatement("BEGIN"), good,
                    PostgresStatement("SELECT no_column").prepared,
                    late,
                ])
            }
            #expect(error?.state == "42703")
            #expect(connection.fault == nil)
            #expect(connection.endTransaction())
        }
        #expect(try names(connection) == 1)
        #expect(try connection.pipeline([good, late]).map { $0.integer(0, 0) } == [1, 2])
        #expect(try names(connection) == 2)
    }

    @Test("The number of prepared statements does not exceed the limit")
    func thereAreNeverMoreStatementsThanTheLimit() throws {
        let connection = try connection()
        for number in 0..<300 {
            let result = try connection.run(PostgresStatement("SELECT \(number)").prepared)
            #expect(result.integer(0, 0) == Int64(number))
        }
        #expect(try names(connection) == 128)
        #expect(connection.endTransaction())
        #expect(try names(connection) == 0)
        #expect(try connection.run(PostgresStatement("SELECT 7").prepared).integer(0, 0) == 7)
        #expect(connection.endTransaction())
        #expect(try names(connection) == 1)
    }

    @Test("A prepared statement is discarded when its plan is too old")
    func anOldPlanIsDiscarded() throws {
        let connection = try connection(for: .zero)
        try connection.run(PostgresStatement("SELECT 1").prepared)
        #expect(try names(connection) == 1)
        #expect(connection.endTransaction())
        #expect(try names(connection) == 0)
        #expect(try connection.run(PostgresStatement("SELECT 1").prepared).integer(0, 0) == 1)
    }

    // MARK: - Result types

    @Test("A changed result type makes the connection unusable")
    func aChangedResultTypeIsReportedForTheConnection() throws {
        let connection = try connection(try PostgresCluster.shared().database())
        try connection.execute("CREATE TABLE f (t text); INSERT INTO f VALUES ('a')")
        let read = PostgresStatement("SELECT t FROM f").prepared
        try connection.run(read)
        try connection.execute("ALTER TABLE f ADD COLUMN n bigint")
        #expect(try connection.run(read).text(0, 0) == "a")
        try connection.execute("ALTER TABLE f ALTER COLUMN t TYPE varchar(9)")
        let error = #expect(throws: PostgresError.self) { try connection.run(read) }
        #expect(error?.state == "0A000")
        #expect(connection.fault == .changed)
        #expect(!connection.endTransaction())
    }

    @Test("A server continues to read and write after a column changes its type")
    func aServerContinuesAfterAColumnChangesItsType() async throws {
        let writes = try await PostgresWrites(try PostgresCluster.shared().database())
        for number in 0..<8 { try await writes.insert("a\(number)") }
        for number in 0..<8 { #expect(try await writes.row("a\(number)") != nil) }
        let external = try PostgresConnection(PostgresAddress(writes.url))
        try external.execute("ALTER TABLE \"TodoItem\" ALTER COLUMN \"text\" TYPE varchar(99)")
        for number in 0..<8 { #expect(try await writes.row("a\(number)") != nil) }
        for number in 0..<8 {
            #expect(try await writes.insert("b\(number)").decision == .insert)
        }
        await writes.store.stop()
    }

    // MARK: - Poolers

    @Test(
        "No statement is prepared through a pooler",
        .enabled(if: PostgresPooler.reasonToSkip == nil, "PgBouncer is not installed")
    )
    func noStatementIsKeptBehindAPooler() throws {
        let cluster = try PostgresCluster.shared()
        let pooler = try PostgresPooler(of: cluster)
        let connection = try connection(pooler.url(of: cluster.database()))
        try connection.run(PostgresStatement("SELECT 1").prepared)
        #expect(try names(connection) == 0)
    }

    /// Other clients hold the pooler's connections in turn, so that the server gets different connections.
    @Test(
        "A server detects a pooler by its errors and stops preparing statements",
        .enabled(if: PostgresPooler.reasonToSkip == nil, "PgBouncer is not installed")
    )
    func anUndetectedPoolerIsDetectedByItsErrors() async throws {
        let cluster = try PostgresCluster.shared()
        let pooler = try PostgresPooler(of: cluster)
        let url = pooler.url(of: try cluster.database())
        let log = LogLines()
        let writes = try await PostgresWrites(url) { options in
            options.trustsPoolers = true
            options.log = ServerLog(level: .warning, now: { 0 }) { log.add($0) }
        }
        let others = try (0..<2).map { _ in try PostgresConnection(PostgresAddress(url)) }
        for round in 0..<30 {
            #expect(try await writes.insert("a\(round)").decision == .insert)
            try others[round % 2].execute("BEGIN")
            #expect(try await writes.insert("b\(round)").decision == .insert)
            #expect(try await writes.row("a\(round)") != nil)
            #expect(others[(round + 1) % 2].endTransaction())
            #expect(try await writes.row("b\(round)") != nil)
        }
        for other in others { #expect(other.endTransaction()) }
        #expect(log.lines.filter { $0.contains("statements are disabled") }.count == 1)
        #expect(log.lines.count == 1, "\(log.lines)")
        await writes.store.stop()
    }

    private final class LogLines: Sendable {
        private let all = Mutex<[String]>([])

        func add(_ line: [UInt8]) {
            all.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
        }

        var lines: [String] { all.withLock { $0 } }
    }
}
