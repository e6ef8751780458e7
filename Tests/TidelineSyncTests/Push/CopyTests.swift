// Updates from a copy of a row that was read before: no edit is lost, and nothing of others.

import Foundation
import Testing
import Tideline
import TidelineCore

/// The same table with a time and without a version.
private struct Timed: SyncRecord, Hashable {
    static let tableName = "Todo"
    var id = ""
    var text = ""
    var complete = false
    var rank: Int?
    var updatedAt: Date?
}

@Suite struct CopyTests {
    private let transport = ScriptedTransport()

    /// Answers every update with what it asks for, under the next version.
    private func accept(_ version: Int, text: String, rank: Int? = 1) {
        transport.add(.json(200, serverRow("a", version, text: text, rank: rank)))
    }

    /// An editor saves one struct over and over: it never meets itself.
    @Test(arguments: [ConflictPolicy.fail, .serverWins, .clientWins])
    func anAutosaveDoesNotMeetItself(policy: ConflictPolicy) async throws {
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

    @Test func aModelWithATimeDoesNotMeetItselfEither() async throws {
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

    /// What another update of this device changed since, the copy has only not seen.
    @Test func aCopyKeepsWhatItsDeviceChangedElsewhere() async throws {
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

    /// Somebody else replaced the state in between: that is a conflict, also after own pushes.
    @Test func aCopyFromBeforeSomebodysChangeIsAConflict() async throws {
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

    @Test func aTimeOfAnOlderStateIsAConflict() async throws {
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

    /// What an update of an older copy gives back holds what that copy had read: it never passes for
    /// the row that the server has, also when the conflict ended with that.
    @Test func theRecordOfAnOlderCopyStaysOlder() async throws {
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

    /// A screen holds a copy, a pull arrives, a list refreshes, the screen saves.
    @Test func withoutVersionAListThatRefreshesHidesNothing() async throws {
        let device = try await Device(transport, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        var screen = try #require(try await table.read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "new", rank: 1)]))
        try await table.pull(queryID: nil)
        #expect(try await table.read().map(\.text) == ["new"])
        screen.rank = 5
        try await table.update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "new", rank: 1)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
        #expect(error.serverItem?["text"] == "new")
    }

    /// What somebody else replaced stays replaced, also where this device changed it since: the values of
    /// the first and of the last record that the screen may hold.
    @Test(arguments: [false, true], [false, true])
    func withoutVersionAnEditBetweenHidesNothing(isShownAgain: Bool, isPushed: Bool) async throws {
        let device = try await Device(transport, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        var screen = try #require(try await table.read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "new", rank: 1)]))
        try await table.pull(queryID: nil)
        if isShownAgain {
            screen = try #require(try await table.read(id: "a"))
            transport.add(page([serverRow("a", 3, text: "newer", rank: 1)]))
            try await table.pull(queryID: nil)
        }
        try await table.update(id: "a") { $0.text = "mine" }
        if isPushed {
            accept(4, text: "mine")
            #expect(try await device.push() == nil)
        }
        screen.rank = 5
        try await table.update(screen)
        transport.add(.json(412, serverRow("a", 9, text: isPushed ? "mine" : "newer", rank: 1)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    /// A row that this device deletes and makes anew is nobody else's.
    @Test(arguments: [false, true])
    func withoutVersionARowMadeAnewDoesNotMeetItself(isPushed: Bool) async throws {
        let device = try await Device(transport, conflicts: .serverWins, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "a", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        _ = try await table.read(id: "a")
        try await table.delete(id: "a")
        if isPushed {
            transport.add(.status(204))
            #expect(try await device.push() == nil)
        }
        var record = try await table.insert(Plain(id: "a", text: "b"))
        record.text = "c"
        try await table.update(record)
        accept(3, text: "c", rank: nil)
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == (isPushed ? nil : "\"v1\""))
        #expect(transport.sent.last?.body?.contains("\"c\"") == true)
    }

    /// Where nobody else changed the fields that differ, there is no conflict.
    @Test func withoutVersionOwnEditsAreNone() async throws {
        let device = try await Device(transport, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        var screen = try #require(try await table.read(id: "a"))
        for turn in 1...5 {
            screen.text = "text \(turn)"
            try await table.update(screen)
            _ = try await table.read()
            accept(turn + 1, text: screen.text)
            #expect(try await device.push() == nil)
            _ = try await table.read()
        }
        screen.text = "old"
        try await table.update(screen)
        accept(9, text: "old")
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.description == "PATCH /tables/Todo/a \"v6\" {\"text\":\"old\"}"
        )
    }

    /// A push that goes out again over somebody's change brings that change here; it is not our own.
    @Test(arguments: [
        ConflictPolicy.clientWins, .merge, .custom { $0.merged().map(Resolution.write) ?? .fail },
        .fail,
    ])
    func withoutVersionAPushOverSomebodysChangeKeepsIt(policy: ConflictPolicy) async throws {
        let device = try await Device(transport, conflicts: policy, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        var screen = try #require(try await table.read(id: "a"))
        screen.text = "mine"
        try await table.update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "old", rank: 9)))
        if policy == .fail {
            let error = try #require(try await device.push()?.errors.first)
            try await error.updateOperationAndRetry(with: ["text": "mine", "rank": 9])
        }
        accept(3, text: "mine", rank: 9)
        #expect(try await device.push() == nil)
        screen.text = "mine again"
        try await table.update(screen)
        accept(4, text: "mine again", rank: 9)
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.description
                == "PATCH /tables/Todo/a \"v3\" {\"text\":\"mine again\"}"
        )
        #expect(try await table.read(id: "a")?.rank == 9)
    }

    /// What was forgotten is at worst a conflict.
    @Test func withoutVersionAForgottenCopyOverwritesNothing() async throws {
        var limits = SyncLimits()
        limits.handedOutRowsMax = 10
        let device = try await Device(transport, limits: limits, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        try await device.seed((0..<100).map { localRow("row \($0)", 1) })
        let table = try device.client.syncTable(Plain.self)
        var screen = try #require(try await table.read(id: "a"))
        for number in 0..<100 { _ = try await table.read(id: "row \(number)") }
        transport.add(page([serverRow("a", 2, text: "new", rank: 1)]))
        try await table.pull(queryID: nil)
        screen.rank = 5
        try await table.update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "new", rank: 1)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"\"")
    }

    @Test func aRecordThatWasNeverHandedOutSetsWhatItSays() async throws {
        let device = try await Device(transport, tables: [Plain.self])
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let table = try device.client.syncTable(Plain.self)
        try await table.update(Plain(id: "a", text: "mine", rank: 2))
        transport.add(.json(200, serverRow("a", 2, text: "mine", rank: 2)))
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.description
                == "PATCH /tables/Todo/a \"v1\" {\"text\":\"mine\",\"rank\":2}"
        )
    }

    /// A delete of a copy that only own pushes replaced is based on the present row.
    @Test func aDeleteOfAnOwnOlderCopyGoesThrough() async throws {
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
}
