// Verification compares device and server by digests, and repairs differences.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct VerifyTests {
    private func server(_ rows: Int) async throws -> InProcessServer {
        let server = try await makeServer()
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        for index in 0..<rows { try await remote.insert(Todo(id: "r\(index)", rank: index)) }
        return server
    }

    @Test("The verification of a device without differences needs one request")
    func anEqualDeviceNeedsOneRequest() async throws {
        let device = try await Device(try await server(700).transport)
        try await device.todos().pull(queryID: "all")
        let result = try await device.todos().verify(queryID: "all")
        #expect(result.isEqual)
        #expect(result.requests == 1)
        try await device.todos().update(id: "r1") { $0.text = "mine" }
        try await device.todos().insert(Todo(id: "n"))
        try await device.todos().delete(id: "r2")
        #expect(try await device.todos().verify(queryID: "all").isEqual)
        #expect(try await device.queue().count == 3)
    }

    @Test("Verification finds and repairs missing, changed and surplus rows")
    func differencesAreFoundAndRepaired() async throws {
        try await withTemporaryFile { path in
            let transport = try await server(700).transport
            let device = try await Device(transport, store: SQLiteStore(path: path))
            let part: @Sendable () async throws -> Void = {
                try await device.todos().pull(queryID: "part", where: { $0.rank >= 100 })
            }
            try await part()
            let before = try await device.rows()
            do {
                let database = try Database(path: path)
                try database.execute("DELETE FROM Todo WHERE id = 'r300'")
                try database.execute("UPDATE Todo SET version = 'x', text = 'y' WHERE id = 'r301'")
                try database.execute("UPDATE Todo SET id = 'zz' WHERE id = 'r650'")
            }
            let found = try await device.todos().verify(queryID: "part")
            #expect(found.missing == 2)
            #expect(found.different == 1)
            #expect(found.surplus == 1)
            #expect(found.repaired == 0)
            let repaired = try await device.todos().verify(queryID: "part", repair: true)
            #expect(repaired.repaired == 4)
            #expect(repaired.requests < 10)
            #expect(try await device.todos().verify(queryID: "part").isEqual)
            #expect(try await device.rows() == before)
        }
    }

    /// A row with a pending operation is not compared.
    @Test("Verification finds and repairs a value that changed without a new version")
    func aChangedValueUnderTheSameVersionIsFoundAndRepaired() async throws {
        try await withTemporaryFile { path in
            let server = try await server(700)
            let device = try await Device(server.transport, store: SQLiteStore(path: path))
            try await device.todos().pull(queryID: "all")
            try await device.todos().pull(queryID: "part", where: { $0.rank >= 600 })
            let before = try await device.rows()
            do {
                let database = try Database(path: path)
                try database.execute("UPDATE Todo SET text = 'y' WHERE id IN ('r301', 'r5')")
                try database.execute("UPDATE Todo SET complete = 1 WHERE id = 'r650'")
            }
            let found = try await device.todos().verify(queryID: "all")
            #expect(found.different == 3 && found.missing == 0 && found.surplus == 0)
            #expect(try await device.todos().verify(queryID: "part").different == 1)
            let repaired = try await device.todos().verify(queryID: "all", repair: true)
            #expect(repaired.repaired == 3)
            #expect(repaired.requests < 15)
            #expect(try await device.todos().verify(queryID: "all").isEqual)
            #expect(try await device.todos().verify(queryID: "part").isEqual)
            #expect(try await device.rows() == before)
            try await device.todos().update(id: "r7") { $0.rank = 8 }
            do {
                let database = try Database(path: path)
                try database.execute("UPDATE Todo SET text = 'y' WHERE id = 'r7'")
            }
            #expect(try await device.todos().verify(queryID: "all", repair: true).isEqual)
            #expect(try await device.todos().read(id: "r7")?.rank == 8)
        }
    }

    @Test("A row without a checksum is compared by its values")
    func aRowWithoutAChecksumIsComparedByValue() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(
                try await server(100).transport,
                store: SQLiteStore(path: path)
            )
            try await device.todos().pull(queryID: "all")
            func change(_ sql: String) throws { try Database(path: path).execute(sql) }
            try change("UPDATE Todo SET __checksum = NULL WHERE id IN ('r3', 'r4')")
            try change("UPDATE Todo SET text = 'y' WHERE id = 'r4'")
            let found = try await device.todos().verify(queryID: "all")
            #expect(found.different == 1 && found.missing == 0 && found.surplus == 0)
            #expect(try await device.todos().verify(queryID: "all", repair: true).different == 1)
            let after = try await device.todos().verify(queryID: "all")
            #expect(after.isEqual && after.requests == 1)
        }
    }

    @Test("Verification finds a row that the app chose in place of a discarded operation")
    func aRowThatTheAppChoseForADroppedOperationIsFound() async throws {
        try await withTemporaryFile { path in
            let server = try await server(20)
            let device = try await Device(server.transport, store: SQLiteStore(path: path))
            try await device.todos().pull(queryID: "all")
            let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
                .table(Todo.self)
            for (id, text) in [("r1", "own"), ("r2", "theirs")] {
                try await remote.update(id: id) { $0.text = "theirs" }
                try await device.todos().update(id: id) { $0.text = "mine" }
                let error = try #require(try await device.push()?.errors.first)
                var item = try #require(error.serverItem)
                item["text"] = .string(text)
                try await error.cancelOperationAndUpdateItem(item)
            }
            func explanation(_ id: String) async throws -> RowExplanation {
                try await device.context.explain(table: "Todo", id: id)
            }
            #expect(try await explanation("r1").has(.changedHere))
            #expect(try await explanation("r2").has(.serverVersion))
            let repaired = try await device.todos().verify(queryID: "all", repair: true)
            #expect(repaired.different == 1)
            #expect(try await device.todos().read(id: "r1")?.text == "theirs")
            #expect(try await explanation("r1").has(.serverVersion))
        }
    }

    @Test("Verification with a classic server throws an error that recommends a pull")
    func aClassicServerHasNoDigests() async throws {
        let transport = ScriptedTransport([.json(200, "[]"), .status(400)])
        let client = SyncClient(
            endpoint: Device.endpoint,
            generation: .classic,
            transport: transport
        )
        try await client.syncContext.initialize(store: MemoryStore(), tables: [Todo.self])
        let todos = try client.syncTable(Todo.self)
        try await todos.pull(queryID: "all")
        let error = await #expect(throws: SyncError.self) {
            try await todos.verify(queryID: "all")
        }
        #expect(error?.message.contains("classic protocol") == true)
        #expect(error?.message.contains("a pull works with this server too") == true)
    }

    @Test("Changes on the server since the last pull count as differences")
    func changesSinceTheLastPullAreDifferences() async throws {
        let server = try await server(20)
        let device = try await Device(server.transport)
        try await device.todos().pull(queryID: "all")
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        try await remote.update(id: "r1") { $0.text = "theirs" }
        try await remote.delete(id: "r2")
        try await remote.insert(Todo(id: "new"))
        let result = try await device.todos().verify(queryID: "all", repair: true)
        #expect(result.missing == 1 && result.different == 1 && result.surplus == 1)
        #expect(try await device.todos().read(id: "r1")?.text == "theirs")
        #expect(try await device.todos().verify(queryID: "all").isEqual)
        #expect(try await device.todos().verify(queryID: nil).isEqual)
    }

    @Test("A repair removes no row if the server's rows cannot be fetched")
    func rowsThatCouldNotBeFetchedStay() async throws {
        let link = EmptyPages(try await server(20).transport)
        let device = try await Device(link)
        try await device.todos().pull(queryID: "all")
        try await device.store.write { _ = try $0.delete(ids: ["r3"], in: "Todo") }
        link.begin()
        let rejected = await code {
            try await device.todos().verify(queryID: "all", repair: true)
        }
        #expect(rejected == .badResponse)
        #expect(try await device.rows().count == 19)
    }

    @Test("A repair keeps rows of another query with the same number")
    func sharedNumber() async throws {
        let server = try await server(63)
        let device = try await Device(server.transport)
        let todos = try device.todos()
        for number in 1...62 {
            try await todos.pull(queryID: "q\(number)", where: { $0.rank == number })
        }
        #expect(try await todos.count() == 62)
        let kept = try await todos.verify(queryID: "q62", repair: true)
        #expect(kept.isEqual && kept.repaired == 0)
        #expect(try await todos.count() == 62)
        try await SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self).delete(id: "r62")
        #expect(try await todos.verify(queryID: "q62").surplus == 1)
        #expect(try await todos.verify(queryID: "q62", repair: true).repaired == 1)
        #expect(try await todos.count() == 61)
        #expect(try await todos.read(id: "r61") != nil)
    }

    @Test("A repair of the whole table keeps rows that the server hides from the account")
    func rowsOfAnotherAccountStay() async throws {
        var table = TableDefinition(
            "Todo",
            columns: [
                ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                ColumnDefinition("rank", .integer),
            ]
        )
        table.owner = "userId"
        let server = try await InProcessServer(
            tables: [table],
            environment: ServerEnvironment(
                now: { 1_800_000_000_000_000 },
                makeID: ServerEnvironment.live.makeID
            ),
            authenticator: Authenticator { (token, _) throws(TokenRejection) in
                CheckedToken(user: User(id: String(token.prefix { $0 != "-" })))
            }
        )
        let signIn = SignIn("anna")
        let device = try await Device(
            server.transport,
            tables: [Todo.self],
            authentication: signIn
        )
        for account in ["anna", "ben"] {
            signIn.change(to: account)
            try await device.todos().insert(Todo(id: account, text: account))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
        }
        let result = try await device.todos().verify(queryID: nil, repair: true)
        #expect(result.isEqual && result.repaired == 0)
        let rows = try await device.todos().read(sortedBy: [.ascending(\.id)])
        #expect(rows.map(\.id) == ["anna", "ben"])
    }

    @Test("Verification of a query ID that was never pulled throws an error")
    func anIDThatWasNeverPulledIsAnError() async throws {
        let device = try await Device(ScriptedTransport())
        #expect(await code { try await device.todos().verify(queryID: "x") } == .invalidQueryID)
    }
}

/// While it is switched on, returns an empty page with a next link in place of each list.
private final class EmptyPages: Transport {
    private let inner: any Transport
    private let isOn = Mutex(false)

    init(_ inner: any Transport) { self.inner = inner }

    func begin() { isOn.withLock { $0 = true } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard isOn.withLock({ $0 }), request.url.path().hasSuffix("/tables/Todo") else {
            return try await inner.send(request)
        }
        let body = #"{"items":[],"nextLink":"?$skip=1"}"#
        return TransportResponse(status: 200, body: Array(body.utf8))
    }
}
