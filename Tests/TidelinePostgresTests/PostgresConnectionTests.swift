// The driver: what it sends and reads, how it handles errors, and what it never discloses.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresConnectionTests {
    private func connection() throws -> PostgresConnection {
        try PostgresConnection(PostgresAddress(try PostgresCluster.shared().url(of: "postgres")))
    }

    @Test("Values of each type are returned unchanged by PostgreSQL")
    func valuesRoundTrip() throws {
        let connection = try connection()
        let text = "m\u{EF}lk \"\\' \u{1}\u{2028}\u{1F600}"
        let blob = Data((0...255).map { UInt8($0) })
        let result = try connection.run(
            "SELECT $1, $2, $3, $4, $5::text, $6",
            [.integer(.min), .real(-1e-300), .text(text), .blob(blob), .null, .integer(-2)]
        )
        #expect(result.integer(0, 0) == .min)
        #expect(result.real(0, 1) == -1e-300)
        #expect(result.text(0, 2) == text)
        #expect(result.data(0, 3) == blob)
        #expect(result.isNull(0, 4))
        #expect(result.integer(0, 5) == -2)
    }

    @Test("An array of texts is returned unchanged by PostgreSQL") func arraysRoundTrip() throws {
        let texts: [SQLValue] = [
            .text("a\"b\\c,{}"), .null, .text(""), .text("NULL"), .text("é\n\t "),
        ]
        let result = try connection().run(
            PostgresStatement("SELECT * FROM unnest($1::text[])", [.array(texts)])
        )
        let found = (0..<result.count).map { row in
            result.isNull(row, 0) ? SQLValue.null : .text(result.text(row, 0))
        }
        #expect(found == texts)
    }

    @Test("A pipeline ends at its first error, and the connection can be used again")
    func aPipelineEndsAtItsFirstError() throws {
        let connection = try connection()
        try connection.execute("CREATE TEMP TABLE p (n bigint PRIMARY KEY)")
        let insert = PostgresStatement("INSERT INTO p VALUES ($1)", values: [.integer(1)])
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline([PostgresStatement("BEGIN"), insert, insert, insert])
        }
        #expect(error?.isUniqueViolation == true)
        #expect(connection.isInTransaction)
        #expect(connection.endTransaction())
        #expect(try connection.run("SELECT count(*) FROM p").integer(0, 0) == 0)
        let results = try connection.pipeline([
            PostgresStatement("BEGIN"), insert, PostgresStatement("COMMIT"),
            PostgresStatement("SELECT n FROM p"),
        ])
        #expect(results.last?.integer(0, 0) == 1)
    }

    @Test("A pipeline fails if its server process stops", .timeLimit(.minutes(10)))
    func aPipelineFailsWhenItsServerStops() throws {
        for index in 0...2 {
            let connection = try connection()
            var statements = [PostgresStatement("BEGIN"), PostgresStatement("SELECT 1")]
            statements.insert(
                PostgresStatement("SELECT pg_terminate_backend(pg_backend_pid())"),
                at: index
            )
            let error = #expect(throws: PostgresError.self) { try connection.pipeline(statements) }
            #expect(error?.isConnectionLost == true)
            #expect(!connection.endTransaction())
        }
    }

    @Test("Errors contain neither values nor passwords")
    func errorsContainNoValuesAndPasswords() throws {
        let connection = try connection()
        let value = #expect(throws: PostgresError.self) {
            try connection.run("SELECT $1::text::bigint", [.text("secret-4711")])
        }
        #expect(value?.state == "22P02")
        #expect(!"\(value!)".contains("4711"))
        for url in ["postgres://u:secret@127.0.0.1:1/d", "postgres://u:secret@[bad/d"] {
            let error = #expect(throws: PostgresError.self) {
                try PostgresConnection(PostgresAddress(url))
            }
            #expect(!"\(error!)".contains("secret"))
        }
        let address = try PostgresAddress(
            "postgres://ann:secret@db.example:5433/todo?connect_timeout=3"
        )
        #expect(address.description == "postgres://db.example:5433/todo")
    }

    private final class Flag: Sendable {
        let value = Mutex(false)
    }

    @Test("A statement is cancelled from another thread")
    func aStatementIsCancelledFromAnotherThread() throws {
        let connection = try connection()
        let cancellation = connection.cancellation
        let isOver = Flag()
        // A dedicated thread, because the statement would block a thread of the pool.
        Thread.detachNewThread {
            // Until it succeeds: the statement may not have started.
            try? blockingUntil {
                guard !isOver.value.withLock({ $0 }) else { return true }
                cancellation.cancel()
                return false
            }
        }
        let error = #expect(throws: PostgresError.self) {
            try connection.run("SELECT pg_sleep(60)")
        }
        isOver.value.withLock { $0 = true }
        #expect(error?.isCanceled == true)
    }

    @Test("A lost connection is reported as lost") func aLostConnectionIsReportedAsLost() throws {
        let connection = try connection()
        let number = try connection.run("SELECT pg_backend_pid()").integer(0, 0)
        try self.connection().run("SELECT pg_terminate_backend($1::int)", [.integer(number)])
        let error = #expect(throws: PostgresError.self) {
            try connection.run("SELECT 1")
            try connection.run("SELECT 1")
        }
        #expect(error?.isConnectionLost == true)
        #expect(connection.isBroken)
        #expect(!connection.endTransaction())
    }
}
