// Updates of records that were read some time before: no edit is lost, and no change of another writer.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

/// The same table with a time and without a version.
private struct Timed: SyncRecord, Hashable {
    static let tableName = "Todo"
    var id = ""
    var text = ""
    var complete = false
    var rank: Int?
    var updatedAt: Date?
}

@Suite struct OlderRecordTests {
    private let transport = ScriptedTransport()

    /// Answers each update with the requested values, under the next version.
    private func accept(_ version: Int, text: String, rank: Int? = 1) {
        transport.add(.json(200, serverRow("a", version, text: text, rank: rank)))
    }

    @Test(
        "Saving the same record repeatedly causes no conflict",
        arguments: [ConflictPolicy.fail, .serverWins, .clientWins]
    )
    func anAutosaveIsNotAConflict(policy: ConflictPolicy) async throws {
        let device = try await Device(transport, conflicts: policy)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        for turn in 1...40 {
            copy.text = "draft \(turn)"
            try await device.todos().update(copy)
            accept(turn + 1, text: copy.text)
            #expect(try await device.push() == nil)
            #expect(transport.sent.last?.ifMatch == "\"v\(turn)\"")
            #expect(transport.sent.last?.body == "{\"text\":\"draft \(turn)\"}")
        }
        // Also an edit that takes an earlier one back.
        copy.text = "draft"
        try await device.todos().update(copy)
        accept(50, text: "draft")
        #expect(try await device.push() == nil)
        #expect(try await device.todos().read(id: "a")?.text == "draft")
        #expect(transport.sent.count == 41)
    }

    @Test("Saving a record with a time but no version repeatedly causes no conflict")
    func anAutosaveOfAModelWithATimeIsNotAConflict() async throws {
        let device = try await Device(transport, tables: [Timed.self])
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        let table = try device.client.syncTable(Timed.self)
        var copy = try #require(try await table.read(id: "a"))
        for turn in 1...5 {
            copy.text = "draft \(turn)"
            try await table.update(copy)
            accept(turn + 1, text: copy.text)
            #expect(try await device.push() == nil)
        }
        #expect(transport.sent.last?.body == #"{"text":"draft 5"}"#)
    }

    @Test("A record does not overwrite a column that another update of this device changed")
    func anOutdatedColumnIsNotWritten() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        try await device.todos().update(id: "a") { $0.rank = 5 }
        accept(2, text: "draft", rank: 5)
        #expect(try await device.push() == nil)
        copy.text = "mine"
        let result = try await device.todos().update(copy)
        #expect(result.text == "mine")
        #expect(result.rank == 5)
        accept(3, text: "mine", rank: 5)
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == "PATCH /tables/Todo/a \"v2\" {\"text\":\"mine\"}")
    }

    @Test("A pushed record conflicts if another device has changed the row since")
    func aRecordFromBeforeAnotherChangeIsAConflict() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "one"
        try await device.todos().update(copy)
        accept(2, text: "one")
        transport.add(page([serverRow("a", 3, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        copy.text = "two"
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("a", 3, text: "theirs", rank: 7)))
        #expect(try await device.push()?.errors.first?.serverItem?["text"] == "theirs")
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test("An update of a record with an older update time is a conflict")
    func aTimeOfAnOlderStateIsAConflict() async throws {
        let device = try await Device(transport, tables: [Timed.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Timed.self)
        var copy = try #require(try await table.read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "new", rank: 2)]))
        try await table.pull(queryID: nil)
        copy.complete = true
        try await table.update(copy)
        transport.add(.json(412, serverRow("a", 2, text: "new", rank: 2)))
        #expect(try await device.push()?.status == .operationErrors)
        // A version that is not known matches nothing.
        #expect(transport.sent.last?.ifMatch == "\"\"")
    }

    @Test("The result of updating an older record stays older after the server's row wins")
    func theResultOfAnOlderRecordStaysOlder() async throws {
        let device = try await Device(transport, conflicts: .serverWins, tables: [Timed.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Timed.self)
        var copy = try #require(try await table.read(id: "a"))
        let theirs = serverRow("a", 2, text: "new", rank: 2)
        transport.add(page([theirs]))
        try await table.pull(queryID: nil)
        copy.rank = 5
        var record = try await table.update(copy)
        #expect(record.text == "old")
        transport.add(.json(412, theirs))
        #expect(try await device.push() == nil)
        #expect(try await table.read(id: "a")?.text == "new")
        record.rank = 9
        try await table.update(record)
        transport.add(.json(412, theirs))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"\"")
        // A record that was read since is as new as the row.
        var fresh = try #require(try await table.read(id: "a"))
        fresh.rank = 5
        try await table.update(fresh)
        accept(3, text: "new", rank: 5)
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"rank":5}"#)
    }

    @Test("A record type without version and time cannot update whole records")
    func aRecordWithoutVersionAndTimeIsNotUpdated() async throws {
        let device = try await Device(transport, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        var copy = try #require(try await table.read(id: "a"))
        copy.text = "mine"
        let mine = copy
        let error = await #expect(throws: SyncError.self) { try await table.update(mine) }
        #expect(error?.code == .versionRequired)
        for remedy in ["'Plain'", "'Todo'", "var updatedAt: Date?", "update(id:_:)"] {
            #expect(error?.message.contains(remedy) == true)
        }
        await #expect(throws: SyncError.self) {
            try await device.client.syncContext.transaction { transaction in
                try transaction.table(Plain.self).update(mine)
            }
        }
        #expect(try await device.queue() == [])
        try await table.update(id: "a") { $0.text = "mine" }
        #expect(try await device.queue() == ["update a"])
    }

    @Test("The record that an insert returns is current after its push")
    func aRecordOfAnInsertIsNotAConflict() async throws {
        let device = try await Device(transport)
        var copy = try await device.todos().insert(Todo(id: "a", text: "draft"))
        transport.add(.json(201, serverRow("a", 1, text: "draft", rank: 9)))
        #expect(try await device.push() == nil)
        for turn in 1...3 {
            copy.text = "draft \(turn)"
            try await device.todos().update(copy)
            accept(turn + 1, text: copy.text, rank: 9)
            #expect(try await device.push() == nil)
            #expect(
                transport.sent.last?.description
                    == "PATCH /tables/Todo/a \"v\(turn)\" {\"text\":\"draft \(turn)\"}"
            )
        }
        // The value that the server set stays.
        #expect(try await device.todos().read(id: "a")?.rank == 9)
    }

    @Test("The record of an insert conflicts if another device has changed the row")
    func aRecordOfAnInsertOverwritesNothing() async throws {
        let device = try await Device(transport)
        var copy = try await device.todos().insert(Todo(id: "a", text: "draft"))
        transport.add(.json(201, serverRow("a", 1, text: "draft")))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 2, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        copy.text = "mine"
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 7)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test(
        "The record of an insert is older if another device has inserted the same ID",
        arguments: [ConflictPolicy.serverWins, .clientWins]
    )
    func aRecordOfAnInsertThatMetAnotherOverwritesNothing(policy: ConflictPolicy) async throws {
        let device = try await Device(transport, conflicts: policy)
        var copy = try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.json(409, serverRow("a", 1, text: "theirs", rank: 7)))
        if policy == .clientWins { accept(2, text: "mine", rank: nil) }
        #expect(try await device.push() == nil)
        copy.rank = 5
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("a", 3, text: "theirs again", rank: 7)))
        if policy == .clientWins { accept(4, text: "mine", rank: 5) }
        #expect(try await device.push() == nil)
        let updates = transport.sent.filter { $0.description.hasPrefix("PATCH") }
        let first = updates[policy == .clientWins ? 1 : 0]
        #expect(first.ifMatch == "\"\"")
    }

    @Test("A record that the app created sets all its columns in an existing row")
    func aRecordThatTheAppMadeSetsItsColumns() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        try await device.todos().update(Todo(id: "a", text: "mine", rank: 2))
        accept(2, text: "mine", rank: 2)
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.description
                == #"PATCH /tables/Todo/a "v1" {"text":"mine","rank":2}"#
        )
    }

    @Test("A plain row sets its columns, even to the values of its insert")
    func aPlainRowSetsItsColumns() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "draft"))
        transport.add(.json(201, serverRow("a", 1, text: "draft", rank: nil)))
        #expect(try await device.push() == nil)
        try await device.todos().update(id: "a") { $0.text = "final" }
        accept(2, text: "final", rank: nil)
        #expect(try await device.push() == nil)
        try await device.client.syncTable(named: "Todo").update(["id": "a", "text": "draft"])
        #expect(try await device.todos().read(id: "a")?.text == "draft")
    }

    @Test(
        "An update of a row that this device deleted and inserted again succeeds",
        arguments: [false, true]
    )
    func aRowThatIsInsertedAgainIsNotAConflict(isPushed: Bool) async throws {
        let device = try await Device(transport, conflicts: .fail)
        try await device.seed([localRow("a", 1, text: "a", rank: 1)])
        try await device.todos().delete(id: "a")
        if isPushed {
            transport.add(.status(204))
            #expect(try await device.push() == nil)
        }
        var record = try await device.todos().insert(Todo(id: "a", text: "b"))
        record.text = "c"
        try await device.todos().update(record)
        accept(3, text: "c", rank: nil)
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == (isPushed ? nil : "\"v1\""))
        #expect(transport.sent.last?.body?.contains("\"c\"") == true)
    }

    @Test(
        "A push repeated over another writer's change does not create an own state",
        arguments: [ConflictPolicy.clientWins, .merge]
    )
    func aPushOverAnotherChangeIsNotAnOwnState(policy: ConflictPolicy) async throws {
        let device = try await Device(transport, conflicts: policy)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        var screen = try #require(try await device.todos().read(id: "a"))
        screen.text = "mine"
        try await device.todos().update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "old", rank: 9)))
        accept(3, text: "mine", rank: policy == .merge ? 9 : 1)
        #expect(try await device.push() == nil)
        screen.text = "mine again"
        try await device.todos().update(screen)
        accept(4, text: "mine again", rank: 9)
        #expect(try await device.push() == nil)
        let update = try #require(transport.sent.last)
        #expect(update.ifMatch == "\"v1\"")
    }

    @Test("Deleting a record of an own state sends the version of the stored row")
    func aDeleteOfAnOwnStateIsNotAConflict() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "one"
        try await device.todos().update(copy)
        accept(2, text: "one")
        #expect(try await device.push() == nil)
        try await device.todos().delete(copy)
        transport.add(.status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v2\"")
    }

    // MARK: - Responses that have another writer's values

    @Test("A row that the server merged does not count as an own state")
    func aRowThatTheServerMergedIsNotAnOwnState() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var record = try #require(try await device.todos().read(id: "a"))
        record.text = "one"
        try await device.todos().update(record)
        transport.add(
            .json(
                200,
                serverRow("a", 3, text: "one", rank: 7),
                ["Tideline-Conflict": "resolved"]
            )
        )
        #expect(try await device.push() == nil)
        record.rank = 5
        try await device.todos().update(record)
        transport.add(.json(412, serverRow("a", 3, text: "one", rank: 7)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test("A row read after a response without a row does not count as an own state")
    func aRowThatWasReadAfterTheResponseIsNotAnOwnState() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var record = try #require(try await device.todos().read(id: "a"))
        record.text = "one"
        try await device.todos().update(record)
        transport.add(.status(204))
        transport.add(.json(200, serverRow("a", 3, text: "theirs", rank: 7)))
        #expect(try await device.push() == nil)
        record.rank = 5
        try await device.todos().update(record)
        transport.add(.json(412, serverRow("a", 3, text: "theirs", rank: 7)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    // MARK: - Inserts

    @Test("The record of an insert over a tombstone is current until another device's change")
    func anInsertOverADeletedRowIsAnInsert() async throws {
        let device = try await Device(transport)
        var record = try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.json(409, serverRow("a", 2, text: "gone", deleted: true)))
        transport.add(.json(200, serverRow("a", 3, text: "mine", rank: nil)))
        #expect(try await device.push() == nil)
        record.text = "mine again"
        try await device.todos().update(record)
        accept(4, text: "mine again", rank: nil)
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v3\"")
        transport.add(page([serverRow("a", 5, text: "theirs", rank: nil)]))
        try await device.todos().pull(queryID: nil)
        record.rank = 5
        try await device.todos().update(record)
        transport.add(.json(412, serverRow("a", 5, text: "theirs", rank: nil)))
        #expect(try await device.push()?.status == .operationErrors)
    }

    @Test("A value of a deleted row counts as an edit of the row that replaced it")
    func aValueOfTheDeletedRowIsAnEdit() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "a", rank: nil)])
        try await device.todos().delete(id: "a")
        var record = try await device.todos().insert(Todo(id: "a", text: "b"))
        accept(2, text: "b", rank: nil)
        #expect(try await device.push() == nil)
        record.text = "a"
        try await device.todos().update(record)
        #expect(try await device.todos().read(id: "a")?.text == "a")
    }

    @Test("An edit made while the insert is sent can be reverted afterwards")
    func anEditDuringTheInsertIsTakenBack() async throws {
        let device = try await Device(transport)
        var record = try await device.todos().insert(Todo(id: "a", text: "draft"))
        record.text = "one"
        let edited = record
        transport.add(
            .run { _ in
                try await device.todos().update(edited)
                return .json(201, serverRow("a", 1, text: "draft", rank: nil))
            }
        )
        accept(2, text: "one", rank: nil)
        #expect(try await device.push() == nil)
        record.text = "draft"
        try await device.todos().update(record)
        #expect(try await device.todos().read(id: "a")?.text == "draft")
    }

    @Test("A record type without version and time deletes the stored row")
    func aDeleteWithoutAStateIsOfTheStoredRow() async throws {
        let device = try await Device(transport, tables: [Plain.self])
        let table = try device.client.syncTable(Plain.self)
        try await table.insert(Plain(id: "a", text: "mine"))
        transport.add(.json(201, serverRow("a", 1, text: "mine")))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 2, text: "theirs")]))
        try await table.pull(queryID: nil)
        let fresh = try #require(try await table.read(id: "a"))
        try await table.delete(fresh)
        transport.add(.status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v2\"")
    }

    @Test("A plain row without a version is not treated as the record of an insert")
    func aPlainRowIsNotTheRecordOfAnInsert() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.json(201, serverRow("a", 1, text: "mine")))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 2, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        try await device.client.syncTable(named: "Todo").update(["id": "a", "text": "x"])
        accept(3, text: "x", rank: 7)
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"text":"x"}"#)
    }

    // MARK: - Several edits

    @Test("A fresh record adds to the unsent update of an older one, which stays a conflict")
    func aFreshRecordKeepsAnUnsentOlderUpdate() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var old = try #require(try await device.todos().read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "theirs", rank: 1)]))
        try await device.todos().pull(queryID: nil)
        var fresh = try #require(try await device.todos().read(id: "a"))
        old.text = "mine"
        try await device.todos().update(old)
        fresh.rank = 5
        let result = try await device.todos().update(fresh)
        #expect(result.text == "mine")
        #expect(result.rank == 5)
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 1)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test("A fresh record can be reverted and deleted after an older record was saved")
    func aFreshRecordAfterAnOlderOneIsCurrent() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var old = try #require(try await device.todos().read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "theirs", rank: 1)]))
        try await device.todos().pull(queryID: nil)
        var fresh = try #require(try await device.todos().read(id: "a"))
        old.text = "mine"
        try await device.todos().update(old)
        fresh.rank = 5
        try await device.todos().update(fresh)
        fresh.rank = 1
        #expect(try await device.todos().update(fresh).rank == 1)
        try await device.todos().delete(fresh)
        transport.add(.status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description.hasPrefix("DELETE /tables/Todo/a \"v2\"") == true)
    }

    @Test("The complete row that an insert returned conflicts with another device's change")
    func aPlainRowOfAnInsertOverwritesNothing() async throws {
        let device = try await Device(transport)
        let rows = try device.client.syncTable(named: "Todo")
        var row = try await rows.insert(
            ["id": "a", "text": "draft", "complete": false, "rank": 1]
        )
        transport.add(.json(201, serverRow("a", 1, text: "draft", rank: 1)))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 2, text: "draft", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        row["text"] = "mine"
        try await rows.update(row)
        transport.add(.json(412, serverRow("a", 2, text: "draft", rank: 7)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test("A reverted value is dropped if a merge rule chooses the server's value")
    func aRestoredValueGivesWayWithItsOperation() async throws {
        let device = try await Device(transport, conflicts: .merge(["text": .server]))
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        try await device.todos().update(id: "a") { $0.text = "one" }
        transport.add(
            .run { _ in
                try await device.todos().update(id: "a") { $0.text = "draft" }
                return .json(412, serverRow("a", 3, text: "theirs", rank: 1))
            }
        )
        #expect(try await device.push() == nil)
        #expect(try await device.todos().read(id: "a")?.text == "theirs")
        #expect(transport.sent.count == 1)
    }

    @Test("An edit to the value that is already stored can be reverted")
    func anEditToTheStoredValueIsTakenBack() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var record = try #require(try await device.todos().read(id: "a"))
        try await device.todos().update(id: "a") { $0.rank = 5 }
        accept(2, text: "draft", rank: 5)
        #expect(try await device.push() == nil)
        record.rank = 5
        try await device.todos().update(record)
        record.rank = 1
        try await device.todos().update(record)
        #expect(try await device.todos().read(id: "a")?.rank == 1)
    }

    @Test("A reverted value is sent if the earlier attempt reached the server")
    func aRestoredValueIsSentOnTopOfTheServersRow() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        try await device.todos().update(id: "a") { $0.text = "one" }
        transport.add(.lost)
        #expect(try await device.push()?.status == .networkFailure)
        try await device.todos().update(id: "a") { $0.text = "draft" }
        transport.add(.json(412, serverRow("a", 3, text: "one", rank: 9)))
        accept(4, text: "draft", rank: 9)
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v3" {"text":"draft"}"#)
        #expect(try await device.todos().read(id: "a")?.text == "draft")
    }
}
