// The scope of a cursor: one endpoint, and one epoch of its database.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct CursorScopeTests {
    private static let all = "$orderby=updatedAt&__includedeleted=true"

    private static func since(_ version: Int) -> String {
        "$filter=updatedAt ge \(timestamp(version))&\(all)"
    }

    private static func rows(
        _ epoch: String?,
        _ rows: [String],
        next: String? = nil
    ) -> ScriptedTransport.Answer {
        let link = next.map { ",\"nextLink\":\"\($0)\"" } ?? ""
        let body = "{\"items\":[\(rows.joined(separator: ","))]\(link)}"
        return .json(200, body, epoch.map { ["Tideline-Epoch": $0] } ?? [:])
    }

    @Test(
        "Another server is pulled from the start, even at the same address",
        arguments: [false, true]
    )
    func anotherServerIsPulledFromTheStart(atTheSameAddress: Bool) async throws {
        // The wall clock of the first server is ahead.
        let (one, two) = (try await makeServer(ahead: 1), try await makeServer())
        let store = MemoryStore()
        let urls = try ["http://localhost:1", "http://localhost:2"].map {
            try #require(URL(string: $0))
        }
        let writer = try await Device(two.transport, endpoint: urls[1])
        try await writer.todos().insert(Todo(id: "early", text: "old on the second server"))
        try await writer.context.push()
        let other = try await Device(one.transport, endpoint: urls[0])
        try await other.todos().insert(Todo(id: "late", text: "new on the first server"))
        try await other.context.push()

        let first = try await Device(one.transport, store: store, endpoint: urls[0])
        try await first.todos().pull(queryID: "all")
        let url = urls[atTheSameAddress ? 0 : 1]
        let second = try await Device(two.transport, store: store, endpoint: url)
        try await second.todos().pull(queryID: "all")
        // Rows that another server never had leave; rows that the server at this address had may be lost.
        let expected = atTheSameAddress ? ["early", "late"] : ["early"]
        #expect(try await second.todos().read().map(\.id).sorted() == expected)
        #expect(try await second.context.lostRowCount == expected.count - 1)
    }

    @Test("The operation queue of a store is sent to another endpoint")
    func theQueueIsKeptForAnotherEndpoint() async throws {
        let (store, transport) = (MemoryStore(), ScriptedTransport())
        let first = try await Device(transport, store: store)
        transport.add(page([serverRow("a", 3)]))
        try await first.todos().pull(queryID: "all")
        try await first.todos().update(id: "a") { $0.text = "mine" }
        let url = try #require(URL(string: "http://localhost/other"))
        let second = try await Device(transport, store: store, endpoint: url)
        #expect(try await second.queue() == ["update a"])
        transport.add(
            .json(200, serverRow("a", 4, text: "mine")),
            page([serverRow("a", 4, text: "mine")])
        )
        try await second.todos().pull(queryID: "all")
        #expect(transport.sent.map(\.method) == ["GET", "PATCH", "GET"])
        #expect(transport.sent.last?.query == Self.all)
    }

    @Test("Two spellings of the same endpoint share a cursor")
    func theSameEndpointWrittenInAnotherWayIsTheSame() async throws {
        let (store, transport) = (MemoryStore(), ScriptedTransport())
        for text in ["http://localhost", "HTTP://LOCALHOST:80/"] {
            let url = try #require(URL(string: text))
            let device = try await Device(transport, store: store, endpoint: url)
            transport.add(page([serverRow("a", 3)]))
            try await device.todos().pull(queryID: "all")
        }
        #expect(transport.sent.map(\.query) == [Self.all, Self.since(3)])
    }

    @Test("A pull starts from the beginning if the server's epoch has changed")
    func anotherEpochIsPulledFromTheStart() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        transport.add(Self.rows("e1", [serverRow("a", 9)]))
        try await device.todos().pull(queryID: "all")
        transport.add(
            Self.rows("e2", []),
            Self.rows("e2", [serverRow("b", 4)]),
            Self.rows("e2", []),
            Self.rows("e2", [serverRow("b", 4)])
        )
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.applied == 1)
        #expect(result.requests == 3)
        #expect(result.lost == 1)
        try await device.todos().pull(queryID: "all")
        let look = "$filter=id in ('a')&__includedeleted=true"
        #expect(
            transport.sent.map(\.query) == [
                Self.all, Self.since(9), Self.all, look, Self.since(4),
            ]
        )
    }

    /// A delta link of another epoch is rejected without the new epoch; the following read finds it.
    @Test("A rejected delta link of another epoch restarts the pull")
    func aLinkOfAnotherEpochRestartsThePull() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        func list(_ epoch: String, _ id: String) -> ScriptedTransport.Answer {
            .json(
                200,
                #"{"items":[\#(serverRow(id, 1))],"@odata.deltaLink":"$deltatoken=\#(epoch)"}"#,
                ["Tideline-Epoch": epoch, "Preference-Applied": "odata.track-changes"]
            )
        }
        transport.add(
            list("e1", "a"),
            ScriptedTransport.Answer.json(410, #"{"error":"Anew.","code":"epochChanged"}"#),
            list("e2", "b"),
            Self.rows("e2", [])
        )
        for _ in 0..<2 { try await device.todos().pull(queryID: "all") }
        #expect(try await device.rows().map(\.id).sorted() == ["a", "b"])
        #expect(try await device.context.lostRows().map(\.itemID) == ["a"])
    }

    @Test("A pull restarts if the epoch changes between two pages")
    func theEpochMayChangeBetweenTwoPages() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        transport.add(
            Self.rows("e1", [serverRow("a", 9)], next: "x"),
            Self.rows("e2", []),
            Self.rows("e2", [serverRow("b", 4)], next: "y"),
            Self.rows("e2", [serverRow("b", 4)]),
            Self.rows("e2", [])
        )
        try await device.todos().pull(queryID: "all")
        #expect(
            transport.sent.map(\.query).dropLast()
                == [Self.all, Self.since(9), Self.all, Self.since(4)]
        )
        #expect(try await device.todos().read().map(\.id).sorted() == ["a", "b"])
        #expect(try await device.context.lostRows().map(\.itemID) == ["a"])
    }

    /// Two servers at one address would make a pull run in circles.
    @Test("A pull fails if the epoch changes repeatedly")
    func anEpochThatKeepsChangingEndsThePull() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        transport.add(
            Self.rows("e1", [serverRow("a", 1)], next: "x"),
            Self.rows("e2", []),
            Self.rows("e1", [])
        )
        #expect(await code { try await device.todos().pull(queryID: "all") } == .badResponse)
        #expect(transport.sent.count == 3)
    }

    @Test("A response without an epoch preserves the cursor")
    func aServerThatDoesNotReportItsEpochKeepsTheCursor() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        for epoch in ["e1", nil, "e1"] {
            transport.add(Self.rows(epoch, [serverRow("a", 2)]))
            try await device.todos().pull(queryID: "all")
        }
        #expect(transport.sent.map(\.query) == [Self.all, Self.since(2), Self.since(2)])
    }

    @Test("A pull from an empty server with a new epoch discards the time cursor")
    func anEmptyServerOfAnotherEpochLeavesNoTime() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        transport.add(Self.rows("e1", [serverRow("a", 9)]))
        try await device.todos().pull(queryID: "all")
        for _ in 0..<4 { transport.add(Self.rows("e2", [])) }
        try await device.todos().pull(queryID: "all")
        try await device.todos().pull(queryID: "all")
        let queries = transport.sent.map(\.query)
        #expect(Array(queries[..<3]) == [Self.all, Self.since(9), Self.all])
        #expect(Array(queries[4...]) == [Self.all])
    }

    @Test(
        "Discarding a parked operation after a restore keeps a row that may be lost",
        arguments: [nil, 1, 2],
        [false, true]
    )
    func aDiscardedParkedRowIsTheRestoredServersRow(restored: Int?, wasDeleted: Bool) async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        let todos = try device.todos()
        transport.add(Self.rows("e1", [serverRow("a", 2)]))
        try await todos.pull(queryID: "all")
        try await todos.update(id: "a") { $0.text = "mine" }
        transport.add(
            .json(412, serverRow("a", 3, text: "theirs", deleted: wasDeleted)),
            Self.rows("e1", [])
        )
        try await todos.pull(queryID: "all")
        let there = restored.map { [serverRow("a", $0, text: "restored")] } ?? []
        transport.add(Self.rows("e2", []), Self.rows("e2", there))
        try await todos.pull(queryID: "all")
        #expect(try await todos.read(id: "a")?.text == "mine")
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        var expected = [localRow("a", 2, text: restored == 2 ? "restored" : "server")]
        // The former server's last state stays until the next pull finds out whether it is lost.
        if restored == nil, !wasDeleted { expected = [localRow("a", 3, text: "theirs")] }
        #expect(try await device.rows() == expected)
        let lost = try await device.context.lostRows().map(\.itemID)
        #expect(lost == (restored == 1 ? ["a"] : []))
    }
}
