// X-ZUMO-INSTALLATION-ID: one name for each store, on every request to the endpoint.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite struct InstallationTests {
    /// A client whose environment makes the ids "made-1", "made-2" and so on.
    private static func client(
        _ transport: any Transport,
        _ store: any LocalStore,
        _ made: Made,
        authentication: (any Authentication)? = nil
    ) async throws -> SyncClient {
        var environment = Waits().environment
        environment.makeInstallationID = { made.next() }
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: transport,
            authentication: authentication,
            environment: environment
        )
        try await client.syncContext.initialize(store: store, tables: [Todo.self])
        return client
    }

    private final class Made: Sendable {
        private let count = Mutex(0)
        private let form: @Sendable (Int) -> String

        init(_ form: @escaping @Sendable (Int) -> String = { "made-\($0)" }) { self.form = form }

        var made: Int { count.withLock { $0 } }

        func next() -> String {
            form(
                count.withLock {
                    $0 += 1
                    return $0
                }
            )
        }
    }

    @Test func everyRequestOfAStoreHasOneName() async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let (store, made) = (MemoryStore(), Made())
        let client = try await Self.client(script, store, made)
        let todos = try client.syncTable(Todo.self)
        try await todos.pull(queryID: "all")
        _ = try await client.table(Todo.self).read()
        try await todos.insert(Todo(id: "a"))
        _ = try? await client.syncContext.push()
        #expect(script.sent.count > 3)
        #expect(Set(script.sent.map(\.method)).isSuperset(of: ["GET", "POST"]))
        #expect(script.sent.allSatisfy { $0.installation == "made-1" })
        // The next run of the app is the same installation, whoever signs in there.
        let later = ScriptedTransport(otherwise: page([]))
        let again = try await Self.client(later, store, made, authentication: SignIn("anna"))
        try await again.syncTable(Todo.self).pull(queryID: "all")
        #expect(later.sent.map(\.installation) == ["made-1"])
        #expect(made.made == 1)
    }

    @Test func anotherStoreHasAnotherName() async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let made = Made()
        for _ in 0..<2 {
            let client = try await Self.client(script, MemoryStore(), made)
            try await client.syncTable(Todo.self).pull(queryID: nil)
        }
        #expect(script.sent.map(\.installation) == ["made-1", "made-2"])
    }

    /// Before a store is open there is no name, and an environment without one sends none.
    @Test func whereThereIsNone() async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let bare = SyncClient(endpoint: Device.endpoint, transport: script)
        _ = try await bare.table(Todo.self).read()
        try await Device(script).todos().pull(queryID: nil)
        #expect(script.sent.map(\.installation) == [nil, nil])
    }

    /// A name that cannot stand in a header field is none, wherever it comes from.
    @Test(arguments: ["a\r\nX-Other: b", "", "\u{E9}", String(repeating: "x", count: 65), "a b"])
    func whatCannotBeSentIsNotSent(_ name: String) async throws {
        let script = ScriptedTransport(otherwise: page([]))
        let store = MemoryStore()
        var client = try await Self.client(script, store, Made { _ in name })
        try await client.syncTable(Todo.self).pull(queryID: nil)
        #expect(script.sent.map(\.installation) == [nil])
        // A store that holds it gets another name.
        client = try await Self.client(script, store, Made())
        try await client.syncTable(Todo.self).pull(queryID: nil)
        #expect(script.sent.last?.installation == "made-1")
    }

    /// The real world's is a UUID that nothing can be told from.
    @Test func theRealOneIsARandomUUID() throws {
        let make = try #require(SyncEnvironment.live.makeInstallationID)
        let (first, second) = (make(), make())
        #expect(first != second)
        let uuid = try #require(UUID(uuidString: first))
        #expect(first == uuid.uuidString.lowercased())
        // Version 4: by chance alone, without time or place.
        #expect(uuid.uuid.6 >> 4 == 4)
    }

    @Test func theServersEventsAreAskedForByName() async throws {
        let named = Mutex<[String?]>([])
        let transport = EventsTap { request in
            named.withLock { $0.append(request.headers["X-ZUMO-INSTALLATION-ID"]) }
        }
        let client = try await Self.client(transport, MemoryStore(), Made())
        try client.startSyncing()
        for await asked in transport.asked where asked { break }
        client.stopSyncing()
        #expect(named.withLock { $0.first } == "made-1")
    }
}

/// Looks at the requests for events; it has none.
private final class EventsTap: Transport {
    let asked: AsyncStream<Bool>
    private let tell: AsyncStream<Bool>.Continuation
    private let look: @Sendable (TransportRequest) -> Void

    init(_ look: @escaping @Sendable (TransportRequest) -> Void) {
        self.look = look
        (asked, tell) = AsyncStream.makeStream()
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        TransportResponse(status: 200, body: Array(#"{"items":[]}"#.utf8))
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        look(request)
        tell.yield(true)
        throw TransportError(.unsupported, "None.", outcomeIsUnknown: false)
    }
}
