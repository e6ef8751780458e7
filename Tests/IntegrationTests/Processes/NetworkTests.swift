// NetworkTests: a slow network, and one that cuts connections anywhere, between a device and the built server. Calls
// succeed or fail cleanly, and nothing is duplicated.

import Foundation
import Testing
import Tideline
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct NetworkTests {
        /// Runs `body` with a device that reaches the server through a proxy.
        private func withProxy(
            _ manners: SlowProxy.Manners,
            _ body: (SlowProxy, ServerProcess, Workspace) async throws -> Void
        ) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let proxy = try SlowProxy(to: server.port, manners)
                defer { proxy.stop() }
                try await body(proxy, server, workspace)
            }
        }

        private func device(_ url: URL) async throws -> Device {
            try await Device(url, CurlTransport(), try SQLiteStore(path: ":memory:"))
        }

        @Test("Two devices converge over a slow network", arguments: RandomSeeds.all)
        func slowNetwork(seed: UInt64) async throws {
            let manners = SlowProxy.Manners(seed: seed, delay: 0...3, piece: 1...200)
            try await withProxy(manners) { proxy, _, _ in
                let (one, two) = (try await device(proxy.url), try await device(proxy.url))
                for number in 0..<25 {
                    try await one.notes.insert(Note(id: "n\(number)", text: "\(number)"))
                }
                try await one.sync()
                try await two.sync()
                try await two.notes.update(id: "n3") { $0.text = "changed" }
                try await two.notes.delete(id: "n4")
                try await two.sync()
                try await one.sync()
                try await expectAgreement(one, two)
            }
        }

        @Test(
            "Operations are executed exactly once over a network that cuts connections",
            arguments: RandomSeeds.all
        )
        func cuttingNetwork(seed: UInt64) async throws {
            let manners = SlowProxy.Manners(seed: seed, piece: 1...400, cut: 1...4000)
            try await withProxy(manners) { proxy, _, workspace in
                let (one, two) = (try await device(proxy.url), try await device(proxy.url))
                for number in 0..<80 {
                    try await one.notes.insert(Note(id: "n\(number)", text: "\(number)"))
                }
                var cuts = try await persist { try await one.context.push() }
                for number in 0..<40 {
                    try await one.notes.update(id: "n\(number)") { $0.text = "changed" }
                    try await one.notes.delete(id: "n\(number + 40)")
                }
                cuts += try await persist { try await one.context.push() }
                #expect(cuts > 5, "the network was too good")
                // A page is larger than what a connection transfers before it is cut.
                proxy.behave(SlowProxy.Manners(seed: seed, piece: 1...400, cut: 1...60_000))
                _ = try await persist { try await two.sync() }
                proxy.behave(SlowProxy.Manners())
                try await one.sync()
                try await two.sync()
                try await expectAgreement(one, two)
                let counts = try RequestCounts(workspace.path("server.db"))
                #expect(counts.inserts == 80)
                #expect(counts.updates.values.map(\.self) == Array(repeating: 1, count: 40))
                #expect(counts.deletes.values.map(\.self) == Array(repeating: 1, count: 40))
            }
        }

        /// Retries until the call succeeds; every failure has to be a network error.
        ///
        /// - Returns: The number of failures.
        private func persist(_ body: () async throws -> Void) async throws -> Int {
            for failures in 0..<400 {
                do {
                    try await body()
                    return failures
                } catch let error as PushError where error.status == .networkFailure {
                    #expect(error.errors.isEmpty)
                } catch let error as SyncError where error.code == .offline {
                }
            }
            throw TestFailure("no sync came through")
        }

        @Test(
            "The todo program reports network failures until a sync succeeds",
            arguments: RandomSeeds.all
        )
        func todoOverACuttingNetwork(seed: UInt64) async throws {
            let manners = SlowProxy.Manners(seed: seed, delay: 0...1, piece: 1...400, cut: 1...3000)
            try await withProxy(manners) { proxy, server, workspace in
                let store = workspace.path("todo.sqlite")
                for number in 0..<12 {
                    let added = try await workspace.run(
                        .todo,
                        ["--store", store, "add", "item \(number)"]
                    )
                    #expect(added.code == 0)
                }
                var code: Int32 = -1
                for _ in 0..<100 where code != 0 {
                    let finished = try await workspace.run(
                        .todo,
                        ["--store", store, "--server", proxy.url.absoluteString, "sync"]
                    )
                    code = finished.code
                    guard code != 0 else { break }
                    #expect(code == 1)
                    #expect(finished.error.contains("could not be reached"))
                }
                #expect(code == 0)
                let rows = try await server.wire.allRows("TodoItem")
                #expect(Set(rows.compactMap { $0["text"] as? String }).count == 12)
                #expect(rows.count == 12)
            }
        }

        @Test(
            "A push to a server that does not respond ends at its deadline",
            .timeLimit(.minutes(5))
        )
        func silentServer() async throws {
            let (listener, port) = try Loopback.listen()
            defer { close(listener) }
            var limits = SyncLimits()
            limits.requestTimeMax = .milliseconds(400)
            // No other limit ends the call before the time limit of the test.
            var others = TransportLimits()
            others.connectTimeout = .seconds(3600)
            others.stallTimeout = .seconds(3600)
            let client = SyncClient(
                endpoint: try #require(URL(string: "http://127.0.0.1:\(port)")),
                transport: CurlTransport(limits: others),
                limits: limits
            )
            try await client.syncContext.initialize(
                store: try SQLiteStore(path: ":memory:"),
                tables: [Note.self]
            )
            let notes = try client.syncTable(Note.self)
            try await notes.insert(Note(id: "a"))
            let error = await #expect(throws: PushError.self) {
                try await client.syncContext.push()
            }
            #expect(error?.status == .networkFailure)
            #expect(try await client.syncContext.pendingOperationCount == 1)
        }
    }
}
