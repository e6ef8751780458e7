// X-ZUMO-INSTALLATION-ID: one id for each store, on every request to the endpoint.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct InstallationTests {
    /// A client whose environment makes the ids "made-1", "made-2" and so on.
    private static func client(
        _ transport: any Transport,
        _ store: any LocalStore,
        _ ids: MadeIDs,
        authentication: (any Authentication)? = nil
    ) async throws -> SyncClient {
        var environment = Waits().environment
        environment.makeInstallationID = { ids.next() }
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: transport,
            authentication: authentication,
            environment: environment
        )
        try await client.syncContext.initialize(store: store, tables: [Todo.self])
        return client
    }

    private final class MadeIDs: Sendable {
        private let counter = Mutex(0)
        private let form: @Sendable (Int) -> String

        init(_ form: @escaping @Sendable (Int) -> String = { "made-\($0)" }) { self.form = form }

        var count: Int { counter.withLock { $0 } }

        func next() -> String {
            form(
                counter.withLock {
                    $0 += 1
                    return $0
                }
            )
        }
    }

    @Test("Every request of a store has the same installation ID")
    func everyRequestOfAStoreHasTheSameID() async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let (store, ids) = (MemoryStore(), MadeIDs())
        let client = try await Self.client(script, store, ids)
        let todos = try client.syncTable(Todo.self)
        try await todos.pull(queryID: "all")
        _ = try await client.table(Todo.self).read()
        try await todos.insert(Todo(id: "a"))
        _ = try? await client.syncContext.push()
        #expect(script.sent.count > 3)
        #expect(Set(script.sent.map(\.method)).isSuperset(of: ["GET", "POST"]))
        #expect(script.sent.allSatisfy { $0.installation == "made-1" })
        // The next run of the app is the same installation, for any account.
        let later = ScriptedTransport(otherwise: page([]))
        let again = try await Self.client(later, store, ids, authentication: SignIn("anna"))
        try await again.syncTable(Todo.self).pull(queryID: "all")
        #expect(later.sent.map(\.installation) == ["made-1"])
        #expect(ids.count == 1)
    }

    @Test("Another store has another installation ID")
    func anotherStoreHasAnotherID() async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let ids = MadeIDs()
        for _ in 0..<2 {
            let client = try await Self.client(script, MemoryStore(), ids)
            try await client.syncTable(Todo.self).pull(queryID: nil)
        }
        #expect(script.sent.map(\.installation) == ["made-1", "made-2"])
    }

    @Test("No installation ID is sent without an open store or an ID generator")
    func noIDIsSentBeforeAStoreIsOpen() async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let bare = SyncClient(endpoint: Device.endpoint, transport: script)
        _ = try await bare.table(Todo.self).read()
        try await Device(script).todos().pull(queryID: nil)
        #expect(script.sent.map(\.installation) == [nil, nil])
    }

    @Test(
        "An installation ID that is not a valid header value is not sent",
        arguments: ["a\r\nX-Other: b", "", "\u{E9}", String(repeating: "x", count: 65), "a b"]
    )
    func anInvalidIDIsNotSent(_ name: String) async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let store = MemoryStore()
        var client = try await Self.client(script, store, MadeIDs { _ in name })
        try await client.syncTable(Todo.self).pull(queryID: nil)
        #expect(script.sent.map(\.installation) == [nil])
        // A store with such an id gets another one.
        client = try await Self.client(script, store, MadeIDs())
        try await client.syncTable(Todo.self).pull(queryID: nil)
        #expect(script.sent.last?.installation == "made-1")
    }

    @Test("The default installation ID is a random UUID") func theDefaultIDIsARandomUUID() throws {
        let make = try #require(SyncEnvironment.live.makeInstallationID)
        let (first, second) = (make(), make())
        #expect(first != second)
        let uuid = try #require(UUID(uuidString: first))
        #expect(first == uuid.uuidString.lowercased())
        // Version 4: random, without time or place.
        #expect(uuid.uuid.6 >> 4 == 4)
    }

    @Test("A request for events has the installation ID")
    func requestsForEventsHaveTheID() async throws {
        let named = Mutex<[String?]>([])
        let transport = EventsTap { request in
            named.withLock { $0.append(request.headers["X-ZUMO-INSTALLATION-ID"]) }
        }
        let client = try await Self.client(transport, MemoryStore(), MadeIDs())
        try client.startSyncing()
        for await isRequested in transport.requests where isRequested { break }
        client.stopSyncing()
        #expect(named.withLock { $0.first } == "made-1")
    }
}

/// Passes each request for events to a closure; it sends no events.
private final class EventsTap: Transport {
    let requests: AsyncStream<Bool>
    private let continuation: AsyncStream<Bool>.Continuation
    private let handler: @Sendable (TransportRequest) -> Void

    init(_ handler: @escaping @Sendable (TransportRequest) -> Void) {
        self.handler = handler
        (requests, continuation) = AsyncStream.makeStream()
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        TransportResponse(status: 200, body: Array(#"{"items":[]}"#.utf8))
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        handler(request)
        continuation.yield(true)
        throw TransportError(.unsupported, "None.", outcomeIsUnknown: false)
    }
}
