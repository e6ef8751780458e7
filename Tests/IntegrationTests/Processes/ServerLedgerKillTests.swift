// ServerLedgerKillTests: the server is killed with SIGKILL during writes with idempotency keys: each is in the table
// and in the ledger, or in neither, and may be repeated.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ServerLedgerKillTests {
        private static let writers = 8

        /// The responses by the ids of the requests; nil for a request without one.
        private final class Sent: Sendable {
            let answers = Mutex<[String: [UInt8]?]>([:])
        }

        @Test(
            "A kill leaves a write and its ledger entry both stored or both missing",
            arguments: RandomSeeds.all
        )
        func aWriteIsStoredWithItsLedgerEntryOrNotAtAll(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            let enough = Int.random(in: 50...400, using: &random)
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let sent = Sent()
                try await load(server, sent, killBehind: enough)
                let again = try await server.restart()
                let file = try DatabaseFile(workspace.path("server.db"))
                for (one, other) in [
                    ("TodoItem", "tideline_ledger"), ("tideline_ledger", "TodoItem"),
                ] {
                    let alone = try file.integer(
                        #"SELECT count(*) FROM "\#(one)" WHERE "id" NOT IN (SELECT "id" FROM "\#(other)")"#
                    )
                    #expect(alone == 0, "in \(one) and not in \(other)")
                }
                let answers = sent.answers.withLock { $0 }
                #expect(answers.count > 10, "the server was killed before any load")
                for (name, first) in answers {
                    let answer = try await Self.insert(name, at: again.wire)
                    #expect(answer.status == 201)
                    #expect(answer.headers["Repeatability-Result"] == "accepted")
                    if let first { #expect(answer.body == first, "\(name)") }
                }
                let rows = try await again.wire.allRows("TodoItem")
                #expect(rows.count == answers.count)
                #expect(try await again.stop() == .exit(0))
            }
        }

        /// The server creates the id, so that a second insert would be a second row.
        private static func insert(_ name: String, at wire: Wire) async throws -> TransportResponse
        {
            try await wire.send(
                "POST",
                "/tables/TodoItem",
                #"{"text":"\#(name)"}"#,
                headers: [
                    "Repeatability-Request-ID": name,
                    "Repeatability-First-Sent": Self.start,
                ]
            )
        }

        private static let start: String = {
            let formatter = DateFormatter()
            formatter.locale = Locale(identifier: "en_US_POSIX")
            formatter.timeZone = TimeZone(identifier: "GMT")
            formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            return formatter.string(from: Date())
        }()

        /// Writes until the server is killed, after this many responses.
        private func load(
            _ server: ServerProcess,
            _ sent: Sent,
            killBehind enough: Int
        ) async throws {
            let transport = CurlTransport()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<Self.writers {
                    group.addTask {
                        let wire = Wire(endpoint: server.url, transport: transport)
                        for number in 0... {
                            let name = "w\(writer)-\(number)"
                            sent.answers.withLock { $0[name] = .some(nil) }
                            guard let answer = try? await Self.insert(name, at: wire) else {
                                return
                            }
                            #expect(answer.status == 201)
                            sent.answers.withLock { $0[name] = answer.body }
                        }
                    }
                }
                _ = try await eventually("\(enough) answers") {
                    sent.answers.withLock { $0.values.count { $0 != nil } } >= enough ? () : nil
                }
                try await server.process.destroy()
                try await group.waitForAll()
            }
        }
    }
}
