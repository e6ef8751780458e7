// Requests in a batch: conditions, long queries and unusual ids pass proxies that drop or rewrite them.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct DroppedConditionTests {
    @Test(
        "An edit is not overwritten through a proxy that drops If-Match",
        arguments: [true, false]
    )
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

    static let policies: [String: ConflictPolicy] = [
        "fail": .fail, "serverWins": .serverWins, "merge": .merge,
    ]

    /// The condition is also in the URL.
    @Test(
        "An edit is not overwritten if a proxy drops If-Match and rejects batches",
        arguments: [403, 404, 405],
        [true, false]
    )
    func aDroppedConditionWithoutBatchesOverwritesNothing(status: Int, deletes: Bool) async throws {
        for (name, policy) in Self.policies {
            let server = try await makeServer()
            let a = try await Device(server.transport)
            let portal = Portal(server.transport, dropping: ["If-Match"])
            portal.answer { $0.url.path().hasSuffix("/$batch") ? Portal.page(status) : nil }
            let b = try await Device(portal, conflicts: policy)
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
            let error = try await b.push()
            #expect(try await a.client.table(Todo.self).read(id: "a")?.text == "A's", "\(name)")
            if name == "serverWins" {
                #expect(error == nil)
                #expect(try await b.todos().read(id: "a")?.text == "A's")
            } else {
                #expect(error?.status == .operationErrors, "\(name)")
                #expect(error?.errors.map(\.statusCode) == [412], "\(name)")
                #expect(error?.errors.first?.serverItem?["text"] == "A's", "\(name)")
            }
        }
    }

    /// Delivers requests and loses the answers to writes.
    private final class AnswerLoss: Transport {
        let inner: any Transport
        let isOn = Mutex(false)

        init(_ inner: any Transport) { self.inner = inner }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let response = try await inner.send(request)
            guard request.method != "GET", isOn.withLock({ $0 }) else { return response }
            throw TransportError(.connectionLost, "Lost.", outcomeIsUnknown: true)
        }
    }

    @Test("Writes pass a proxy that drops If-Match and rejects batches", arguments: [true, false])
    func writesPassAProxyWithoutConditionsAndBatches(isLost: Bool) async throws {
        let server = try await makeServer()
        let link = AnswerLoss(server.transport)
        let portal = Portal(link, dropping: ["If-Match"])
        let rejects: Portal.Rule = { request in
            request.url.path().hasSuffix("/$batch") ? Portal.page(404) : nil
        }
        let device = try await Device(portal)
        for id in ["a", "b", "c"] { try await device.todos().insert(Todo(id: id, text: "first")) }
        portal.answer(rejects)
        #expect(try await device.push() == nil)
        try await device.todos().update(id: "a") { $0.text = "second" }
        try await device.todos().delete(id: "b")
        if isLost {
            // The server executes both, and its answers are lost.
            link.isOn.withLock { $0 = true }
            for _ in 0..<3 { #expect(try await device.push()?.status == .networkFailure) }
            link.isOn.withLock { $0 = false }
        }
        #expect(try await device.push() == nil)
        let remote = device.client.table(Todo.self)
        #expect(try await remote.read(id: "a")?.text == "second")
        #expect(try await remote.read(id: "b") == nil)
        // A deleted row is restored.
        try await device.todos().insert(Todo(id: "b", text: "again"))
        #expect(try await device.push() == nil)
        #expect(try await remote.read(id: "b")?.text == "again")
        #expect(try await device.queue().isEmpty)
    }

    @Test("Direct writes are conditional behind a proxy without If-Match and batches")
    func aDirectUpdateWithoutBatchesIsConditionalToo() async throws {
        let server = try await makeServer()
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        let portal = Portal(server.transport, dropping: ["If-Match"])
        portal.answer { $0.url.path().hasSuffix("/$batch") ? Portal.page(405) : nil }
        let behind = SyncClient(endpoint: Device.endpoint, transport: portal).table(Todo.self)
        _ = try await remote.insert(Todo(id: "a", text: "first"))
        let old = try #require(try await behind.read(id: "a"))
        try await remote.update(id: "a") { $0.text = "A's" }
        var mine = old
        mine.text = "B's"
        await #expect(throws: SyncError.self) { try await behind.update(mine) }
        await #expect(throws: SyncError.self) { try await behind.delete(old) }
        #expect(try await remote.read(id: "a")?.text == "A's")
    }

    @Test("After an accepted batch, a conditional write is not sent outside of a batch")
    func aServerThatAcceptedBatchesIsTriedAgainLater() async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport, dropping: ["If-Match"])
        let device = try await Device(portal)
        try await device.todos().insert(Todo(id: "a", text: "first"))
        try await device.context.push()
        try await device.todos().update(id: "a") { $0.text = "second" }
        #expect(try await device.push() == nil)
        portal.answer { $0.url.path().hasSuffix("/$batch") ? Portal.page(403) : nil }
        try await device.todos().delete(id: "a")
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.client.table(Todo.self).read(id: "a")?.text == "second")
        portal.answer(nil)
        #expect(try await device.push() == nil)
        #expect(try await device.client.table(Todo.self).read(id: "a") == nil)
    }

    /// The original servers read the condition from the header field only, except for updates on Node: the row is read
    /// first.
    @Test(
        "An edit on an original server is not overwritten if a proxy drops If-Match",
        arguments: OriginalServer.Flavor.allCases,
        [true, false]
    )
    func aDroppedConditionOverwritesNothingOnAnOriginal(
        flavor: OriginalServer.Flavor,
        deletes: Bool
    ) async throws {
        let columns: [String: OriginalServer.ColumnType] = [
            "text": .string, "complete": .boolean, "rank": .number,
        ]
        let server = OriginalServer(flavor, tables: [.init("Todo", columns: columns)])
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
        if deletes {
            try await b.todos().delete(id: "a")
        } else {
            try await b.todos().update(id: "a") { $0.text = "B's" }
        }
        let error = try #require(try await b.push())
        #expect(error.status == .operationErrors)
        #expect(error.errors.first?.serverItem?["text"] == "A's")
        #expect(try await a.client.table(Todo.self).read(id: "a")?.text == "A's")
        // The app decides, and nothing is blocked.
        try await error.errors.first?.retry()
        try await b.todos().pull(queryID: "all")
    }

    @Test("Direct writes are conditional behind a proxy that drops If-Match")
    func aDirectUpdateIsConditionalToo() async throws {
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

    @Test(
        "A query for thousands of IDs is pulled with URLs of at most 2,048 bytes",
        arguments: TestScope.first(1, of: [50, 720, 3000])
    )
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

    @Test("A long query is sent as a plain URL to a server without batches")
    func aServerWithoutBatchesGetsThePlainURL() async throws {
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

    @Test("Rows with unusual IDs pass a gateway that rejects escaped URLs", arguments: ids)
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

    /// Gateways trim trailing dots, and reject `..` and ids that look like file names.
    @Test(
        "Rows whose IDs contain dots pass a gateway that rejects dots in paths",
        arguments: ["a.", "a..b", "backup.sql", "web.config", "2026.11.25"]
    )
    func anIDWithDotsPassesAGateway(id: String) async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        portal.answer { $0.url.path().contains(".") ? Portal.page(403) : nil }
        let device = try await Device(portal)
        let remote = device.client.table(Todo.self)
        try await remote.insert(Todo(id: id, text: "x"))
        #expect(try await remote.read(id: id)?.text == "x")
        try await remote.update(id: id) { $0.text = "y" }
        #expect(try await remote.read(id: id)?.text == "y")
        try await remote.delete(id: id)
        #expect(try await remote.read(id: id) == nil)
    }

    // MARK: - User-Agent

    @Test("Every request names the app in its User-Agent")
    func everyRequestNamesTheApp() async throws {
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
        // No cache answers a read with a stored response.
        let reads = portal.seen.filter { $0.method == "GET" }
        #expect(reads.count >= 2)
        #expect(reads.allSatisfy { $0.headers["Cache-Control"] == "no-cache" })
    }
}
