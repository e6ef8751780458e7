// Goal: if PostgreSQL or another server fails, no acknowledged write is lost, none is executed twice, and only the
// process that ended has to be restarted. Method: two servers on a separate cluster that crashes and recovers under
// load; and a server that is stopped while its transaction locks rows and the table clock.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
    struct PostgresCrashTests {
        private static let writers = 6
        private static let crashes = 3

        /// The writes that were answered with success.
        private final class Load: Sendable {
            private let state = Mutex<(texts: Set<String>, rejections: Int, isOver: Bool)>(
                ([], 0, false)
            )

            var texts: Set<String> { state.withLock { $0.texts } }
            var rejections: Int { state.withLock { $0.rejections } }
            var isOver: Bool { state.withLock { $0.isOver } }

            func succeeded(_ text: String) { state.withLock { _ = $0.texts.insert(text) } }
            func rejected() { state.withLock { $0.rejections += 1 } }
            func end() { state.withLock { $0.isOver = true } }
        }

        @Test("No acknowledged write is lost or duplicated when PostgreSQL crashes")
        func nothingAcknowledgedIsLostWhenPostgresCrashes() async throws {
            try await withWorkspace { workspace in
                let cluster = try PostgresCluster(keepsCommits: true)
                let url = try cluster.database()
                var servers: [ServerProcess] = []
                for _ in 0..<2 {
                    servers.append(try await ServerProcess.start(in: workspace, database: url))
                }
                let load = Load()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for writer in 0..<Self.writers {
                        let wire = servers[writer % 2].wire
                        group.addTask { try await write(as: writer, to: wire, load) }
                    }
                    group.addTask { [servers] in
                        defer { load.end() }
                        for _ in 0..<Self.crashes {
                            try await crash(cluster, under: load, servers)
                        }
                    }
                    try await group.waitForAll()
                }
                for server in servers {
                    #expect(server.process.end == nil)
                    let texts = try await server.wire.allRows("TodoItem")
                        .compactMap { $0["text"] as? String }
                    #expect(texts.count == load.texts.count)
                    #expect(Set(texts) == load.texts)
                }
                #expect(load.rejections > 0)
                for server in servers { #expect(try await server.stop() == .exit(0)) }
            }
        }

        /// Repeats each write until it is executed; the server creates the ids, so a second insert would be visible.
        private func write(as writer: Int, to wire: Wire, _ load: Load) async throws {
            for number in 0... {
                if load.isOver { return }
                let text = "w\(writer)-\(number)"
                var isStored = false
                try await until {
                    let answer = try await wire.send(
                        "POST",
                        "/tables/TodoItem",
                        #"{"text":"\#(text)"}"#,
                        headers: Self.named(text)
                    )
                    isStored = answer.status == 201
                    if isStored || load.isOver { return true }
                    #expect(answer.status == 503, "\(answer.object)")
                    #expect(answer.headers["Retry-After"] != nil)
                    load.rejected()
                    return false
                }
                guard isStored else { return }
                load.succeeded(text)
            }
        }

        private func crash(
            _ cluster: PostgresCluster,
            under load: Load,
            _ servers: [ServerProcess]
        ) async throws {
            let goal = load.texts.count + 50
            _ = try await eventually("writes") { load.texts.count >= goal ? true : nil }
            try await blocking { try cluster.crash() }
            for server in servers {
                for (method, target) in [("GET", "/tables/TodoItem"), ("GET", "/health/ready")] {
                    let answer = try await eventually("a refusal") {
                        let answer = try await server.wire.send(method, target)
                        return answer.status == 200 ? nil : answer
                    }
                    #expect(answer.status == 503)
                    #expect(answer.headers["Retry-After"] != nil)
                }
            }
            try await blocking { try cluster.restart() }
            for server in servers {
                _ = try await eventually("the server's recovery") {
                    try await server.wire.send("GET", "/health/ready").status == 200 ? true : nil
                }
            }
        }

        private static func named(_ name: String) -> HTTPFields {
            ["Repeatability-Request-ID": name, "Repeatability-First-Sent": start]
        }

        private static let start: String = {
            let formatter = DateFormatter()
            formatter.locale = Locale(identifier: "en_US_POSIX")
            formatter.timeZone = TimeZone(identifier: "GMT")
            formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            return formatter.string(from: Date())
        }()

        // MARK: - A server that stops responding

        @Test("A server that stops within a write delays the writes of another server only briefly")
        func aServerThatStopsRespondingWithinAWriteDelaysOtherWritesBriefly() async throws {
            try await withWorkspace { workspace in
                let cluster = try PostgresCluster.shared()
                let url = try cluster.database()
                let still = try await ServerProcess.start(in: workspace, database: url)
                let other = try await ServerProcess.start(in: workspace, database: url)
                let row = #"{"id":"held","text":"first"}"#
                let created = try await still.wire.send("POST", "/tables/TodoItem", row)
                #expect(created.status == 201)
                let write = try await stand(still, within: url)
                // The stopped server holds the lock of the table clock.
                let rejection = try await other.wire.send(
                    "POST",
                    "/tables/TodoItem",
                    #"{"id":"refused"}"#
                )
                // PostgreSQL may end the transaction of the stopped server while the write waits.
                let isAccepted = rejection.status == 201
                if !isAccepted {
                    #expect(rejection.status == 503, "\(rejection.object)")
                    #expect(rejection.headers["Retry-After"] != nil)
                }
                let refused = try await other.wire.send("GET", "/tables/TodoItem/refused")
                #expect(refused.status == (isAccepted ? 200 : 404))
                _ = try await eventually("a write with one server stopped", within: .seconds(60)) {
                    let answer = try await other.wire.send(
                        "POST",
                        "/tables/TodoItem",
                        #"{"id":"beside"}"#
                    )
                    return answer.status == 201 ? true : nil
                }
                still.process.send(SIGCONT)
                let answer = try await write.value
                let after = try await other.wire.send("GET", "/tables/TodoItem/held")
                let text = after.object["text"] as? String
                #expect(text == (answer.status == 200 ? "second" : "first"), "\(answer.status)")
                _ = try await eventually("the stopped server's next write") {
                    let answer = try await still.wire.send(
                        "PATCH",
                        "/tables/TodoItem/held",
                        #"{"text":"third"}"#
                    )
                    return answer.status == 200 ? true : nil
                }
            }
        }

        /// Stops a server when its transaction has locked the table clock: it waits for a row that another transaction has locked,
        /// and PostgreSQL continues with the statements it was sent.
        private func stand(
            _ server: ServerProcess,
            within url: String
        ) async throws -> Task<TransportResponse, any Error> {
            for _ in 0..<10 {
                let holder = try PostgresConnection(PostgresAddress(url))
                try holder.execute(
                    #"BEGIN; SELECT FROM "TodoItem" WHERE "id" = 'held' FOR UPDATE"#
                )
                let write = Task {
                    try await server.wire.send(
                        "PATCH",
                        "/tables/TodoItem/held",
                        #"{"text":"second"}"#
                    )
                }
                let connection = try PostgresConnection(PostgresAddress(url))
                func count(_ condition: String) throws -> Int64 {
                    try connection.run(
                        """
                        SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND \(condition)
                        """
                    ).integer(0, 0)
                }
                // It waits for a tenth of a second in a transaction.
                let waits = try await becomesTrue(within: .seconds(5)) {
                    try count("wait_event_type = 'Lock'") > 0
                }
                if waits { server.process.send(SIGSTOP) }
                try holder.execute("COMMIT")
                if waits,
                    try await becomesTrue(
                        within: .seconds(1),
                        { try count("state = 'idle in transaction'") > 0 }
                    )
                {
                    return write
                }
                // It was observed or stopped too late: the lock wait was over.
                server.process.send(SIGCONT)
                _ = try await write.value
                let row = #"{"text":"first"}"#
                _ = try await server.wire.send("PATCH", "/tables/TodoItem/held", row)
            }
            throw TestFailure("no server was stopped within a write")
        }
    }
}
