// The client with the original servers, as imitated by the test kit.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

struct ClassicServerTests {
    static let columns: [String: OriginalServer.ColumnType] = [
        "text": .string, "complete": .boolean, "rank": .number,
    ]

    private func server(
        _ flavor: OriginalServer.Flavor,
        now: @escaping @Sendable () -> Date = { Date() }
    ) -> OriginalServer {
        OriginalServer(
            flavor,
            tables: [.init("Todo", columns: Self.columns)],
            endpoint: Device.endpoint,
            now: now
        )
    }

    @Test(
        "The client learns the generation of an original server once and stores it",
        arguments: OriginalServer.Flavor.allCases
    )
    func itLearnsTheGenerationOnce(flavor: OriginalServer.Flavor) async throws {
        let record = RecordingTransport(server(flavor))
        let store = MemoryStore()
        let first = try await Device(record, store: store, tables: [Todo.self])
        try await first.todos().insert(Todo(id: "a", text: "one"))
        try await first.todos().pull(queryID: "all")
        #expect(record.sent.map(\.version) == ["3.0.0", "2.0.0", "2.0.0"])
        #expect(record.sent.map(\.status) == [400, 201, 200])
        #expect(try await first.todos().read(id: "a")?.text == "one")

        record.forget()
        let second = try await Device(record, store: store, tables: [Todo.self])
        try await second.todos().update(id: "a") { $0.text = "two" }
        try await second.todos().pull(queryID: "all")
        // The .NET server reads conditions in the header field only, so the row is read first.
        let versions = [String?](repeating: "2.0.0", count: flavor == .dotNet ? 3 : 2)
        #expect(record.sent.map(\.version) == versions)
    }

    @Test("The client learns the generation of a server from direct requests")
    func itLearnsTheGenerationFromDirectCalls() async throws {
        let record = RecordingTransport(server(.node))
        let client = SyncClient(endpoint: Device.endpoint, transport: record)
        let todos = client.table(Todo.self)
        try await todos.insert(Todo(id: "a", text: "one"))
        #expect(try await todos.read().map(\.id) == ["a"])
        try await todos.delete(id: "a")
        #expect(try await todos.read(id: "a") == nil)
        #expect(try await todos.undelete(id: "a").text == "one")
        #expect(try await todos.count() == 1)
        #expect(record.sent.filter { $0.version == "3.0.0" }.count == 1)
        let last = try #require(record.sent.last { $0.method == "POST" })
        #expect(last.target == "/tables/Todo/a" && last.body == nil)
    }

    @Test("The client uses the generation that the app sets")
    func itUsesTheGenerationThatTheAppSets() async throws {
        let record = RecordingTransport(server(.node))
        let client = SyncClient(
            endpoint: Device.endpoint,
            generation: .classic,
            transport: record
        )
        try await client.table(Todo.self).insert(Todo(id: "a"))
        #expect(record.sent.map(\.version) == ["2.0.0"])
        let modern = SyncClient(
            endpoint: Device.endpoint,
            generation: .datasync,
            transport: record
        )
        await #expect(throws: SyncError.self) { try await modern.table(Todo.self).read() }
        #expect(record.sent.map(\.version) == ["2.0.0", "3.0.0"])
    }

    @Test("The client detects a server of another generation and pulls from the start")
    func itDetectsAReplacedServer() async throws {
        let ours = try await InProcessServer(tables: [
            TableDefinition("Todo", columns: try RecordSchema.of(Todo.self).table.columns)
        ])
        let old = server(.node)
        let store = MemoryStore()
        let first = try await Device(old, store: store, tables: [Todo.self])
        try await first.client.table(Todo.self).insert(Todo(id: "old"))
        try await first.todos().pull(queryID: "all")

        let remote = SyncClient(endpoint: Device.endpoint, transport: ours.transport)
        try await remote.table(Todo.self).insert(Todo(id: "new"))
        let record = RecordingTransport(ours.transport)
        let second = try await Device(record, store: store, tables: [Todo.self])
        try await second.todos().pull(queryID: "all")
        #expect(try await second.todos().read(id: "new") != nil)
        #expect(record.sent.map(\.version) == ["2.0.0", "3.0.0"])
        #expect(!record.sent[1].target.contains("updatedAt%20ge"))

        let third = try await Device(old, store: store, tables: [Todo.self])
        try await third.client.table(Todo.self).insert(Todo(id: "older"))
        try await third.todos().pull(queryID: "all")
        #expect(try await third.todos().read(id: "older") != nil)
    }

    @Test(
        "A repeated insert reads the row that it meets on an original server",
        arguments: OriginalServer.Flavor.allCases
    )
    func aDuplicateInsertReadsTheRow(flavor: OriginalServer.Flavor) async throws {
        let server = server(flavor)
        let record = RecordingTransport(server)
        let one = try await Device(record, conflicts: .clientWins, tables: [Todo.self])
        try await one.todos().insert(Todo(id: "a", text: "mine"))
        record.loseAnswer(of: "POST")
        let lost = try await one.push()
        #expect(lost?.status == .networkFailure)
        let other = SyncClient(endpoint: Device.endpoint, transport: server).table(Todo.self)
        try await other.update(id: "a") { $0.rank = 7 }

        record.forget()
        let error = try await one.push()
        #expect(error == nil)
        #expect(record.sent.filter { $0.method == "PATCH" }.allSatisfy { $0.ifMatch != nil })
        let stored = try await other.read(id: "a")
        #expect(stored?.text == "mine")
        #expect(record.sent.contains { $0.method == "GET" })
    }

    @Test(
        "An insert over a tombstone on an original server restores it and then updates it",
        arguments: OriginalServer.Flavor.allCases
    )
    func anInsertRestoresATombstone(flavor: OriginalServer.Flavor) async throws {
        let server = server(flavor)
        let record = RecordingTransport(server)
        let device = try await Device(record, tables: [Todo.self])
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a", text: "first", rank: 1))
        try await todos.pull(queryID: "all")
        try await todos.delete(id: "a")
        try await todos.pull(queryID: "all")
        record.forget()
        try await todos.insert(Todo(id: "a", text: "second"))
        let error = try await device.push()
        #expect(error == nil)
        let writes = record.sent.filter { $0.method != "GET" }
        #expect(writes.map(\.method) == ["POST", "POST", "PATCH"])
        #expect(writes[1].target == "/tables/Todo/a")
        #expect(writes[2].ifMatch != nil)
        let row = try await device.client.table(Todo.self).read(id: "a")
        #expect(row?.text == "second" && row?.rank == nil)
    }

    /// A deleted row and a missing table have the same answer: the table is queried.
    @Test(
        "The client distinguishes a missing table from a deleted row",
        arguments: OriginalServer.Flavor.allCases,
        [true, false]
    )
    func itDistinguishesAMissingTableFromADeletedRow(
        flavor: OriginalServer.Flavor,
        isDeleted: Bool
    ) async throws {
        let first = server(flavor)
        let device = try await Device(first, tables: [Todo.self])
        try await device.todos().insert(Todo(id: "a", text: "one"))
        try await device.todos().pull(queryID: "all")
        try await device.todos().update(id: "a") { $0.text = "two" }
        let transport: OriginalServer
        if isDeleted {
            try await SyncClient(endpoint: Device.endpoint, transport: first).table(Todo.self)
                .delete(id: "a")
            transport = first
        } else {
            transport = OriginalServer(flavor, tables: [], endpoint: Device.endpoint)
        }
        let again = try await Device(transport, store: device.store, tables: [Todo.self])
        let error = try #require(try await again.push())
        if isDeleted {
            #expect(error.status == .operationErrors)
            #expect(error.errors.first?.serverCopy == .deleted)
        } else {
            // Node sends its framework's page, which may be a proxy's: nothing is parked.
            #expect(error.status == (flavor == .node ? .networkFailure : .operationErrors))
            #expect(error.errors.first?.serverCopy != .deleted)
        }
        #expect(try await again.todos().read(id: "a")?.text == "two")
    }

    @Test(
        "Rows of the same millisecond are pulled completely even if they exceed a page",
        arguments: OriginalServer.Flavor.allCases
    )
    func itPullsManyRowsWithTheSameTime(flavor: OriginalServer.Flavor) async throws {
        let clock = Mutex(1_000_000)
        let server = server(flavor) {
            // A hundred rows within each millisecond, none at the same microsecond.
            let tick = clock.withLock { clock in
                clock += 10
                return clock
            }
            return Timestamp(microseconds: 1_700_000_000_000_000 + Int64(tick)).date
        }
        let remote = SyncClient(endpoint: Device.endpoint, transport: server).table(Todo.self)
        for number in 0..<260 {
            // Ids whose order differs from the order of the times.
            try await remote.insert(Todo(id: "n\(number * 37 % 1000)", rank: number))
        }
        var limits = SyncLimits()
        limits.pageRowsMax = 20
        let device = try await Device(server, limits: limits, tables: [Todo.self])
        try await device.todos().pull(queryID: "all")
        #expect(try await device.todos().count() == 260)
        let again = try await device.todos().pull(queryID: "all")
        #expect(again.applied == 0)
        let whole = try await Device(server, limits: limits, tables: [Todo.self])
        let result = try await whole.todos().pull(queryID: nil)
        #expect(result.applied == 260)
        #expect(try await remote.read().count == 260)
        #expect(
            try await remote.read(sortedBy: [.descending(\Todo.rank)], limit: 75, offset: 9).count
                == 75
        )
    }
}

/// Records requests and answers, and loses answers.
private final class RecordingTransport: Transport {
    struct Call: Sendable {
        var method: String
        var target: String
        var version: String?
        var ifMatch: String?
        var body: String?
        var status: Int
    }

    private let inner: any Transport
    private let state = Mutex<(sent: [Call], lost: String?)>(([], nil))

    init(_ inner: any Transport) { self.inner = inner }

    var sent: [Call] { state.withLock { $0.sent } }

    func forget() { state.withLock { $0.sent = [] } }

    /// Loses the next successful answer to a request with that method.
    func loseAnswer(of method: String) { state.withLock { $0.lost = method } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let answer = try await inner.send(request)
        let parts = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
        let query = parts?.percentEncodedQuery.map { "?" + $0 } ?? ""
        let isLost = state.withLock { state in
            state.sent.append(
                Call(
                    method: request.method,
                    target: (parts?.percentEncodedPath ?? "") + query,
                    version: request.headers["ZUMO-API-VERSION"],
                    ifMatch: request.headers["If-Match"],
                    body: request.body.map { String(decoding: $0, as: UTF8.self) },
                    status: answer.status
                )
            )
            guard state.lost == request.method, answer.status < 300 else { return false }
            state.lost = nil
            return true
        }
        if isLost { throw TransportError(.connectionLost, "Lost.", outcomeIsUnknown: true) }
        return answer
    }
}
