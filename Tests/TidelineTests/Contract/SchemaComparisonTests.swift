// SchemaComparisonTests: syncs compare the app with the server when its schema has changed, and report what is missing.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(5))) struct SchemaComparisonTests {
    /// The same table in an app that does not know the newer columns.
    private struct Older: SyncRecord {
        static let tableName = "Inspection"
        var id = ""
        var title = ""
    }

    /// The same table in an app that is newer than the server.
    private struct Newer: SyncRecord {
        static let tableName = "Inspection"
        var id = ""
        var title = ""
        var note = "none"
    }

    /// The columns of the server without a rank.
    private struct Unranked: SyncRecord {
        static let tableName = "Inspection"
        var id = ""
        var title = "Check"
        var minutes = 10
        var price = Decimal(5)
        var day = LocalDate(Date(timeIntervalSince1970: 1_800_000_000), in: .gmt)
        var time = LocalTime("08:00") ?? .midnight
        var photo = Data([1])
        var from = Inspection.Step.planned
        var to = Inspection.Step.done
        var place = "Kiel"
    }

    private let clock = MovableClock()

    /// A server whose table lacks a column of the app.
    private func older(
        _ change: (inout TableDefinition) -> Void = { _ in }
    ) async throws
        -> InProcessServer
    {
        var table = try RuleScene.table()
        table.schema.columns.removeAll { $0.name == "rank" }
        change(&table)
        return try await InProcessServer(tables: [table])
    }

    private func device(
        _ transport: any Transport,
        store: any LocalStore = MemoryStore(),
        limits: SyncLimits = SyncLimits(),
        tables: [any SyncRecord.Type] = [Inspection.self]
    ) async throws -> Device {
        try await Device(
            transport,
            store: store,
            limits: limits,
            tables: tables,
            environment: clock.environment
        )
    }

    private func sync(_ device: Device) async throws {
        #expect(try await device.client.syncOnce(deadline: .seconds(3600)))
    }

    private static let missing = "Inspection.rank: the server's table has no such column"

    private func known(_ device: Device) throws -> [String] {
        try device.context.knownSchemaDifferences.map(\.description)
    }

    @Test("A sync requests the schema document once, and reports the differences")
    func missingColumn() async throws {
        let tap = SchemaTap(try await older().transport)
        let device = try await device(tap)
        let events = device.context.events
        #expect(try known(device) == [])
        try await sync(device)
        try await sync(device)
        #expect(tap.requests == 1)
        #expect(try known(device) == [Self.missing])
        #expect(try await device.context.schemaDifferences().map(\.column) == ["rank"])
        #expect(tap.requests == 1)
        for await event in events where event.kind == .schemaCompared {
            #expect(event == .schemaCompared(differences: 1) && event.differences == 1)
            break
        }
    }

    @Test("A column that the server lacks is read as its default, and is reported")
    func reads() async throws {
        let server = try await older()
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Unranked.self)
        try await remote.insert(Unranked(id: "a"))
        let device = try await device(server.transport, tables: [Newer.self])
        try await sync(device)
        let record = try await device.client.syncTable(Newer.self).read(id: "a")
        #expect(record?.title == "Check" && record?.note == "none")
        #expect(
            try known(device).contains("Inspection.note: the server's table has no such column")
        )
    }

    @Test("A single sync that fails because the server lacks a table reports the difference")
    func missingTable() async throws {
        let server = try await older()
        let device = try await device(server.transport, tables: [Inspection.self, Note.self])
        let code = await code { _ = try await device.client.syncOnce(deadline: .seconds(3600)) }
        #expect(code == .notFound)
        let known = try device.context.knownSchemaDifferences.map(\.table)
        #expect(Set(known) == ["Inspection", "Note"])
    }

    @Test("A restarted app knows the result without a request, and a new version compares again")
    func restarts() async throws {
        let tap = SchemaTap(try await older().transport)
        for store: any LocalStore in [MemoryStore(), try SQLiteStore(path: ":memory:")] {
            let before = tap.requests
            try await sync(try await device(tap, store: store))
            #expect(tap.requests == before + 1)
            let again = try await device(tap, store: store)
            #expect(try known(again) == [Self.missing])
            try await sync(again)
            #expect(tap.requests == before + 1)
            // This version of the app lacks a column that the server requires, and has no rules.
            let other = try await device(tap, store: store, tables: [Older.self])
            #expect(try known(other) == [])
            try await sync(other)
            #expect(tap.requests == before + 2)
            #expect(
                try known(other).contains(
                    "Inspection.place: the server requires a value, and the app has no such property"
                )
            )
        }
    }

    @Test("A changed schema of the server is compared again")
    func changes() async throws {
        let tap = SchemaTap(try await older().transport)
        let device = try await device(tap)
        try await sync(device)
        #expect(try known(device) == [Self.missing])
        tap.replace(with: try await RuleScene.server().transport)
        try await sync(device)
        #expect(try known(device) == [])
        #expect(tap.requests == 2)
    }

    @Test(
        "A document that the caller may not read is remembered, and does not fail the sync",
        arguments: [401, 403, 404, 405, 501]
    )
    func rejections(status: Int) async throws {
        let store = MemoryStore()
        let tap = SchemaTap(try await older().transport)
        tap.answer { TransportResponse(status: status, headers: $0.headers) }
        let device = try await device(tap, store: store)
        try await sync(device)
        try await sync(device)
        try await sync(try await self.device(tap, store: store))
        #expect(tap.requests == 1)
        #expect(try known(device) == [])
        // Another schema may have other permissions.
        tap.answer(nil)
        tap.replace(with: try await older { $0.schema.rules.unique = [] }.transport)
        try await sync(device)
        #expect(tap.requests == 2)
        #expect(try known(device).first == Self.missing)
    }

    @Test("A failed request is repeated after a minute, then after twice as long")
    func failures() async throws {
        let tap = SchemaTap(try await older().transport)
        tap.answer { _ in TransportResponse(status: 500) }
        let device = try await device(tap)
        var expected = 0
        for wait: TimeInterval in [60, 120, 240] {
            expected += 1
            try await sync(device)
            clock.move(by: wait - 1)
            try await sync(device)
            #expect(tap.requests == expected)
            clock.move(by: 1)
        }
        // The wall clock was set back.
        expected += 1
        try await sync(device)
        clock.move(by: -86_400)
        tap.answer { _ in throw TransportError(.connectionLost, "Lost.", outcomeIsUnknown: true) }
        try await sync(device)
        #expect(tap.requests == expected + 1)
        tap.answer { _ in
            // A captive portal.
            TransportResponse(status: 200, body: Array("<html>".utf8))
        }
        clock.move(by: 86_400)
        try await sync(device)
        #expect(tap.requests == expected + 2)
        tap.answer(nil)
        clock.move(by: 86_400)
        try await sync(device)
        #expect(try known(device) == [Self.missing])
    }

    @Test("A document over the limit is not read, and a limit of 0 prevents the request")
    func limits() async throws {
        let tap = SchemaTap(try await older().transport)
        for (limit, requests) in [(100, 1), (0, 0)] {
            var limits = SyncLimits()
            limits.schemaBytesMax = limit
            let before = tap.requests
            let device = try await device(tap, limits: limits)
            try await sync(device)
            try await sync(device)
            #expect(tap.requests == before + requests)
            #expect(try known(device) == [])
        }
    }

    @Test("A document of a later format is not requested again for the same schema")
    func laterFormat() async throws {
        let tap = SchemaTap(try await older().transport)
        tap.answer { answer in
            var answer = answer
            answer.body = Array(#"{"format":2,"tables":[]}"#.utf8)
            return answer
        }
        let device = try await device(tap)
        try await sync(device)
        try await sync(device)
        #expect(try tap.requests == 1 && known(device) == [])
    }

    @Test("A server that states no schema, as the original servers do, gets no request")
    func otherServers() async throws {
        let tap = SchemaTap(try await older().transport)
        tap.dropHeader()
        let device = try await device(tap)
        try await sync(device)
        #expect(try tap.requests == 0 && known(device) == [])
    }

    @Test("Automatic sync compares after its syncs, and views show the result")
    @MainActor
    func automatic() async throws {
        let tap = SchemaTap(try await older().transport)
        let device = try await device(tap)
        let status = try LiveStatus(device.client)
        #expect(status.schemaDifferences.isEmpty)
        let events = device.context.events
        var policy = SyncPolicy()
        policy.interval = nil
        try device.client.startSyncing(policy)
        defer { device.client.stopSyncing() }
        for await event in events where event.kind == .schemaCompared { break }
        await until { status.schemaDifferences.map(\.description) == [Self.missing] }
        #expect(tap.requests == 1)
        // A view that is opened later shows it at once.
        #expect(try LiveStatus(device.client).schemaDifferences == status.schemaDifferences)
    }
}

@MainActor
private func until(_ condition: @MainActor () -> Bool) async {
    while !condition() { await Task.yield() }
}

/// A wall clock that a test moves, for a client whose timers never end.
private final class MovableClock: Sendable {
    private let state = Mutex(Date(timeIntervalSince1970: 1_800_000_000))

    func move(by seconds: TimeInterval) { state.withLock { $0 += seconds } }

    var environment: SyncEnvironment {
        var environment = Waits().environment
        environment.now = { [self] in state.withLock { $0 } }
        environment.sleep = { _ in try await Task.sleep(for: .seconds(3600)) }
        return environment
    }
}

/// A transport to a server that counts the requests for the schema document, and may answer them itself.
private final class SchemaTap: Transport {
    typealias Answer = @Sendable (TransportResponse) throws -> TransportResponse

    private struct State {
        var inner: any Transport
        var requests = 0
        var answer: Answer?
        var dropsHeader = false
    }

    private let state: Mutex<State>

    init(_ inner: any Transport) { state = Mutex(State(inner: inner)) }

    var requests: Int { state.withLock { $0.requests } }

    func replace(with inner: any Transport) { state.withLock { $0.inner = inner } }

    /// Changes the server's response to a request for the document.
    func answer(_ answer: Answer?) { state.withLock { $0.answer = answer } }

    /// Removes `Tideline-Schema` from all responses.
    func dropHeader() { state.withLock { $0.dropsHeader = true } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let isOfSchema = request.url.path().hasSuffix("/$schema")
        let (inner, answer, dropsHeader) = state.withLock { state in
            if isOfSchema { state.requests += 1 }
            return (state.inner, isOfSchema ? state.answer : nil, state.dropsHeader)
        }
        var response = try await inner.send(request)
        if dropsHeader { response.headers["Tideline-Schema"] = nil }
        return try answer?(response) ?? response
    }
}
