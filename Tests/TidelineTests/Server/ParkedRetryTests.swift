// Operations that a server rejected because it lacked a table, a column or a permission: they are sent again without
// the app, when the server, the caller's permissions or the app have changed.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct ParkedRetryTests {
    /// A server that is deployed again with other tables on the same database.
    private final class Deployments: Transport {
        private struct State {
            var server: InProcessServer?
            var rejection: TransportResponse?
            var namesSchema = true
            var writes = 0
        }

        private let path: String
        private let state = Mutex(State())

        init(_ path: String, _ tables: [TableDefinition]) async throws {
            self.path = path
            try await deploy(tables)
        }

        func deploy(_ tables: [TableDefinition]) async throws {
            state.withLock { $0.server = nil }
            var options = SQLiteTableStore.Options()
            options.inline = true
            let server = try await InProcessServer(
                tables: tables,
                environment: .live,
                store: try SQLiteTableStore(path: path, options: options)
            )
            state.withLock { $0.server = server }
        }

        /// Gives this answer to every write, or passes writes to the server again if nil.
        func reject(with answer: TransportResponse?) { state.withLock { $0.rejection = answer } }

        /// Removes the header field that names the schema, like a server of another vendor.
        func hideSchema() { state.withLock { $0.namesSchema = false } }

        var writes: Int { state.withLock { $0.writes } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let (server, rejection, namesSchema) = state.withLock { state in
                if request.method != "GET" { state.writes += 1 }
                return (
                    state.server, request.method == "GET" ? nil : state.rejection, state.namesSchema
                )
            }
            var response =
                if let rejection { rejection } else {
                    try await #require(server).transport.send(request)
                }
            if !namesSchema {
                response.headers["Tideline-Schema"] = nil
                let text = String(decoding: response.body, as: UTF8.self)
                let name = #/"tideline-schema":"[^"]*",?/#.ignoresCase()
                response.body = Array(text.replacing(name, with: "").utf8)
            }
            return response
        }
    }

    private static let text = ColumnDefinition("text", .string)
    private static let complete = ColumnDefinition("complete", .boolean)
    private static let rank = ColumnDefinition("rank", .integer)
    private static let note = TableDefinition("Note", columns: [ColumnDefinition("body", .string)])
    private static let whole = TableDefinition("Todo", columns: [text, complete, rank])

    private static func forbidden() -> TransportResponse {
        TransportResponse(
            status: 403,
            headers: ["Content-Type": "application/problem+json"],
            body: Array(#"{"title":"Forbidden","status":403,"detail":"Readers only."}"#.utf8)
        )
    }

    private func withServer(
        _ tables: [TableDefinition],
        _ body: (Deployments) async throws -> Void
    ) async throws {
        try await withTemporaryFile { try await body(Deployments($0, tables)) }
    }

    private static let lacking = [
        [note],
        [TableDefinition("Todo", columns: [text, complete]), note],
        [
            TableDefinition(
                "Todo",
                columns: [text, complete, rank],
                permissions: TablePermissions(insert: .disabled)
            ), note,
        ],
    ]

    @Test(
        "An operation without its table, column or permission is sent after its deployment",
        arguments: 0..<3,
        ["push", "pull", "syncOnce"]
    )
    func aDeploymentReleasesTheOperations(lack: Int, by action: String) async throws {
        try await withServer(Self.lacking[lack]) { server in
            let device = try await Device(server, environment: .live)
            try await device.todos().insert([Todo(id: "a", rank: 1), Todo(id: "b", rank: 2)])
            #expect(try await device.push()?.errors.count == 2)
            // The same server would reject them again, so they are not sent.
            let writes = server.writes
            #expect(try await device.push()?.errors.count == 2)
            #expect(server.writes == writes)
            try await server.deploy([Self.whole, Self.note])
            switch action {
            case "push":
                #expect(try await device.push() == nil)
            case "pull":
                try await device.client.syncTable(Note.self).pull(queryID: "notes")
                #expect(try await device.push() == nil)
            default:
                #expect(try await device.client.syncOnce(deadline: .seconds(3600)))
                #expect(device.client.currentSyncStatus == .idle)
            }
            #expect(try await device.client.table(Todo.self).count() == 2)
            #expect(try await device.context.pendingOperationCount == 0)
        }
    }

    @Test("Automatic sync sends the parked operations when a pull shows the deployment")
    func automaticSync() async throws {
        try await withServer([Self.note]) { server in
            let device = try await Device(server, environment: .live)
            try await device.todos().insert(Todo(id: "a"))
            #expect(try await device.push()?.errors.count == 1)
            try await server.deploy([Self.whole, Self.note])
            try device.client.startSyncing()
            for await status in device.client.syncStatus where status == .idle {
                if try await device.context.pendingOperationCount == 0 { break }
            }
            #expect(try await device.client.table(Todo.self).count() == 1)
            device.client.stopSyncing()
        }
    }

    @Test("The deployment also releases the other operations of the rejected transaction")
    func transactions() async throws {
        try await withServer([Self.note]) { server in
            let device = try await Device(server)
            try await device.context.transaction { context in
                try context.table(Todo.self).insert(Todo(id: "a"))
                try context.table(Note.self).insert(Note(id: "n"))
            }
            #expect(try await device.push()?.errors.map(\.itemID).sorted() == ["a", "n"])
            try await server.deploy([Self.whole, Self.note])
            #expect(try await device.push() == nil)
            #expect(try await device.client.table(Note.self).count() == 1)
            #expect(try await device.client.table(Todo.self).count() == 1)
        }
    }

    @Test("An operation that was rejected because of its values stays parked after any deployment")
    func valuesStay() async throws {
        try await withServer([Self.whole, Self.note]) { server in
            let device = try await Device(server)
            let other = try await Device(server)
            try await other.client.table(Todo.self).insert(Todo(id: "a", text: "theirs"))
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            let codes = try await device.push()?.errors.map(\.statusCode)
            #expect(codes == [412])
            let extra = ColumnDefinition("extra", .string)
            try await server.deploy([
                TableDefinition("Todo", columns: [Self.text, Self.complete, Self.rank, extra]),
                Self.note,
            ])
            let writes = server.writes
            #expect(try await device.push()?.errors.count == 1)
            #expect(server.writes == writes)
        }
    }

    @Test(
        "A forbidden operation is sent when the app reports new permissions of the caller"
    )
    func announcedRights() async throws {
        try await withServer([Self.whole, Self.note]) { server in
            let device = try await Device(server, authentication: ScriptedSignIn { _ in "opaque" })
            try await device.todos().insert(Todo(id: "a"))
            server.reject(with: Self.forbidden())
            #expect(try await device.push()?.errors.map(\.statusCode) == [403])
            server.reject(with: nil)
            #expect(try await device.push()?.errors.map(\.statusCode) == [403])
            await device.client.accountChanged()
            #expect(try await device.push() == nil)
        }
    }

    @Test(
        "A forbidden operation is sent when the token has other claims, not when it is renewed"
    )
    func otherClaims() async throws {
        func token(_ role: String, _ second: Int) -> String {
            let claims = #"{"sub":"anna","role":"\#(role)","iat":\#(second),"exp":\#(second + 60)}"#
            return "e30." + Base64URL.encode(claims.utf8) + ".c2ln"
        }
        try await withServer([Self.whole, Self.note]) { server in
            server.hideSchema()
            let current = Mutex(token("reader", 1))
            let signIn = ScriptedSignIn { _ in current.withLock { $0 } }
            let store = MemoryStore()
            let first = try await Device(server, store: store, authentication: signIn)
            try await first.todos().insert(Todo(id: "a"))
            server.reject(with: Self.forbidden())
            #expect(try await first.push()?.errors.map(\.statusCode) == [403])
            server.reject(with: nil)
            for (role, isSent) in [("reader", false), ("writer", true)] {
                current.withLock { $0 = token(role, 100) }
                let device = try await Device(server, store: store, authentication: signIn)
                try await device.client.syncTable(Note.self).pull(queryID: nil)
                #expect((try await device.push() == nil) == isSent)
            }
        }
    }

    @Test("An update of the app sends the parked operations once")
    func updatedApp() async throws {
        try await withServer([Self.note]) { server in
            let store = MemoryStore()
            func open(_ version: String) async throws -> SyncClient {
                let client = SyncClient(
                    endpoint: Device.endpoint,
                    transport: server,
                    appVersion: version,
                    environment: Waits().environment
                )
                try await client.syncContext.initialize(
                    store: store,
                    tables: [Todo.self, Note.self]
                )
                return client
            }
            func push(_ client: SyncClient) async -> Int {
                let before = server.writes
                _ = try? await client.syncContext.push()
                return server.writes - before
            }
            let first = try await open("1.0")
            try await first.syncTable(Todo.self).insert(Todo(id: "a"))
            #expect(await push(first) > 0)
            #expect(await push(first) == 0)
            let second = try await open("1.1")
            #expect(await push(second) > 0)
            #expect(await push(second) == 0)
        }
    }

    @Test(
        "If the server does not state its schema, an operation is retried at growing intervals"
    )
    func aServerOfAnotherVendorIsTriedAgain() async throws {
        try await withServer([Self.note]) { server in
            server.hideSchema()
            let now = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
            var environment = Waits().environment
            environment.now = { now.withLock { $0 } }
            let device = try await Device(server, environment: environment)
            func writes(after minutes: Double) async throws -> Int {
                now.withLock { $0 += minutes * 60 }
                let before = server.writes
                _ = try await device.push()
                return server.writes - before
            }
            try await device.todos().insert(Todo(id: "a"))
            #expect(try await writes(after: 0) > 0)
            #expect(try await writes(after: 0) == 0)
            #expect(try await writes(after: 14) == 0)
            #expect(try await writes(after: 2) > 0)
            #expect(try await writes(after: 29) == 0)
            #expect(try await writes(after: 2) > 0)
            // After any number of retries the interval is at most six hours.
            for _ in 0..<8 { _ = try await writes(after: 359) }
            #expect(try await writes(after: 361) > 0)
            try await server.deploy([Self.whole, Self.note])
            #expect(try await device.push()?.errors.count == 1)
            #expect(try await writes(after: 361) > 0)
            #expect(try await device.context.pendingOperationCount == 0)
        }
    }
}
