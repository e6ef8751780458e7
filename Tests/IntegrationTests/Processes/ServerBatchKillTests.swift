// ServerBatchKillTests: the server is killed with SIGKILL between the commits of batches of writes with idempotency
// keys, and the batches are repeated: each write is executed once, each group completely or not at all.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ServerBatchKillTests {
        private static let writers = 6

        /// The responses by the ids of the batches; nil for a batch without one.
        private final class Sent: Sendable {
            private let state = Mutex<(answers: [String: [Answer]?], count: Int)>(([:], 0))

            var all: [String: [Answer]?] { state.withLock { $0.answers } }
            var count: Int { state.withLock { $0.count } }

            func begin(_ name: String) { state.withLock { $0.answers[name] = .some(nil) } }

            /// The count including this one.
            func end(_ name: String, _ answers: [Answer]) -> Int {
                state.withLock { state in
                    state.answers[name] = answers
                    state.count += 1
                    return state.count
                }
            }
        }

        /// The response to one request of a batch.
        private struct Answer: Hashable, Sendable {
            var status: Int
            var result: String
            var body: String

            init(_ object: [String: Any]) {
                status = object["status"] as? Int ?? 0
                let headers = object["headers"] as? [String: String] ?? [:]
                result = headers["repeatability-result"] ?? ""
                let row = object["body"] as? [String: Any] ?? [:]
                body = row.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }.joined(separator: "&")
            }
        }

        /// The kills are right after the responses to a batch, while others are between two commits.
        @Test("A batch repeated after the server was killed is executed once on SQLite")
        func aRepeatedBatchIsExecutedOnce() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let file = try DatabaseFile(workspace.path("server.db"))
                try await killAndRepeat(server) {
                    try file.expectIntact()
                    try check(ledger: "tideline_ledger") { try file.integer($0) }
                }
            }
        }

        @Test(
            "A batch repeated after the server was killed is executed once on PostgreSQL",
            .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
        )
        func aRepeatedBatchIsExecutedOnceOnPostgres() async throws {
            try await withWorkspace { workspace in
                let cluster = try PostgresCluster.shared()
                let url = try cluster.database()
                let server = try await ServerProcess.start(in: workspace, database: url)
                let database = PostgresCluster.name(in: url)
                try await killAndRepeat(server) {
                    try check(ledger: #"tideline"."ledger"#) { sql in
                        let text = try cluster.psql(sql, in: database)
                        return Int64(text.trimmingCharacters(in: .whitespacesAndNewlines))
                    }
                }
            }
        }

        private func killAndRepeat(
            _ first: ServerProcess,
            checkDatabase: () throws -> Void
        ) async throws {
            var server = first
            let sent = Sent()
            for (round, kill) in [3, 17, 40].enumerated() {
                try await load(server, sent, round: round, killBehind: kill)
                try checkDatabase()
                server = try await server.restart()
                for (name, first) in sent.all {
                    let again = try await Self.send(name, to: server.wire)
                    #expect(again.map(\.status) == [201, 201, 201, 200])
                    #expect(again.allSatisfy { $0.result == "accepted" }, "\(name)")
                    if let first { #expect(again == first, "\(name)") }
                }
                let todos = try await server.wire.allRows("TodoItem")
                let notes = try await server.wire.allRows("Note")
                #expect(todos.count == 2 * sent.all.count, "in round \(round)")
                #expect(notes.count == sent.all.count, "in round \(round)")
                // The patch of each group was applied to the row that the group inserted.
                #expect(notes.allSatisfy { $0["rank"] as? Int == 1 })
            }
            try checkDatabase()
            #expect(try await server.stop() == .exit(0))
        }

        /// A single write, and a group of three, the last of which refers to the row of the one before.
        ///
        /// The server creates the ids, so that a second insert would be a second row.
        private static func send(_ name: String, to wire: Wire) async throws -> [Answer] {
            func part(_ id: String, _ method: String, _ url: String, _ body: String) -> String {
                let group = id == "alone" ? "" : #""atomicityGroup":"g","#
                return """
                    {"id":"\(id)","method":"\(method)","url":"\(url)",\(group)"body":\(body),\
                    "headers":{"Repeatability-Request-ID":"\(name)-\(id)",\
                    "Repeatability-First-Sent":"\(start)"}}
                    """
            }
            let parts = [
                part("alone", "post", "tables/TodoItem", #"{"text":"\#(name) alone"}"#),
                part("one", "post", "tables/TodoItem", #"{"text":"\#(name) group"}"#),
                part("two", "post", "tables/Note", #"{"text":"\#(name)","done":false}"#),
                part("three", "patch", "$two", #"{"rank":1}"#),
            ]
            let body = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
            let answer = try await wire.send("POST", "/$batch", body)
            #expect(answer.status == 200)
            let answers = answer.object["responses"] as? [[String: Any]] ?? []
            return answers.map(Answer.init)
        }

        private static let start: String = {
            let formatter = DateFormatter()
            formatter.locale = Locale(identifier: "en_US_POSIX")
            formatter.timeZone = TimeZone(identifier: "GMT")
            formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            return formatter.string(from: Date())
        }()

        /// Sends batches until this many were answered, and then kills the server.
        private func load(
            _ server: ServerProcess,
            _ sent: Sent,
            round: Int,
            killBehind count: Int
        ) async throws {
            let transport = CurlTransport()
            let goal = sent.count + count
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<Self.writers {
                    group.addTask {
                        let wire = Wire(endpoint: server.url, transport: transport)
                        for number in 0... {
                            let name = "r\(round)-w\(writer)-\(number)"
                            sent.begin(name)
                            guard let answers = try? await Self.send(name, to: wire) else { return }
                            let count = sent.end(name, answers)
                            if count == goal { try await server.process.destroy() }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }

        /// Writes and their ledger entries exist together, and groups are complete, also right after a kill.
        private func check(ledger: String, _ count: (String) throws -> Int64?) throws {
            let rows = #"SELECT "id" FROM "TodoItem" UNION SELECT "id" FROM "Note""#
            for sql in [
                #"SELECT count(*) FROM (\#(rows)) AS r WHERE "id" NOT IN (SELECT "id" FROM "\#(ledger)")"#,
                #"SELECT count(*) FROM "\#(ledger)" WHERE "id" NOT IN (\#(rows))"#,
                #"SELECT count(*) FROM "Note" WHERE "rank" <> 1 OR "rank" IS NULL"#,
                """
                SELECT count(*) FROM "Note" WHERE "text" || ' group' NOT IN (SELECT "text" FROM "TodoItem")
                """,
                """
                SELECT count(*) FROM "TodoItem" WHERE "text" LIKE '% group'
                AND replace("text", ' group', '') NOT IN (SELECT "text" FROM "Note")
                """,
            ] {
                #expect(try count(sql) == 0, "\(sql)")
            }
        }
    }
}
