// Live sync that is interrupted by a gateway: it resumes without a restart of the app.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(5))) struct LiveOccasionTests {
    private static func environment(_ paths: AsyncStream<Bool>) -> SyncEnvironment {
        var environment = Waits().environment
        // No timer ends: only other occasions open the event stream again.
        environment.sleep = { _ in try await Task.sleep(for: .seconds(3600)) }
        environment.networkPaths = { paths }
        return environment
    }

    /// The endpoint has not sent a stream yet.
    @Test(
        "A captive portal's page in place of the event stream does not end live sync",
        arguments: [200, 302, 404, 403, 511, 204]
    )
    func aPageInPlaceOfTheEventsDoesNotEndLiveSync(status: Int) async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        portal.answer { $0.url.path().hasSuffix("$events") ? Portal.page(status) : nil }
        let (paths, _) = AsyncStream.makeStream(of: Bool.self)
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: portal,
            environment: Self.environment(paths)
        )
        try await client.syncContext.initialize(store: MemoryStore(), tables: [Todo.self])
        var policy = SyncPolicy()
        policy.interval = nil
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        func streams() -> Int { portal.seen.count { $0.path.hasSuffix("$events") } }
        try await until { streams() != 0 }
        for await status in client.syncStatus where status == .idle { break }
        portal.answer(nil)
        // Syncing is resumed until the client requests the events again, so that an event of the server arrives.
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        let todos = try client.syncTable(Todo.self)
        let before = streams()
        while streams() == before {
            client.resumeSyncing()
            await Task.yield()
        }
        try await remote.insert(Todo(id: "a"))
        for try await rows in todos.observe() where rows.contains(where: { $0.id == "a" }) { break }
    }
}
