// When automatic sync runs: a network that returns, a server without events; and one sync that is
// cut in the middle.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite(.timeLimit(.minutes(2))) struct SyncOccasionTests {
    private static func client(
        _ link: Link,
        _ environment: SyncEnvironment
    ) async throws -> SyncClient {
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: link,
            environment: environment
        )
        try await client.syncContext.initialize(store: MemoryStore(), tables: [Todo.self])
        return client
    }

    /// Waits of which only some end; the others last until their task is cancelled.
    private static func environment(
        ending: @escaping @Sendable (Duration) -> Bool = { _ in false }
    ) -> SyncEnvironment {
        var environment = Waits().environment
        environment.sleep = {
            try await Task.sleep(for: ending($0) ? .milliseconds(5) : .seconds(3600))
        }
        return environment
    }

    @Test func aNetworkThatReturnsBeginsASync() async throws {
        let server = try await makeServer()
        let link = Link(server.transport)
        link.change { $0.isUp = false }
        let (paths, network) = AsyncStream.makeStream(of: Bool.self)
        var environment = Self.environment()
        environment.networkPaths = { paths }
        let client = try await Self.client(link, environment)
        try await client.syncTable(Todo.self).insert(Todo(id: "a", text: "kept"))
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        for await status in client.syncStatus { if case .offline = status { break } }
        link.change { $0.isUp = true }
        // No timer ends: only this begins a sync.
        network.yield(true)
        for await status in client.syncStatus where status == .idle { break }
        #expect(try await client.syncContext.pendingOperationCount == 0)
        #expect(try await client.table(Todo.self).read(id: "a")?.text == "kept")
    }

    /// Without the server's events changes come on schedule, and the events are asked for once.
    @Test(arguments: [404, 405, 501])
    func aServerWithoutEventsIsPolled(status: Int) async throws {
        let server = try await makeServer()
        let link = Link(server.transport)
        link.change { $0.eventsStatus = status }
        var policy = SyncPolicy()
        policy.interval = .seconds(300)
        let client = try await Self.client(link, Self.environment { _ in true })
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        let todos = try client.syncTable(Todo.self)
        for id in ["a", "b", "c"] {
            try await remote.insert(Todo(id: id))
            for try await rows in todos.observe() where rows.contains(where: { $0.id == id }) {
                break
            }
        }
        #expect(link.read { $0.streams } == 1)
    }

    /// What is cut: the third of five requests before it does anything, or the answer to a batch.
    @Test(arguments: [false, true])
    func aSyncThatIsCutInTheMiddleIsGoneOnWith(inBatches: Bool) async throws {
        let server = try await makeServer()
        let link = Link(server.transport)
        link.change { state in
            state.takesBatches = inBatches
            state.hangsAt = inBatches ? 1 : 3
        }
        let (reached, hanging) = AsyncStream.makeStream(of: Void.self)
        link.change { $0.hanging = { hanging.yield() } }
        var environment = Waits().environment
        environment.sleep = { _ in
            // The deadline comes when the request hangs.
            for await _ in reached { return }
            try Task.checkCancellation()
        }
        let client = try await Self.client(link, environment)
        let todos = try client.syncTable(Todo.self)
        for id in ["a", "b", "c", "d", "e"] { try await todos.insert(Todo(id: id, text: id)) }
        let isWhole = try await client.syncOnce(deadline: .seconds(20))
        #expect(!isWhole)
        #expect(try await client.syncContext.pendingOperationCount == (inBatches ? 5 : 3))
        #expect(try await todos.read().count == 5)
        link.change { $0.hangsAt = nil }
        try await client.syncContext.push()
        #expect(try await client.syncContext.pendingOperationCount == 0)
        let there = try await client.table(Todo.self).read(sortedBy: [.ascending(\.id)])
        #expect(there.map(\.text) == ["a", "b", "c", "d", "e"])
        #expect(try await todos.read(sortedBy: [.ascending(\.id)]) == there)
    }
}

/// A link to a server that is down, has no events, or leaves a request without an answer.
private final class Link: Transport {
    struct State: Sendable {
        var isUp = true
        var takesBatches = true
        /// What the server says to a request for its events.
        var eventsStatus = 404
        /// How often it was asked for them.
        var streams = 0
        var writes = 0
        /// Which write gets no answer; a batch is done all the same.
        var hangsAt: Int?
        /// Called when that write hangs.
        var hanging: @Sendable () -> Void = {}
    }

    private let inner: any Transport
    private let state = Mutex(State())

    init(_ inner: any Transport) { self.inner = inner }

    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    func read<Result: Sendable>(_ body: (State) -> Result) -> Result { state.withLock { body($0) } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let isBatch = request.url.path().hasSuffix("/$batch")
        let now = read { $0 }
        guard now.isUp else {
            throw TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false)
        }
        if isBatch, !now.takesBatches { return TransportResponse(status: 404) }
        guard request.method != "GET" else { return try await inner.send(request) }
        change { $0.writes += 1 }
        guard now.hangsAt == now.writes + 1 else { return try await inner.send(request) }
        if isBatch { _ = try await inner.send(request) }
        now.hanging()
        try await Task.sleep(for: .seconds(3600))
        throw TransportError(.timedOut, "Too late.", outcomeIsUnknown: true)
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        change { $0.streams += 1 }
        return TransportStream(
            status: read { $0.eventsStatus },
            bytes: AsyncThrowingStream { $0.finish() }
        )
    }
}
