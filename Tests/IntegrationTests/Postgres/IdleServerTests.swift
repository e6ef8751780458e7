// IdleServerTests: a server without listeners and requests rarely polls PostgreSQL, so that the database may sleep.

import Testing
import TidelinePostgres
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
    struct IdleServerTests {
        /// The times of the servers' last queries to the database, in seconds since 1970.
        private static let lastQuery = """
            SELECT coalesce(max(extract(epoch FROM query_start)), 0)::float8
            FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """

        /// A poll has four statements: with 13 seconds between two polls there are fewer than 20 a minute.
        @Test("An idle server executes fewer than 20 statements a minute", .timeLimit(.minutes(3)))
        func idle() async throws {
            try await withWorkspace { workspace in
                let url = try PostgresCluster.shared().database()
                let server = try await ServerProcess.start(
                    in: workspace,
                    database: url,
                    configuration: #"{"tables":{"T":{"columns":{"text":"string"}}}}"#
                )
                let psql = try PostgresConnection(PostgresAddress(url))
                func last() throws -> Double { try psql.run(Self.lastQuery).real(0, 0) }
                // The statements of the start end with the first poll, which may take seconds on a busy machine.
                var times = [try last()]
                while times.count < 4 {
                    let before = times[times.count - 1]
                    times.append(
                        try await eventually("another look", within: .seconds(60)) {
                            let time = try last()
                            return time > before + 5 ? time : nil
                        }
                    )
                }
                let pauses = zip(times.dropFirst(2), times.dropFirst()).map { $0 - $1 }
                #expect(pauses.reduce(0, +) / Double(pauses.count) > 13, "\(pauses)")
                #expect(try await server.stop() == .exit(0))
            }
        }
    }
}
