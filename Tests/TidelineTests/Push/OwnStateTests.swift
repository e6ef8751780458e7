// The states of rows that this device's pushes have replaced: stored with the push, limited, and removed with
// their rows.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct OwnStateTests {
    private let transport = ScriptedTransport()

    private func states(_ device: Device) async throws -> [Row] {
        var query = TableQuery()
        query.order = [SortKey(column: "id")]
        let ordered = query
        return try await device.store.read { try $0.rows(ordered, in: "MS_TableOwnStates") }
    }

    /// Changes the text of a copy and pushes it; the server accepts it with a version.
    private func save(
        _ copy: Todo,
        _ device: Device,
        _ version: Int
    ) async throws {
        try await device.todos().update(copy)
        transport.add(
            .json(200, serverRow(copy.id, version, text: copy.text, rank: copy.rank))
        )
        #expect(try await device.push() == nil)
    }

    @Test("A record from before a restart is current")
    func aRecordFromBeforeARestartIsCurrent() async throws {
        try await withTemporaryFile { path in
            var device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
            var copy = try #require(try await device.todos().read(id: "a"))
            copy.text = "one"
            try await save(copy, device, 2)
            try await device.store.close()
            device = try await Device(transport, store: SQLiteStore(path: path))
            copy.text = "two"
            try await save(copy, device, 3)
            #expect(
                transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"text":"two"}"#
            )
            // The editor reverts its edits.
            copy.text = "draft"
            try await save(copy, device, 4)
            #expect(transport.sent.last?.body == #"{"text":"draft"}"#)
            try await device.store.close()
        }
    }

    @Test("A record does not undo a later edit of another column")
    func anEditOfAnotherColumnStays() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "one"
        try await save(copy, device, 2)
        try await device.todos().update(id: "a") { $0.rank = 7 }
        copy.text = "two"
        let result = try await device.todos().update(copy)
        #expect(result.rank == 7)
        #expect(result.text == "two")
    }

    @Test("An update that was rolled back can be repeated")
    func anUpdateThatIsRolledBackCanBeRepeated() async throws {
        let store = TroubledStore()
        let device = try await Device(transport, store: store)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "mine"
        let mine = copy
        store.add(.rollBack)
        #expect(await code { try await device.todos().update(mine) } == .storeFailure)
        #expect(try await states(device).isEmpty)
        #expect(try await device.todos().update(mine).text == "mine")
        #expect(try await device.queue() == ["update a"])
    }

    @Test("A push result that is stored twice creates one own state")
    func aResultThatIsStoredTwiceIsOneState() async throws {
        let store = TroubledStore()
        let device = try await Device(transport, store: store)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "one"
        try await device.todos().update(copy)
        transport.add(
            .run { _ in
                store.add(.runTwice)
                return .json(200, serverRow("a", 2, text: "one", rank: 1))
            }
        )
        #expect(try await device.push() == nil)
        #expect(try await states(device).count == 1)
        copy.text = "two"
        try await save(copy, device, 3)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"text":"two"}"#)
    }

    @Test("A row has at most 100 own states") func aRowHasAtMost100States() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        for turn in 1...120 {
            var record = try #require(try await device.todos().read(id: "a"))
            record.text = "text \(turn)"
            try await save(record, device, turn + 1)
        }
        #expect(try await states(device).count == 100)
    }

    @Test("Many pushes of one row remove no own state of another row")
    func theLimitCountsStates() async throws {
        var limits = SyncLimits()
        limits.ownStatesMax = 120
        let device = try await Device(transport, limits: limits)
        try await device.seed([localRow("a", 1, text: "a", rank: 1), localRow("b", 1, text: "b")])
        var record = try #require(try await device.todos().read(id: "b"))
        record.text = "mine"
        try await save(record, device, 2)
        for turn in 1...150 {
            try await device.todos().update(id: "a") { $0.rank = turn + 1 }
            transport.add(.json(200, serverRow("a", turn + 1, text: "a", rank: turn + 1)))
            #expect(try await device.push() == nil)
        }
        record.text = "mine again"
        try await save(record, device, 3)
        #expect(transport.sent.last?.ifMatch == "\"v2\"")
    }

    @Test("A purge removes the own states of its rows")
    func aPurgeForgetsTheStatesOfItsRows() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "a"), localRow("b", 1, text: "b")])
        for id in ["a", "b"] {
            var record = try #require(try await device.todos().read(id: id))
            record.text = "one"
            try await save(record, device, 2)
        }
        try await device.todos().purge(where: { $0.id == "b" })
        #expect(try await states(device).map { $0["itemId"] } == ["a"])
        try await device.todos().purge()
        #expect(try await states(device).isEmpty)
    }

    @Test("The oldest own state of a row survives when the row exceeds its limit")
    func theOldestStateStaysHoweverOftenARowIsSaved() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var editor = try #require(try await device.todos().read(id: "a"))
        var second: Todo?
        for turn in 1...120 {
            try await device.todos().update(id: "a") { $0.rank = turn + 1 }
            transport.add(.json(200, serverRow("a", turn + 1, text: "draft", rank: turn + 1)))
            #expect(try await device.push() == nil)
            if turn == 1 { second = try await device.todos().read(id: "a") }
        }
        #expect(try await states(device).count == 100)
        editor.text = "mine"
        try await device.todos().update(editor)
        transport.add(.json(200, serverRow("a", 200, text: "mine", rank: 121)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v121" {"text":"mine"}"#)
        // The second oldest one is not known any more: a conflict.
        var copy = try #require(second)
        copy.text = "other"
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("a", 200, text: "mine", rank: 121)))
        #expect(try await device.push()?.status == .operationErrors)
    }

    @Test("A record whose own state was removed by the limit is a conflict")
    func beyondTheLimitACopyIsAConflict() async throws {
        var limits = SyncLimits()
        limits.ownStatesMax = 10
        let device = try await Device(transport, limits: limits)
        try await device.seed((0..<30).map { localRow("row \($0)", 1, text: "old", rank: 1) })
        var copy = try #require(try await device.todos().read(id: "row 0"))
        for number in 0..<30 {
            try await device.todos().update(id: "row \(number)") { $0.rank = 2 }
            transport.add(.json(200, serverRow("row \(number)", 2, text: "old", rank: 2)))
            #expect(try await device.push() == nil)
        }
        #expect(try await states(device).count <= 10)
        copy.text = "mine"
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("row 0", 2, text: "old", rank: 2)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test("The own states of a row are removed with the row", arguments: [false, true])
    func aRemovedRowLeavesNoStates(isPurged: Bool) async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "secret", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "other"
        try await save(copy, device, 2)
        #expect(try await states(device).first?["state"]?.text?.contains("secret") == true)
        if isPurged {
            try await device.todos().purge()
        } else {
            try await device.todos().delete(id: "a")
            transport.add(.status(204))
            #expect(try await device.push() == nil)
        }
        #expect(try await states(device).isEmpty)
    }

    @Test("The record of an insert from before a purge does not overwrite another device's change")
    func aRecordOfAnInsertFromBeforeAPurgeOverwritesNothing() async throws {
        let device = try await Device(transport)
        var copy = try await device.todos().insert(Todo(id: "a", text: "draft"))
        transport.add(.json(201, serverRow("a", 1, text: "draft")))
        #expect(try await device.push() == nil)
        try await device.todos().purge()
        transport.add(page([serverRow("a", 2, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        copy.rank = 5
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 7)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"\"")
    }
}
