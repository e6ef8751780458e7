// Requests that travel in a batch: conditions, long queries and unusual ids pass proxies that drop or
// rewrite them.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite(.timeLimit(.minutes(10))) struct DroppedConditionTests {
    /// A proxy that drops `If-Match`: B neither overwrites nor deletes what A edited.
    @Test(arguments: [true, false])
    func aDroppedConditionOverwritesNothing(deletes: Bool) async throws {
        let server = try await makeServer()
        let a = try await Device(server.transport)
        let b = try await Device(Portal(server.transport, dropping: ["If-Match"]))
        try await a.todos().insert(Todo(id: "a", text: "first"))
        try await a.context.push()
        try await b.todos().pull(queryID: "all")
        try await a.todos().update(id: "a") { $0.text = "A's" }
        try await a.context.push()
        if deletes {
            try await b.todos().delete(id: "a")
        } else {
            try await b.todos().update(id: "a") { $0.text = "B's" }
        }
        let error = try #require(try await b.push())
        #expect(error.status == .operationErrors)
        #expect(error.errors.first?.serverItem?["text"] == "A's")
        #expect(try await a.client.table(Todo.self).read(id: "a")?.text == "A's")
    }

    @Test func aDroppedConditionOverwritesNothingOnNode() async throws {
        let server = OriginalServer(.node, tables: [.init("Todo", columns: ["text": .string])])
        let a = try await Device(server, endpoint: server.endpoint, tables: [Todo.self])
        let b = try await Device(
            Portal(server, dropping: ["If-Match"]),
            endpoint: server.endpoint,
            tables: [Todo.self]
        )
        try await a.todos().insert(Todo(id: "a", text: "first"))
        try await a.context.push()
        try await b.todos().pull(queryID: "all")
        try await a.todos().update(id: "a") { $0.text = "A's" }
        try await a.context.push()
        try await b.todos().update(id: "a") { $0.text = "B's" }
        #expect(try await b.push()?.status == .operationErrors)
        #expect(try await a.client.table(Todo.self).read(id: "a")?.text == "A's")
    }

    @Test func aDirectUpdateIsConditionalToo() async throws {
        let server = try await makeServer()
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        let behind = SyncClient(
            endpoint: Device.endpoint,
            transport: Portal(server.transport, dropping: ["If-Match"])
        ).table(Todo.self)
        let old = try await remote.insert(Todo(id: "a", text: "first"))
        try await remote.update(id: "a") { $0.text = "A's" }
        var mine = old
        mine.text = "B's"
        await #expect(throws: SyncError.self) { try await behind.update(mine) }
        await #expect(throws: SyncError.self) { try await behind.delete(old) }
        #expect(try await remote.read(id: "a")?.text == "A's")
    }

    // MARK: - Long URLs

    private static func nginx(_ request: TransportRequest) -> TransportResponse? {
        request.url.absoluteString.utf8.count > 4096 ? Portal.page(414) : nil
    }

    @Test(arguments: [50, 720, 3000])
    func thousandsOfIDsArePulled(count: Int) async throws {
        let server = try await makeServer(pageSize: 500)
        let author = try await Device(server.transport)
        let ids = (1...count).map { _ in UUID().uuidString.lowercased() }
        for id in ids { try await author.todos().insert(Todo(id: id, text: "x")) }
        try await author.todos().insert(Todo(id: "other", text: "x"))
        try await author.context.push()
        let portal = Portal(server.transport)
        portal.answer(Self.nginx)
        let device = try await Device(portal)
        let query = try Query<Todo>(where: { $0.id.isIn(ids) })
        try await device.todos().pull(queryID: "these", query)
        #expect(try await device.rows().count == count)
        // The delta, the digest and a direct read have the same filter.
        try await author.todos().update(id: ids[0]) { $0.text = "new" }
        try await author.context.push()
        try await device.todos().pull(queryID: "these", query)
        #expect(try await device.todos().read(id: ids[0])?.text == "new")
        #expect(try await device.todos().verify(queryID: "these").isEqual)
        #expect(try await device.client.table(Todo.self).read(query).items.count == count)
        #expect(portal.seen.allSatisfy { $0.urlBytes <= 2048 })
    }

    /// A server without batches gets the URL as it is.
    @Test func aServerWithoutBatchesIsAskedPlainly() async throws {
        let server = try await makeServer()
        let author = try await Device(server.transport)
        let ids = (1...100).map { _ in UUID().uuidString.lowercased() }
        for id in ids { try await author.todos().insert(Todo(id: id, text: "x")) }
        try await author.context.push()
        let portal = Portal(server.transport)
        portal.answer {
            $0.url.path().hasSuffix("/$batch") ? TransportResponse(status: 404) : nil
        }
        let device = try await Device(portal)
        let query = try Query<Todo>(where: { $0.id.isIn(ids) })
        try await device.todos().pull(queryID: "these", query)
        #expect(try await device.rows().count == 100)
        #expect(portal.seen.filter { $0.path.hasSuffix("/$batch") }.count == 1)
    }

    // MARK: - Ids

    static let ids = [
        ".hidden", "a%2Fb", "a#b", "a;b=c", "a b", "a'b", "größe", "日本", "a%b", "a&b=c", "a:b",
        "a,b",
        "..a", "a@b", "a|b", "{a}", "[a]", "~a", "a=b", "$a", "a!b", "(a)", "*",
    ]

    @Test(arguments: ids)
    func anUnusualIDPassesAGateway(id: String) async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        portal.answer { request in
            let url = request.url.absoluteString
            return url.contains("%") || url.contains("/.") ? Portal.page(400) : nil
        }
        let device = try await Device(portal)
        try await device.todos().insert(Todo(id: id, text: "x"))
        try await device.context.push()
        try await device.todos().update(id: id) { $0.text = "y" }
        try await device.context.push()
        let remote = device.client.table(Todo.self)
        #expect(try await remote.read(id: id)?.text == "y")
        try await device.todos().delete(id: id)
        try await device.context.push()
        #expect(try await device.context.pendingOperationCount == 0)
    }

    // MARK: - User-Agent

    @Test func everyRequestNamesTheApp() async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: portal,
            appName: "Tours\r\nX-Evil: 1"
        )
        try await client.syncContext.initialize(store: MemoryStore(), tables: [Todo.self])
        try await client.syncTable(Todo.self).insert(Todo(id: "a"))
        try await client.syncContext.push()
        try await client.syncTable(Todo.self).pull(queryID: "all")
        _ = try await client.table(Todo.self).read()
        #expect(!portal.seen.isEmpty)
        for request in portal.seen {
            #expect(
                request.headers["User-Agent"]
                    == "Tideline/\(ReleaseVersion.text) (Tours--X-Evil: 1)"
            )
        }
    }
}
