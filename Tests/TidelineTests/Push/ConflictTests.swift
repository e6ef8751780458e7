// Conflicts through the whole client, under each policy.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct ConflictTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy) async throws -> Device {
        try await Device(transport, conflicts: policy)
    }

    private func edited(_ policy: ConflictPolicy) async throws -> Device {
        let device = try await device(policy)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        return device
    }

    @Test("The serverWins policy replaces the local row with the server's row")
    func serverWins() async throws {
        let device = try await edited(.serverWins)
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 4)))
        #expect(try await device.context.push().completed == 1)
        #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 4)])
    }

    @Test("The serverWins policy preserves an edit made during the push and sends it next")
    func serverWinsKeepsEditsMadeAfterwards() async throws {
        let device = try await edited(.serverWins)
        let todos = try device.todos()
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { $0.rank = 8 }
                return .json(412, serverRow("a", 2, text: "theirs"))
            },
            .json(200, serverRow("a", 3, text: "theirs", rank: 8))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == "PATCH /tables/Todo/a \"v2\" {\"rank\":8}")
        #expect(try await device.rows() == [localRow("a", 3, text: "theirs", rank: 8)])
    }

    @Test("A row inserted again during its delete survives a conflict that the server wins")
    func serverWinsKeepsARowThatWasInsertedAgain() async throws {
        let device = try await device(.serverWins)
        let todos = try device.todos()
        try await device.seed([localRow("a", 1)])
        try await todos.delete(id: "a")
        transport.add(
            .run { _ in
                try await todos.insert(Todo(id: "a", text: "anew", rank: 1))
                return .json(412, serverRow("a", 2, text: "theirs"))
            },
            .json(200, serverRow("a", 3, text: "anew", rank: 1))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].method == "PATCH")
        #expect(transport.sent[1].ifMatch == "\"v2\"")
        #expect(transport.sent[1].body == #"{"text":"anew","complete":false,"rank":1}"#)
        #expect(try await device.rows() == [localRow("a", 3, text: "anew", rank: 1)])
    }

    @Test("With clientWins, columns that differ from the server's row are sent with its version")
    func clientWinsSendsTheLocalRow() async throws {
        let device = try await edited(.clientWins)
        transport.add(
            .json(412, serverRow("a", 2, text: "theirs", rank: 4)),
            .json(412, serverRow("a", 3, text: "theirs 2")),
            .json(200, serverRow("a", 4, text: "mine"))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.ifMatch) == ["\"v1\"", "\"v2\"", "\"v3\""])
        #expect(transport.sent[1].body == #"{"text":"mine","rank":null}"#)
        #expect(transport.sent[2].body == #"{"text":"mine"}"#)
        #expect(try await device.rows() == [localRow("a", 4, text: "mine")])
    }

    @Test("The clientWins policy parks an operation after nine conflicts")
    func clientWinsStopsAfterSeveralConflicts() async throws {
        let device = try await edited(.clientWins)
        for version in 2..<20 { transport.add(.json(412, serverRow("a", version))) }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.count == 9)
    }

    @Test("The clientWins policy deletes a row that another device has changed")
    func clientWinsDeletesAChangedRow() async throws {
        let device = try await device(.clientWins)
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        transport.add(.json(412, serverRow("a", 2)), .status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.ifMatch) == ["\"v1\"", "\"v2\""])
    }

    @Test(
        "After an empty 404, the device searches the table's list and preserves the edit",
        arguments: [""]
    )
    func aGateways404IsNotADeletedRow(body: String) async throws {
        let device = try await edited(.serverWins)
        transport.add(.json(404, body), page([serverRow("a", 1)]), .status(503))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(transport.sent[1].target.hasPrefix("/tables/Todo?$filter=id"))
        #expect(try await device.queue() == ["update a attempted"])
        #expect(try await device.rows().count == 1)
    }

    @Test("An update of a deleted row is reported as a conflict", arguments: [404, 410])
    func anUpdateOfADeletedRowIsAConflict(status: Int) async throws {
        let device = try await edited(.fail)
        transport.add(.json(status, #"{"error":"It is not there.","code":"noSuchRow"}"#))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.statusCode == status)
        #expect(error.serverItem == nil)
        #expect(error.message.contains("a delete on the server"))
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.rows() == [])
    }

    @Test("The serverWins policy removes a row that the server has deleted")
    func serverWinsAppliesADelete() async throws {
        let device = try await edited(.serverWins)
        transport.add(.json(410, #"{"error":"Gone."}"#))
        #expect(try await device.push() == nil)
        #expect(try await device.rows() == [])
    }

    @Test("The clientWins policy restores a row that the server has deleted")
    func clientWinsRestoresADeletedRow() async throws {
        let device = try await edited(.clientWins)
        transport.add(
            .json(410, #"{"error":"Gone."}"#),
            .json(409, serverRow("a", 2, deleted: true)),
            .json(200, serverRow("a", 3, text: "mine"))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == ["PATCH", "POST", "PUT"])
        #expect(transport.sent[2].ifMatch == "\"v2\"")
        #expect(try await device.rows() == [localRow("a", 3, text: "mine")])
    }

    @Test(
        "An operation succeeds if the conflicting row already has the sent values",
        arguments: [ConflictPolicy.fail, .serverWins, .clientWins]
    )
    func aConflictWithTheSentRowIsASuccess(policy: ConflictPolicy) async throws {
        let transport = ScriptedTransport([.json(412, serverRow("a", 2, text: "mine", rank: 3))])
        let device = try await Device(transport, conflicts: policy)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        #expect(try await device.context.push().completed == 1)
        #expect(try await device.rows() == [localRow("a", 2, text: "mine", rank: 3)])
    }

    @Test("Two inserts of one ID with different values conflict, and a retry sends an update")
    func twoInsertsOfTheSameIDWithDifferentRowsConflict() async throws {
        let device = try await device(.fail)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.json(409, serverRow("a", 1, text: "theirs")))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.kind == .insert)
        #expect(error.serverItem?["text"] == "theirs")
        try await error.updateOperationAndRetry(with: Todo(id: "a", text: "mine"))
        transport.add(.json(200, serverRow("a", 2, text: "mine")))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].method == "PATCH")
        #expect(transport.sent[1].ifMatch == "\"v1\"")
    }

    @Test("A record read before a pull conflicts with the newer row")
    func anOlderVersionIsAConflict() async throws {
        let device = try await device(.fail)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        var screen = try #require(try await device.todos().read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "new", rank: 2)]))
        try await device.todos().pull(queryID: nil)
        screen.complete = true
        try await device.todos().update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "new", rank: 2)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(transport.sent[1].ifMatch == "\"v1\"")
        #expect(transport.sent[1].body == #"{"text":"old","complete":true,"rank":1}"#)
        #expect(error.serverItem?["text"] == "new")
    }

    @Test("A record from before its first push does not overwrite another device's change")
    func aRecordFromBeforeItsFirstPushOverwritesNothing() async throws {
        let device = try await device(.fail)
        var screen = try await device.todos().insert(Todo(id: "a", text: "mine", rank: 1))
        #expect(screen.version == nil)
        transport.add(
            .json(201, serverRow("a", 1, text: "mine", rank: 1)),
            page([serverRow("a", 2, text: "theirs", rank: 1)])
        )
        try await device.todos().pull(queryID: nil)
        screen.rank = 2
        try await device.todos().update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 1)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
        #expect(error.serverItem?["text"] == "theirs")
    }

    @Test("A record read with selected fields cannot overwrite the other fields")
    func aSelectionOfFieldsOverwritesNoOtherFields() async throws {
        let device = try await device(.fail)
        try await device.seed([localRow("a", 1, text: "long text", rank: 1)])
        var query = Query<Todo>()
        query.fields = ["id", "rank"]
        var part = try #require(try await device.todos().read(query).items.first)
        part.rank = 2
        let changed = part
        #expect(await code { try await device.todos().update(changed) } == .partialRecord)
        let result = try await device.todos().update(id: "a") { $0.rank = 2 }
        #expect(result.text == "long text")
        #expect(result.rank == 2)
    }
}
