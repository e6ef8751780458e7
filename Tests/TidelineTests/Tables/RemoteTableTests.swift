// RemoteTable: each verb as a request, and each answer as a result or an error.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RemoteTableTests {
    private let transport = ScriptedTransport()

    private var todos: RemoteTable<Todo> {
        SyncClient(endpoint: Device.endpoint, transport: transport).table(Todo.self)
    }

    @Test("Each verb of a remote table sends its request") func verbsAreRequests() async throws {
        transport.add(
            .json(201, serverRow("a", 1)),
            .json(200, serverRow("a", 2)),
            .json(200, serverRow("a", 2)),
            .json(200, serverRow("a", 3, rank: 4)),
            .status(204),
            .status(204),
            .json(200, serverRow("a", 5))
        )
        let created = try await todos.insert(Todo(id: "a", text: "x"))
        #expect(created.version == "v1")
        #expect(created.text == "server")
        _ = try await todos.update(created)
        _ = try await todos.update(id: "a") { $0.rank = 4 }
        try await todos.delete(Todo(id: "a", version: "v3"))
        try await todos.delete(id: "a")
        #expect(try await todos.undelete(id: "a").version == "v5")
        let path = "/tables/Todo/a"
        #expect(
            transport.sent.map(\.description) == [
                #"POST /tables/Todo - {"id":"a","text":"x","complete":false,"rank":null}"#,
                #"PATCH \#(path) "v1" {"text":"server","complete":false,"rank":null}"#,
                "GET \(path) - -",
                #"PATCH \#(path) "v2" {"rank":4}"#,
                "DELETE \(path) \"v3\" -",
                "DELETE \(path) - -",
                #"PATCH \#(path) - {"deleted":false}"#,
            ]
        )
    }

    @Test("A read of a missing or deleted row returns nil")
    func aReadOfAMissingRowIsNil() async throws {
        transport.add(
            .json(404, #"{"error":"No row."}"#),
            .json(410, #"{"error":"Deleted."}"#),
            .json(200, serverRow("a", 1))
        )
        #expect(try await todos.read(id: "a") == nil)
        #expect(try await todos.read(id: "a") == nil)
        #expect(try await todos.read(id: "a")?.id == "a")
    }

    /// A proxy without such a path sends the same response.
    @Test(
        "A 404 or 410 that does not prove to be the server's leads to a query of the table",
        arguments: [404, 410]
    )
    func anUnprovenAbsenceLeadsToALookup(status: Int) async throws {
        transport.add(.status(status), page([]), .status(status), page([serverRow("a", 1)]))
        #expect(try await todos.read(id: "a") == nil)
        await #expect(throws: SyncError.self) { try await todos.read(id: "a") }
        transport.add(.status(status), .status(status))
        await #expect(throws: SyncError.self) { try await todos.read(id: "a") }
    }

    @Test("A remote read follows all pages") func allPagesAreRead() async throws {
        transport.add(
            page([serverRow("a", 1), serverRow("b", 2)], next: "$skip=2"),
            .json(
                200,
                "[\(serverRow("c", 3))]",
                ["Link": "http://localhost/tables/Todo?x=1; rel=next"]
            ),
            page([])
        )
        #expect(try await todos.read().map(\.id) == ["a", "b", "c"])
        #expect(
            transport.sent.map(\.target) == [
                "/tables/Todo", "/tables/Todo?$skip=2", "/tables/Todo?x=1",
            ]
        )
    }

    @Test("A remote read ends at its limit") func aLimitEndsTheRead() async throws {
        transport.add(page([serverRow("a", 1), serverRow("b", 2)], next: "$skip=2"))
        var query = try Query<Todo>(where: { $0.rank == nil }).limited(to: 2)
        query.parameters["x"] = "1 2"
        #expect(try await todos.read(query).items.count == 2)
        #expect(transport.sent.map(\.query) == ["$filter=rank eq null&$top=2&x=1 2"])
    }

    @Test("A remote count requests no rows") func countsRequestNoRows() async throws {
        transport.add(.json(200, #"{"items":[],"count":41}"#), .json(200, #"{"items":[]}"#))
        #expect(try await todos.count(where: { $0.complete }) == 41)
        #expect(transport.sent.map(\.query) == ["$filter=complete&$top=0&$count=true"])
        #expect(await code { _ = try await todos.count() } == .badResponse)
    }

    @Test("A conflict of a remote update has the server's row", arguments: [409, 412])
    func conflictsHaveTheServersRow(status: Int) async throws {
        let transport = ScriptedTransport([.json(status, serverRow("a", 4))])
        let client = SyncClient(endpoint: Device.endpoint, transport: transport)
        let error = await #expect(throws: SyncError.self) {
            try await client.table(Todo.self).update(Todo(id: "a", version: "v1"))
        }
        #expect(error?.code == .conflict)
        #expect(error?.statusCode == status)
        #expect(error?.serverItem?.version == "v4")
    }

    static let rejectedCases: [(Int, String, SyncError.Code)] = [
        (400, #"{"error":"no such column"}"#, .badRequest), (401, "", .unauthorized),
        (403, "", .forbidden), (429, "", .tooManyRequests), (404, "", .notFound),
        (410, "", .notFound),
        (422, "", .badRequest), (500, "", .serverError), (503, "", .serverError),
        (302, "", .serverError), (200, "<html></html>", .badResponse), (201, "", .badResponse),
    ]

    @Test("Each rejection of a remote write has its error code", arguments: rejectedCases)
    func rejectionsHaveTheirErrorCodes(
        status: Int,
        body: String,
        expected: SyncError.Code
    ) async throws {
        let transport = ScriptedTransport(
            otherwise: body.isEmpty && status >= 400 ? .status(status) : .json(status, body)
        )
        let todos = SyncClient(endpoint: Device.endpoint, transport: transport).table(Todo.self)
        let error = await #expect(throws: SyncError.self) { try await todos.insert(Todo(id: "a")) }
        #expect(error?.code == expected)
        #expect(error?.statusCode == status)
        if body.contains("column") { #expect(error?.message.contains("no such column") == true) }
        #expect(await code { try await todos.delete(id: "a") } == expected)
    }

    @Test(
        "A status has the same error code for a pull, a read, a remote write and a push",
        arguments: [
            302, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 415, 422, 429, 500, 501, 503,
        ]
    )
    func codesMatchThoseOfPulls(status: Int) async throws {
        for body in ["", #"{"error":"No."}"#] {
            let transport = ScriptedTransport(otherwise: .json(status, body))
            let device = try await Device(transport)
            let remote = device.client.table(Todo.self)
            let read = await code { _ = try await remote.read() }
            #expect(read != nil)
            #expect(await code { _ = try await remote.insert(Todo(id: "a")) } == read)
            #expect(await code { try await device.todos().pull(queryID: nil) } == read)
            #expect(await code { try await device.todos().pull(queryID: "all") } == read)
            try await device.todos().insert(Todo(id: "a"))
            let pushed = try #require(try await device.push())
            let cause = pushed.cause as? SyncError
            let parked = pushed.errors.first { $0.statusCode != nil }
            let isSignIn = pushed.status == .unauthorized
            let code = isSignIn ? .unauthorized : parked?.code ?? cause?.code
            #expect(code == read, "\(status) \(pushed)")
        }
    }

    @Test("A remote call without a response reports that the device is offline")
    func aMissingAnswerMeansOffline() async throws {
        transport.add(.lost, .lost, .broken)
        #expect(await code { try await todos.insert(Todo(id: "a")) } == .offline)
        #expect(await code { _ = try await todos.read() } == .offline)
        #expect(await code { _ = try await todos.read(id: "a") } == .offline)
    }

    @Test("Plain HTTP to another machine is rejected unless the app allows it")
    func plainHTTPToAnotherMachineIsRejected() async throws {
        let url = try #require(URL(string: "http://example.com"))
        let insecure = SyncClient(endpoint: url, transport: transport)
        #expect(await code { _ = try await insecure.table(Todo.self).read() } == .insecureEndpoint)
        #expect(transport.sent.isEmpty)
        let allowed = SyncClient(
            endpoint: url,
            transport: transport,
            allowsInsecureEndpoint: true
        )
        transport.add(page([]))
        #expect(try await allowed.table(Todo.self).read().isEmpty)
    }

    @Test("A query that OData v4 cannot express works locally and is not sent")
    func aQueryThatCannotBeExpressedIsNotSent() async throws {
        let device = try await Device(transport, tables: [Priced.self])
        let local = try device.client.syncTable(Priced.self)
        try await device.seed([["id": "a", "price": 2.5]], "Priced")
        #expect(try await local.read(where: { $0.price.rounded() == 3 }).count == 1)
        let error = await #expect(throws: SyncError.self) {
            try await local.pull(queryID: "x", where: { $0.price.rounded() == 3 })
        }
        #expect(error?.code == .unsupportedQuery)
        #expect(error?.message.contains("half away from zero") == true)
        let remote = device.client.table(Priced.self)
        #expect(
            await code { _ = try await remote.read(where: { $0.price.rounded() == 3 }) }
                == .unsupportedQuery
        )
        #expect(
            await code { _ = try await remote.count(where: { $0.price.rounded() == 3 }) }
                == .unsupportedQuery
        )
        #expect(transport.sent.isEmpty)
        transport.add(page([]))
        _ = try await remote.read(where: { $0.price.rounded(.toNearestOrEven) == 3 })
        #expect(transport.sent.last?.query == "$filter=round(price) eq 3.0")
    }

    @Test("Literals have the format of their columns")
    func literalsHaveTheFormatOfTheirColumns() async throws {
        let key = try #require(UUID(uuidString: "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"))
        let device = try await Device(transport, tables: [Priced.self])
        transport.add(page([]), page([]))
        _ = try await device.client.table(Priced.self).read(where: { $0.key == key })
        try await device.client.syncTable(Priced.self).pull(queryID: "k", where: { $0.key == key })
        let wanted = "key eq 6ba7b810-9dad-11d1-80b4-00c04fd430c8"
        #expect(transport.sent.map { $0.query.contains(wanted) } == [true, true])
    }
}

/// A record with a number and a UUID.
struct Priced: SyncRecord, Hashable {
    var id = ""
    var price = 0.0
    var key: UUID?
}
