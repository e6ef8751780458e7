// The occasions of automatic sync: a network that returns, and a server without events; and a single sync that is
// interrupted in the middle.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct SyncOccasionTests {
    private static func client(
        _ link: Link,
        _ environment: SyncEnvironment,
        tables: [any SyncRecord.Type] = [Todo.self],
        schemas: [TableSchema] = []
    ) async throws -> SyncClient {
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: link,
            environment: environment
        )
        try await client.syncContext.initialize(
            store: MemoryStore(),
            tables: tables,
            schemas: schemas
        )
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

    @Test("A network that returns starts a sync")
    func aNetworkThatReturnsStartsASync() async throws {
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
        // No timer ends: only the network starts a sync.
        network.yield(true)
        for await status in client.syncStatus where status == .idle { break }
        #expect(try await client.syncContext.pendingOperationCount == 0)
        #expect(try await client.table(Todo.self).read(id: "a")?.text == "kept")
    }

    /// The events are requested at most once after each sync.
    @Test("A server without events is pulled on schedule", arguments: [404, 405, 501])
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
        var requests: [Int] = []
        for id in ["a", "b", "c"] {
            try await remote.insert(Todo(id: id))
            for try await rows in todos.observe() where rows.contains(where: { $0.id == id }) {
                break
            }
            requests.append(link.read { $0.streams })
        }
        #expect(requests[2] <= link.read { $0.lists } + 1)
    }

    @Test("Local changes are sent although one table is forbidden")
    func aForbiddenTableDoesNotBlockChanges() async throws {
        let link = Link(try await makeServer().transport)
        link.change { $0.forbidden = "Note" }
        var policy = SyncPolicy()
        policy.isLive = false
        let client = try await Self.client(
            link,
            Self.environment { $0 == .milliseconds(300) },
            tables: [Todo.self, Note.self]
        )
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        func failed() async {
            for await status in client.syncStatus {
                if case .blocked(by: .failure(.forbidden, _)) = status { break }
            }
        }
        await failed()
        let todos = try client.syncTable(Todo.self)
        try await todos.insert(Todo(id: "a"))
        for try await rows in todos.observe() where rows.first?.version != nil { break }
        await failed()
        #expect(try await client.syncContext.pendingOperationCount == 0)
    }

    @Test("The status is idle again after the app has resolved the rejected operation")
    func theStatusFollowsTheOperationsThatTheAppResolves() async throws {
        let transport = ScriptedTransport(otherwise: page([]))
        transport.add(.status(400))
        let client = try await Self.client(
            Link(transport),
            Self.environment { $0 == .milliseconds(300) }
        )
        try await client.syncTable(Todo.self).insert(Todo(id: "a"))
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        for await status in client.syncStatus {
            if case .blocked(by: .rejectedOperations(let rows)) = status, rows.count == 1 { break }
        }
        let error = try #require(try await client.syncContext.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        for await status in client.syncStatus where status == .idle { break }
    }

    @Test("A sign-in while the server rejects a sync starts another sync")
    func aSignInDuringASyncStartsAnotherSync() async throws {
        let transport = ScriptedTransport(otherwise: page([]))
        let client = try await Self.client(Link(transport), Self.environment())
        let todos = try client.syncTable(Todo.self)
        try await todos.insert(Todo(id: "a"))
        transport.add(
            .run { _ in
                client.resumeSyncing()
                return .status(401)
            },
            .json(201, serverRow("a", 1))
        )
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        for try await rows in todos.observe() where rows.first?.version != nil { break }
    }

    @Test("A sign-in of another account syncs everything")
    func aSignInOfAnotherAccountSyncsEverything() async throws {
        let transport = ScriptedTransport(otherwise: page([]))
        let signIn = SignIn("anna")
        let device = try await Device(
            Link(transport),
            tables: [Todo.self],
            authentication: signIn,
            generation: .datasync,
            environment: Self.environment()
        )
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        let events = device.context.events
        try device.client.startSyncing(policy)
        defer { device.client.stopSyncing() }
        var pulls = 0
        for await event in events where event.kind == .pullFinished {
            pulls += 1
            if pulls == 2 { break }
            for await status in device.client.syncStatus where status == .idle { break }
            signIn.change(to: "ben")
            device.client.resumeSyncing()
        }
        let lists = transport.sent.filter { $0.target.hasPrefix("/tables/Todo") }
        #expect(lists.first?.bearer == "Bearer anna-token-1")
        #expect(lists.last?.bearer == "Bearer ben-token-1")
    }

    @Test("A failed pull of a forbidden table does not end the other pulls")
    func aForbiddenTableEndsNoOtherPull() async throws {
        let server = try await makeServer()
        try await SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self).insert(Todo(id: "theirs"))
        let link = Link(server.transport)
        link.change { ($0.forbidden, $0.readTime) = ("Note", .milliseconds(100)) }
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        let client = try await Self.client(
            link,
            Self.environment(),
            tables: [Todo.self, Note.self]
        )
        try client.startSyncing(policy)
        defer { client.stopSyncing() }
        // No timer ends: the first sync pulls the row.
        let todos = try client.syncTable(Todo.self)
        for try await rows in todos.observe() where rows.first?.id == "theirs" { break }
    }

    @Test(
        "Events continue without a forbidden table and include it when it may be read again",
        arguments: [403, 404]
    )
    func aForbiddenTableDoesNotEndTheEvents(status: Int) async throws {
        let link = Link(try await makeServer().transport)
        link.change {
            ($0.forbidden, $0.forbiddenStatus, $0.eventsStatus) = ("Note", status, nil)
        }
        let client = try await Self.client(
            link,
            Self.environment { $0 <= .seconds(60) },
            tables: [Todo.self, Note.self]
        )
        try client.startSyncing()
        defer { client.stopSyncing() }
        var requests = link.requests.makeAsyncIterator()
        while let tables = await requests.next(), tables != ["Todo"] {}
        link.change { $0.forbidden = nil }
        while let tables = await requests.next(), tables != ["Note", "Todo"] {}
    }

    /// The other tables are pulled on schedule.
    @Test("A stream of events is requested for at most 64 tables")
    func eventsAreRequestedForAsManyTablesAsAStreamAllows() async throws {
        let link = Link(ScriptedTransport(otherwise: page([])))
        let schemas = (0..<70).map { TableSchema(name: "t\($0)", columns: []) }
        let client = try await Self.client(link, Self.environment(), tables: [], schemas: schemas)
        try client.startSyncing()
        defer { client.stopSyncing() }
        var requests = link.requests.makeAsyncIterator()
        #expect(await requests.next()?.count == 64)
    }

    /// The interrupted request: the third of five before it is executed, or the answer to a batch.
    @Test(
        "A sync that its deadline interrupted is continued by the next push",
        arguments: [false, true]
    )
    func aSyncThatIsInterruptedIsContinued(inBatches: Bool) async throws {
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
            // The deadline expires while the request is waiting.
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
        /// The status of an answer to a request for events; nil sends the events.
        var eventsStatus: Int? = 404
        /// The table that may not be read.
        var forbidden: String?
        /// The status of an answer to requests for the forbidden table.
        var forbiddenStatus = 403
        /// The duration of reading a list.
        var readTime = Duration.zero
        /// The number of requests for events.
        var streams = 0
        /// The number of requests for lists.
        var lists = 0
        var writes = 0
        /// The number of the write that gets no answer; a batch is executed nevertheless.
        var hangsAt: Int?
        /// Called when that write starts to wait.
        var hanging: @Sendable () -> Void = {}
    }

    private let inner: any Transport
    private let state = Mutex(State())
    /// The tables of each request for events.
    let requests: AsyncStream<[String]>
    private let requesting: AsyncStream<[String]>.Continuation

    init(_ inner: any Transport) {
        self.inner = inner
        (requests, requesting) = AsyncStream.makeStream()
    }

    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    func read<Result: Sendable>(_ body: (State) -> Result) -> Result { state.withLock { body($0) } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let isBatch = request.url.path().hasSuffix("/$batch")
        let now = read { $0 }
        guard now.isUp else {
            throw TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false)
        }
        if let table = now.forbidden, request.url.path().hasSuffix("/tables/\(table)") {
            let problem = #"{"title":"Rejected","status":\#(now.forbiddenStatus)}"#
            return TransportResponse(status: now.forbiddenStatus, body: Array(problem.utf8))
        }
        if request.method == "GET" { change { $0.lists += 1 } }
        // A slow link, so that other requests are answered first.
        if request.method == "GET" { try await Task.sleep(for: now.readTime) }
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
        let tables = request.url.query()?.split(separator: "=").last?.split(separator: ",")
            .map(String.init)
        requesting.yield(tables ?? [])
        let now = read { $0 }
        let isForbidden = now.forbidden.map { tables?.contains($0) == true } ?? false
        guard let status = isForbidden ? now.forbiddenStatus : now.eventsStatus else {
            return try await inner.stream(request)
        }
        return TransportStream(
            status: status,
            bytes: AsyncThrowingStream { $0.finish() }
        )
    }
}
