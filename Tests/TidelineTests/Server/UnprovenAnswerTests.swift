// Answers of gateways park nothing, remove nothing, and move no cursor.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct UnprovenAnswerTests {
    static let statuses = TestScope.coversAll ? allStatuses : [200, 302, 403, 404, 412, 500]
    private static let allStatuses =
        [200, 201, 204, 206, 300, 302, 304, 307]
        + [400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 418]
        + [421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499]
        + [500, 501, 502, 503, 504, 511, 520, 599]

    static func answers(_ status: Int) -> [TransportResponse] {
        [
            Portal.page(status), TransportResponse(status: status),
            Portal.json(status, #"{"message":"Forbidden"}"#),
            Portal.json(status, #"{"statusCode":\#(status),"message":"No."}"#),
            Portal.json(status, #"{"title":"Bad","status":\#(status + 1)}"#),
        ]
    }

    @Test("A gateway's response never parks an insert", arguments: statuses, [1, 7])
    func aPageNeverParksAnInsert(status: Int, count: Int) async throws {
        for answer in Self.answers(status) {
            let server = try await makeServer()
            let portal = Portal(server.transport)
            let device = try await Device(portal)
            try await device.add((1...20).map { "n\($0)" })
            portal.answer(next: count, answer)
            _ = try await device.push()
            #expect(try await device.context.operationErrors().isEmpty, "\(answer)")
            portal.answer(nil)
            _ = try await device.push()
            #expect(try await device.context.pendingOperationCount == 0, "\(answer)")
            let rows = try await device.client.table(Todo.self).read()
            #expect(rows.count == 20, "\(answer)")
        }
    }

    @Test("An edit and a delete survive a gateway's response", arguments: statuses)
    func anEditAndADeleteSurviveAPage(status: Int) async throws {
        for answer in Self.answers(status) {
            let server = try await makeServer()
            let portal = Portal(server.transport)
            let device = try await Device(portal)
            try await device.add(["a", "b"])
            try await device.context.push()
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try await device.todos().delete(id: "b")
            portal.answer { _ in answer }
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure && error.errors.isEmpty, "\(answer)")
            #expect(try await device.todos().read(id: "a")?.text == "mine")
            portal.answer(nil)
            _ = try await device.push()
            #expect(try await device.context.pendingOperationCount == 0, "\(answer)")
            let remote = device.client.table(Todo.self)
            #expect(try await remote.read(id: "a")?.text == "mine")
            #expect(try await remote.read(id: "b") == nil)
        }
    }

    @Test(
        "An empty 404 or 410 in place of an original server's response parks nothing",
        arguments: OriginalServer.Flavor.allCases,
        [404, 410]
    )
    func anEmptyAnswerParksNothingAtOriginalServers(
        flavor: OriginalServer.Flavor,
        status: Int
    ) async throws {
        let columns: [String: OriginalServer.ColumnType] = [
            "text": .string, "complete": .boolean, "rank": .number,
        ]
        let server = OriginalServer(flavor, tables: [.init("Todo", columns: columns)])
        let portal = Portal(server)
        let device = try await Device(portal, endpoint: server.endpoint, tables: [Todo.self])
        try await device.add(["a", "b"])
        try await device.context.push()
        try await device.todos().pull(queryID: "all")
        try await device.todos().update(id: "a") { $0.text = "mine" }
        try await device.todos().delete(id: "b")
        portal.answer { _ in TransportResponse(status: status) }
        for _ in 1...2 {
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure && error.errors.isEmpty)
        }
        portal.answer(nil)
        #expect(try await device.push() == nil)
        let rows = try await device.client.table(Todo.self).read()
        #expect(rows.map(\.text) == ["mine"])
    }

    @Test(
        "An empty response from a gateway does not complete a delete",
        arguments: [200, 204, 404, 410]
    )
    func anEmptyAnswerToADeleteIsNotASuccess(status: Int) async throws {
        let server = try await makeServer()
        let first = try await Device(server.transport)
        try await first.todos().insert(Todo(id: "a", text: "x"))
        try await first.context.push()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.todos().pull(queryID: "all")
        try await device.todos().delete(id: "a")
        portal.answer { $0.method == "GET" ? nil : TransportResponse(status: status) }
        _ = try await device.push()
        #expect(try await device.context.pendingOperationCount == 1)
        portal.answer(nil)
        try await device.context.push()
        #expect(try await device.client.table(Todo.self).read(id: "a") == nil)
    }

    @Test("A gateway's response to a pull moves no cursor and removes no row", arguments: statuses)
    func aPageMovesNoCursorAndRemovesNoRow(status: Int) async throws {
        let server = try await makeServer()
        let author = try await Device(server.transport)
        try await author.add(["a", "b"])
        try await author.context.push()
        for answer in Self.answers(status) + [
            Portal.json(status, "[]"), Portal.json(status, #"{"items":[]}"#),
            Portal.json(status, #"{"items":[],"count":0,"nextLink":null}"#),
            // Lists of another server.
            Portal.json(status, #"{"items":[{"title":"Sign in"}]}"#),
            Portal.json(status, #"{"items":[{"id":7,"title":"Sign in"}]}"#),
            Portal.json(status, #"{"items":[{"id":"","text":"x"}]}"#),
            Portal.json(status, #"{"items":[{"id":"login","text":"Sign in"}]}"#),
            Portal.json(status, #"{"value":[{"@removed":{"reason":"deleted"}}]}"#),
            Portal.json(status, #"[{"message":"Forbidden"}]"#),
        ] {
            let portal = Portal(server.transport)
            let device = try await Device(portal)
            try await device.todos().pull(queryID: "all")
            portal.answer { _ in answer }
            for queryID in ["all", nil] {
                await #expect(throws: (any Error).self, "\(answer)") {
                    try await device.todos().pull(queryID: queryID)
                }
            }
            await #expect(throws: (any Error).self, "\(answer)") {
                try await device.todos().verify(queryID: "all", repair: true)
            }
            #expect(try await device.rows().count == 2, "\(answer)")
            portal.answer(nil)
            let before = portal.seen.count
            #expect(try await device.todos().pull(queryID: "all").applied == 0, "\(answer)")
            // The next pull continues at its cursor.
            #expect(portal.seen.count == before + 1)
        }
    }

    @Test(
        "A push or pull survives one response from a gateway",
        arguments: [200, 302, 403, 404, 410, 451, 511]
    )
    func aTemporaryPageHasNoEffect(status: Int) async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.todos().pull(queryID: "all")
        portal.answer(next: 1, Portal.page(status))
        try await device.todos().pull(queryID: "all")
        try await device.add(["a", "b"])
        portal.answer(next: 1, Portal.page(status))
        #expect(try await device.context.push().completed == 2)
    }

    @Test(
        "A rejection inside a gateway's batch response parks nothing",
        arguments: [400, 403, 409, 412, 413, 422]
    )
    func anAnswerWithinABatchMustProveItself(status: Int) async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.add(["a", "b"])
        portal.answer { request in
            guard request.url.path().hasSuffix("/$batch") else { return nil }
            let one = #"{"id":"1","status":\#(status),"headers":{},"body":{"message":"No."}}"#
            let two =
                #"{"id":"2","status":\#(status),"headers":{"content-type":"text/html"},"#
                + #""body":"<html>"}"#
            return Portal.json(200, #"{"responses":[\#(one),\#(two)]}"#)
        }
        _ = try await device.push()
        #expect(try await device.context.operationErrors().isEmpty)
        portal.answer(nil)
        try await device.context.push()
        #expect(try await device.context.pendingOperationCount == 0)
    }

    /// Found by the simulation, seeds 26, 31 and 33.
    @Test("A gateway's answer inside the server's batch response parks nothing")
    func aGatewayInsideABatch() async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.add(["a"])
        try await device.context.push()
        try await device.todos().update(id: "a") { $0.text = "new" }
        portal.answer { request in
            guard request.url.path().hasSuffix("/$batch") else { return nil }
            var response = Portal.json(200, #"{"responses":[{"id":"1","status":403}]}"#)
            response.headers["Tideline-Epoch"] = "epoch"
            response.headers["Tideline-Schema"] = "schema"
            return response
        }
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure && error.errors.isEmpty)
        portal.answer(nil)
        try await device.context.push()
        #expect(try await device.context.pendingOperationCount == 0)
    }

    @Test("A rejection by the server parks its operation")
    func aRejectionOfTheServerParks() async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.add(["a", "b"])
        let problem = #"{"title":"Forbidden","status":403,"detail":"Not yours."}"#
        portal.answer { request in
            request.url.path().hasSuffix("/$batch")
                ? Portal.json(200, #"{"responses":[{"id":"1","status":403,"body":\#(problem)}]}"#)
                : Portal.json(403, problem)
        }
        let error = try #require(try await device.push())
        #expect(!error.errors.isEmpty)
        #expect(error.errors.first?.message.contains("Not yours.") == true)
    }

    // MARK: - Texts that a gateway rejects

    private static func rejects(_ texts: [String], _ answer: TransportResponse) -> Portal.Rule {
        { request in
            let body = String(decoding: request.body ?? [], as: UTF8.self)
            return texts.contains { body.contains($0) } ? answer : nil
        }
    }

    @Test(
        "Rows with a text that a gateway rejects do not block other rows",
        arguments: [200, 302, 400, 403, 406, 413, 501]
    )
    func aRejectedTextDoesNotBlockOthers(status: Int) async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        var limits = SyncLimits()
        // A firewall that inspects bodies.
        limits.compressedBatchBytesMin = .max
        let device = try await Device(portal, limits: limits)
        try await device.add(["first", "second"])
        try await device.context.push()
        let bad = [7, 8, 9, 300].map { "n\($0)" }
        for id in (1...500).map({ "n\($0)" }) {
            try await device.add([id], text: bad.contains(id) ? "DROP TABLE" : "x")
        }
        portal.answer(Self.rejects(["DROP TABLE"], Portal.page(status)))
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure && error.errors.isEmpty)
        #expect(error.completed == 496)
        #expect(Set(try await device.context.pendingOperations().map(\.itemID)) == Set(bad))
        #expect(portal.seen.count < 120, "\(portal.seen.count)")
        // Later inserts are not blocked either.
        try await device.todos().insert(Todo(id: "new", text: "x"))
        #expect(try #require(try await device.push()).completed == 1)
        portal.answer(nil)
        #expect(try await device.context.push().completed == 4)
    }

    @Test("Several pushes pass 40 rows that a gateway rejects and send a later row")
    func manyRejectedTextsDoNotBlockOthers() async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.todos().insert(Todo(id: "first", text: "x"))
        try await device.context.push()
        try await device.add((1...40).map { "b\($0)" }, text: "DROP TABLE")
        try await device.todos().insert(Todo(id: "good", text: "x"))
        portal.answer(Self.rejects(["DROP TABLE"], Portal.page(403)))
        for _ in 1...6 { _ = try await device.push() }
        #expect(try await device.client.table(Todo.self).read(id: "good") != nil)
        #expect(try await device.context.operationErrors().isEmpty)
        portal.answer(nil)
        _ = try await device.push()
        #expect(try await device.context.pendingOperationCount == 0)
    }

    @Test(
        "A gateway's page in place of the first batch response splits no transaction",
        arguments: [404, 405, 501]
    )
    func theFirstTransactionIsNotSplit(status: Int) async throws {
        let server = try await makeServer()
        let other = try await Device(server.transport)
        let notes = other.client.table(Note.self)
        try await notes.insert(Note(id: "taken", body: "theirs"))
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        // The device has pulled before, so it knows the server.
        try await device.todos().pull(queryID: "all")
        try await device.context.transaction { change in
            try change.table(Todo.self).insert(Todo(id: "a", text: "x"))
            try change.table(Note.self).insert(Note(id: "taken", body: "mine"))
        }
        portal.answer(next: 1, Portal.page(status))
        for _ in 0..<2 { _ = try await device.push() }
        #expect(try await other.client.table(Todo.self).read(id: "a") == nil)
        #expect(try await device.context.operationErrors().map(\.itemID) == ["a", "taken"])
    }

    @Test("A transaction with a text that a gateway rejects is not split")
    func aTransactionIsNotSplit() async throws {
        let server = try await makeServer()
        let portal = Portal(server.transport)
        let device = try await Device(portal)
        try await device.todos().insert(Todo(id: "first", text: "x"))
        try await device.context.push()
        try await device.context.transaction { change in
            let todos = try change.table(Todo.self)
            try todos.insert(Todo(id: "a", text: "DROP TABLE"))
            try todos.insert(Todo(id: "b", text: "x"))
        }
        try await device.todos().insert(Todo(id: "c", text: "x"))
        portal.answer(Self.rejects(["DROP TABLE"], Portal.page(403)))
        _ = try await device.push()
        #expect(
            Set(try await device.context.pendingOperations().map(\.itemID)) == ["a", "b"]
        )
        portal.answer(nil)
        try await device.context.push()
        #expect(try await device.client.table(Todo.self).read().count == 4)
    }
}

extension Device {
    /// Inserts rows, each in a transaction of its own.
    fileprivate func add(_ ids: [String], text: String = "x") async throws {
        for id in ids { try await todos().insert(Todo(id: id, text: text)) }
    }
}
