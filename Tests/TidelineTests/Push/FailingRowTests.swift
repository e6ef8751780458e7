// A row that the server fails to process, on a server that processes all other work: pulls continue, the row is named,
// and it is parked in the end. Parked rows are sent again after the app has removed the reason.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct FailingRowTests {
    private struct Failure: Error {}

    /// A server that fails to write a row, or rejects all rows, while a test says so.
    private final class Faults: Sendable {
        let failing = Mutex<String?>("bad")
        let rejects = Mutex(false)
    }

    private func makeServer(_ faults: Faults) async throws -> InProcessServer {
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            if change.id == faults.failing.withLock({ $0 }) { throw Failure() }
            if faults.rejects.withLock({ $0 }) { throw Rejection(422, "Not today.") }
        }
        let columns = [
            ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
            ColumnDefinition("rank", .integer),
        ]
        return try await InProcessServer(
            tables: [
                TableDefinition("Todo", columns: columns),
                TableDefinition("Note", columns: [ColumnDefinition("body", .string)]),
            ],
            hooks: ["Todo": hooks]
        )
    }

    @Test(
        "A row that the server fails to process does not block pulls",
        arguments: [true, false]
    )
    func pullsContinue(isAlone: Bool) async throws {
        let server = try await makeServer(Faults())
        let device = try await Device(server.transport)
        let other = try await Device(server.transport)
        try await device.todos().insert(Todo(id: "bad", text: "fails"))
        if !isAlone { try await device.todos().insert(Todo(id: "good", text: "works")) }
        try await other.client.table(Todo.self).insert(Todo(id: "theirs", text: "news"))
        try await device.todos().pull(queryID: "all")
        #expect(try await device.todos().read(id: "theirs")?.text == "news")
        // The push names the row that it could not send.
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure)
        #expect(error.failingRows == [FailingRow(table: "Todo", itemID: "bad", statusCode: 500)])
        #expect(try await device.queue() == ["insert bad attempted"])
    }

    @Test("The failed pushes of a row are counted across restarts")
    func theCountSurvivesARestart() async throws {
        var limits = SyncLimits()
        limits.failedPushesMax = 3
        let server = try await makeServer(Faults())
        try await withTemporaryFile { path in
            for round in 1...3 {
                let store = try SQLiteStore(path: path)
                let device = try await Device(server.transport, store: store, limits: limits)
                if round == 1 { try await device.todos().insert(Todo(id: "bad", text: "fails")) }
                // Another row shows that the server works.
                try await device.todos().insert(Todo(id: "good\(round)"))
                #expect(try await device.push() != nil)
                let isParked = round == 3
                #expect(
                    try await device.queue()
                        == ["insert bad attempted" + (isParked ? " parked" : "")]
                )
                try await store.close()
            }
        }
    }

    @Test("A failing row is parked after a limited number of pushes, with the server's reason")
    func aFailingRowIsParked() async throws {
        var limits = SyncLimits()
        limits.failedPushesMax = 3
        let faults = Faults()
        let server = try await makeServer(faults)
        let device = try await Device(server.transport, limits: limits)
        try await device.todos().insert(Todo(id: "bad", text: "fails"))
        for round in 1...3 {
            try await device.todos().pull(queryID: "all")
            let isParked = round == 3
            #expect(
                try await device.queue() == ["insert bad attempted" + (isParked ? " parked" : "")]
            )
        }
        let parked = try #require(try await device.context.operationErrors().first)
        #expect(parked.statusCode == 500)
        // From now on nothing blocks a push, and the push succeeds.
        #expect(try await device.push()?.status == .operationErrors)
        faults.failing.withLock { $0 = nil }
        try await parked.retry()
        #expect(try await device.push() == nil)
        #expect(try await device.client.table(Todo.self).read(id: "bad")?.text == "fails")
    }

    /// Passes all requests to a server, and replaces its answers to one row.
    private struct OneRowFails: Transport {
        let inner: any Transport
        let id: String
        let answer: TransportResponse

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let body = String(decoding: request.body ?? [], as: UTF8.self)
            let isBatch = request.url.path().hasSuffix("$batch")
            if isBatch { return TransportResponse(status: 404, body: Array("no batches".utf8)) }
            if body.contains("\"id\":\"\(id)\"") { return answer }
            return try await inner.send(request)
        }
    }

    @Test(
        "A row that always gets a 5xx while other rows are accepted is parked",
        arguments: [500, 502, 503, 504, 507],
        [nil, "5", "600"]
    )
    func aFailureOfOneRowParksThatRow(status: Int, wait: String?) async throws {
        var limits = SyncLimits()
        limits.failedPushesMax = 3
        var answer = TransportResponse(
            status: status,
            headers: ["Content-Type": "application/problem+json"],
            body: Array(#"{"title":"Failure","status":\#(status)}"#.utf8)
        )
        answer.headers["Retry-After"] = wait
        let server = try await makeServer(Faults())
        let transport = OneRowFails(inner: server.transport, id: "fails", answer: answer)
        let now = Mutex(Date())
        var environment = Waits().environment
        environment.now = { now.withLock { $0 } }
        environment.sleep = { wait in
            now.withLock { $0 += TimeInterval(wait.components.seconds) + 1 }
        }
        let device = try await Device(transport, limits: limits, environment: environment)
        let other = try await Device(server.transport)
        try await device.todos().insert(Todo(id: "fails"))
        for round in 0..<4 {
            // The first answer may mean a busy server: then nothing is sent for a while.
            let isBusy = round == 0 && wait == "600"
            defer { now.withLock { $0 += isBusy ? 601 : 0 } }
            let (mine, theirs) = ("mine\(round)", "theirs\(round)")
            try await device.todos().insert(Todo(id: mine))
            try await other.client.table(Todo.self).insert(Todo(id: theirs))
            try await device.todos().pull(queryID: "all")
            #expect(try await device.todos().read(id: theirs) != nil)
            let isSent = try await other.client.table(Todo.self).read(id: mine) != nil
            #expect(isSent == !isBusy)
        }
        #expect(try await device.context.operationErrors().map(\.statusCode) == [status])
        #expect(try await device.queue() == ["insert fails attempted parked"])
    }

    @Test("An outage of the server parks nothing")
    func anOutageParksNothing() async throws {
        var limits = SyncLimits()
        limits.failedPushesMax = 2
        let transport = ScriptedTransport(
            otherwise: .json(500, #"{"title":"Internal Server Error","status":500}"#)
        )
        let device = try await Device(transport, limits: limits)
        try await device.todos().insert(Todo(id: "a", text: "waits"))
        for _ in 0..<5 {
            let error = await #expect(throws: PushError.self) {
                try await device.todos().pull(queryID: "all")
            }
            #expect(error?.status == .networkFailure)
        }
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("Automatic sync reports the rows that were not accepted, and syncs everything else")
    func automaticSyncContinues() async throws {
        let faults = Faults()
        let server = try await makeServer(faults)
        let device = try await Device(server.transport)
        faults.rejects.withLock { $0 = true }
        try await device.todos().insert(Todo(id: "rejected", text: "not today"))
        #expect(try await device.push()?.errors.count == 1)
        faults.rejects.withLock { $0 = false }
        try await device.todos().insert(Todo(id: "bad", text: "fails"))
        try await device.todos().insert(Todo(id: "good", text: "works"))
        try device.client.startSyncing()
        // The row that fails and the one that is parked.
        let wanted = SyncStatus.blocked(
            by: .failingRows(
                UnacceptedRows([
                    UnacceptedRow(table: "Todo", itemID: "bad", statusCode: 500, isParked: false),
                    UnacceptedRow(
                        table: "Todo",
                        itemID: "rejected",
                        statusCode: 422,
                        isParked: true
                    ),
                ])
            )
        )
        for await status in device.client.syncStatus where status == wanted { break }
        #expect(try await device.client.table(Todo.self).read(id: "good") != nil)
        device.client.stopSyncing()
    }

    @Test("syncOnce succeeds with parked rows and reports them")
    func syncOnceReportsParkedRows() async throws {
        let faults = Faults()
        faults.rejects.withLock { $0 = true }
        let server = try await makeServer(faults)
        let device = try await Device(server.transport, environment: .live)
        try await device.todos().insert([Todo(id: "a"), Todo(id: "b")])
        #expect(try await device.client.syncOnce(deadline: .seconds(3600)))
        let rejected = ["a", "b"].map {
            UnacceptedRow(table: "Todo", itemID: $0, statusCode: 422, isParked: true)
        }
        #expect(
            device.client.currentSyncStatus
                == .blocked(by: .rejectedOperations(UnacceptedRows(rejected)))
        )
        #expect(try await device.context.operationErrors().map(\.statusCode) == [422, 422])
    }

    @Test("The status counts all parked operations and names the first rows")
    func theStatusNamesTheFirstRows() async throws {
        let faults = Faults()
        faults.rejects.withLock { $0 = true }
        let server = try await makeServer(faults)
        let device = try await Device(server.transport, environment: .live)
        let ids = (100..<150).map { "row\($0)" }
        try await device.todos().insert(ids.map { Todo(id: $0) })
        try await device.client.syncOnce(deadline: .seconds(3600))
        guard case .blocked(by: .rejectedOperations(let rows)) = device.client.currentSyncStatus
        else {
            Issue.record("the status is \(device.client.currentSyncStatus)")
            return
        }
        #expect(rows.count == 50)
        #expect(rows.rows.map(\.itemID) == Array(ids.prefix(20)))
        #expect(rows.description.hasPrefix("50 (Todo row100, Todo row101,"))
    }

    @Test("retryParked resends the rows that match its condition")
    func retryParkedSendsMatchingRows() async throws {
        let faults = Faults()
        faults.rejects.withLock { $0 = true }
        let server = try await makeServer(faults)
        let device = try await Device(server.transport)
        try await device.todos().insert([Todo(id: "a"), Todo(id: "b"), Todo(id: "c")])
        #expect(try await device.push()?.errors.count == 3)
        faults.rejects.withLock { $0 = false }
        // Nothing is sent by itself.
        #expect(try await device.push()?.errors.count == 3)
        #expect(try await device.context.retryParked { $0.itemID != "b" } == 2)
        #expect(try await device.push()?.errors.map(\.itemID) == ["b"])
        #expect(try await device.context.retryParked() == 1)
        #expect(try await device.push() == nil)
        #expect(try await device.client.table(Todo.self).count() == 3)
        #expect(try await device.context.retryParked() == 0)
    }
}
