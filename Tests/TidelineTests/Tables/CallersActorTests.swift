// No call parses, reads or writes on the actor of its caller, because a long list must not block a screen.

import Dispatch
import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct CallersActorTests {
    /// The work that ran on the main thread.
    private final class Watch: Sendable {
        static let shared = Watch()
        private let state = Mutex<Set<String>>([])
        private let mainQueueKey = DispatchSpecificKey<Bool>()

        private init() { DispatchQueue.main.setSpecific(key: mainQueueKey, value: true) }

        /// The main actor runs on the main queue, which is not on the main thread in every runner.
        static var isOnMainActor: Bool {
            Thread.isMainThread || DispatchQueue.getSpecific(key: shared.mainQueueKey) == true
        }

        var seen: Set<String> { state.withLock { $0 } }

        func note(_ what: String) {
            guard Self.isOnMainActor else { return }
            state.withLock { _ = $0.insert(what) }
        }
    }

    /// A record that reports the thread on which it is decoded.
    private struct Item: SyncRecord {
        static let tableName = "Todo"
        var id: String
        var text: String
        var updatedAt: Date?

        init(id: String, text: String) {
            self.id = id
            self.text = text
        }

        private enum CodingKeys: String, CodingKey {
            case id
            case text
            case updatedAt
        }

        init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            id = try values.decode(String.self, forKey: .id)
            // The placeholder that only shows the columns has no id.
            if !id.isEmpty { Watch.shared.note("decode") }
            text = try values.decode(String.self, forKey: .text)
            updatedAt = try values.decodeIfPresent(Date.self, forKey: .updatedAt)
        }
    }

    /// A store that reports the thread on which it is called.
    private final class WatchedStore: ForwardingStore {
        let inner: any LocalStore = MemoryStore()

        func read<Result: Sendable>(
            _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
        ) async throws -> Result {
            Watch.shared.note("store read")
            return try await inner.read(body)
        }

        func write<Result: Sendable>(
            _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
        ) async throws -> Result {
            Watch.shared.note("store write")
            return try await inner.write(body)
        }
    }

    /// A transport that reports the thread on which it is called: the answer is read where the call returns.
    private struct WatchedTransport: Transport {
        let inner: any Transport

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            Watch.shared.note("\(request.method) \(request.url.path())")
            return try await inner.send(request)
        }
    }

    @MainActor @Test("Calls from the main actor do no work on the main actor")
    func noWorkRunsOnTheMainActor() async throws {
        let server = try await makeServer(pageSize: 2)
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: WatchedTransport(inner: server.transport)
        )
        try await client.syncContext.initialize(store: WatchedStore(), tables: [Item.self])
        let (local, remote) = (try client.syncTable(Item.self), client.table(Item.self))
        for index in 0..<5 { try await remote.insert(Item(id: "r\(index)", text: "a")) }
        try await remote.update(Item(id: "r0", text: "b"))
        try await remote.update(id: "r1") { $0.text = "c" }
        try await remote.delete(id: "r2")
        try await remote.undelete(id: "r2")
        #expect(try await remote.read(id: "r0")?.text == "b")
        #expect(try await remote.read().count == 5)
        #expect(try await remote.count() == 5)
        try await local.pull(queryID: "all")
        try await local.pull(queryID: nil, where: { $0.text == "a" })
        try await local.insert(Item(id: "n", text: "n"))
        try await local.update(Item(id: "n", text: "m"))
        try await local.update(id: "r3") { $0.text = "d" }
        try await local.delete(id: "r4")
        #expect(try await local.read(id: "n")?.text == "m")
        #expect(try await local.read().count == 5)
        #expect(try await local.count(where: { $0.text == "m" }) == 1)
        #expect(try await local.lastPull != nil)
        #expect(try await client.syncContext.pendingOperationCount == 3)
        try await client.syncContext.push()
        try await local.purge()
        #expect(Watch.shared.seen == [])
    }
}
