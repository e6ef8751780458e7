// ServerAuditKillTests: the server is killed with SIGKILL during writes to audited tables: each change has its entry,
// and each entry its change.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ServerAuditKillTests {
        private static let writers = 6

        /// The number of answered writes.
        private final class Answers: Sendable {
            private let count = Mutex(0)

            /// The count including this one.
            func next() -> Int {
                count.withLock { count in
                    count += 1
                    return count
                }
            }
        }

        private static let configuration = """
            {
              "tables": {
                "Note": { "columns": { "text": "string", "rank": "integer" }, "audit": true },
                "TodoItem": {
                  "columns": { "text": "string" }, "audit": true, "softDelete": false
                }
              }
            }
            """

        @Test("Each change has its audit entry after a server on SQLite is killed")
        func aKillSeparatesNoChangeFromItsEntry() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let file = try DatabaseFile(workspace.path("server.db"))
                try await kill(server) {
                    try file.expectIntact()
                    try check(audit: "tideline_audit") { try file.integer($0) }
                }
            }
        }

        @Test(
            "Each change has its audit entry after a server on PostgreSQL is killed",
            .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
        )
        func aKillSeparatesNoChangeFromItsEntryOnPostgres() async throws {
            try await withWorkspace { workspace in
                let cluster = try PostgresCluster.shared()
                let url = try cluster.database()
                let server = try await ServerProcess.start(
                    in: workspace,
                    database: url,
                    configuration: Self.configuration
                )
                let database = PostgresCluster.name(in: url)
                try await kill(server) {
                    try check(audit: #"tideline"."audit"#) { sql in
                        let text = try cluster.psql(sql, in: database)
                        return Int64(text.trimmingCharacters(in: .whitespacesAndNewlines))
                    }
                }
            }
        }

        /// The kills are right after a response, while other writes are under way.
        private func kill(_ first: ServerProcess, checkDatabase: () throws -> Void) async throws {
            var server = first
            for (round, goal) in [5, 23, 41, 60].enumerated() {
                try await load(server, round: round, killBehind: goal)
                try checkDatabase()
                server = try await server.restart()
                try checkDatabase()
            }
            #expect(try await server.stop() == .exit(0))
        }

        private func load(_ server: ServerProcess, round: Int, killBehind goal: Int) async throws {
            let transport = CurlTransport()
            let answers = Answers()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<Self.writers {
                    group.addTask {
                        let wire = Wire(endpoint: server.url, transport: transport)
                        for number in 0... {
                            let id = "r\(round)-w\(writer)-\(number)"
                            for step in 0..<4 {
                                let status = try? await Self.send(step, of: id, to: wire)
                                guard let status else { return }
                                #expect(status == Self.statuses[step], "step \(step)")
                                if answers.next() == goal { try await server.process.destroy() }
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }

        /// The status of each step; of the batch, the greater one of its delete and its insert.
        private static let statuses = [201, 200, 200, 204]

        /// A row that is inserted, two changes, and a batch of two atomic writes.
        private static func send(_ step: Int, of id: String, to wire: Wire) async throws -> Int {
            switch step {
            case 0:
                let body = #"{"id":"\#(id)","rank":0}"#
                return try await wire.send("POST", "/tables/Note", body).status
            case 1, 2:
                let body = #"{"rank":\#(step)}"#
                return try await wire.send("PATCH", "/tables/Note/\(id)", body).status
            default:
                let parts = [
                    #""method":"delete","url":"tables/Note/\#(id)""#,
                    #""method":"post","url":"tables/TodoItem","body":{"id":"\#(id)"}"#,
                ].enumerated().map { place, part in
                    #"{"id":"\#(place)","atomicityGroup":"g",\#(part)}"#
                }
                let body = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
                let answer = try await wire.send("POST", "/$batch", body)
                let answers = answer.object["responses"] as? [[String: Any]] ?? []
                return answers.compactMap { $0["status"] as? Int }.max() ?? 0
            }
        }

        private func check(audit: String, _ count: (String) throws -> Int64?) throws {
            let ofNote = #"FROM "\#(audit)" AS a WHERE a."table" = 'Note' AND a."id" = n."id""#
            let all =
                #"SELECT "id", "version" FROM "Note" UNION ALL SELECT "id", "version" FROM "TodoItem""#
            for sql in [
                // Each row is as its last entry describes.
                """
                SELECT count(*) FROM (\(all)) AS r
                WHERE ("id", "version") NOT IN (SELECT "id", "stamp" FROM "\(audit)")
                """,
                // Each entry has a row, and no row has entries of changes that were not executed.
                #"SELECT count(*) FROM "\#(audit)" WHERE "id" NOT IN (SELECT "id" FROM "Note")"#,
                #"SELECT count(*) FROM "Note" AS n WHERE (SELECT count(*) \#(ofNote) AND a."action" = 'insert') <> 1"#,
                #"SELECT count(*) FROM "Note" AS n WHERE (SELECT count(*) \#(ofNote) AND a."action" = 'update') <> "rank""#,
                """
                SELECT abs((SELECT count(*) FROM "TodoItem")
                    - (SELECT count(*) FROM "\(audit)" WHERE "table" = 'TodoItem'))
                """,
                """
                SELECT abs((SELECT count(*) FROM "TodoItem")
                    - (SELECT count(*) FROM "\(audit)" WHERE "action" = 'delete'))
                """,
            ] {
                #expect(try count(sql) == 0, "\(sql)")
            }
            #expect(try count("SELECT count(*) FROM \"\(audit)\"") ?? 0 > 0)
        }
    }
}
