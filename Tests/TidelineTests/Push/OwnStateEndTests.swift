// Own states after conflicts, rejected or discarded operations, and replaced rows: a record of a state that no longer
// counts overwrites nothing, and no edit is dropped.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

private func answer(
    _ status: Int,
    _ version: Int,
    _ text: String,
    _ rank: Int? = 1,
    _ headers: HTTPFields = [:]
) -> ScriptedTransport.Answer {
    .json(status, serverRow("a", version, text: text, rank: rank), headers)
}

private struct Paper: SyncRecord, Hashable {
    struct Content: Codable, Hashable {
        var x: Int?
        var y: Int?
    }

    var id = ""
    var content = Content()
    var version: String?
}

private func paper(_ version: Int, _ content: String) -> String {
    #"{"id":"a","content":\#(content),"version":"v\#(version)","deleted":false}"#
}

@Suite struct OwnStateEndTests {
    private let transport = ScriptedTransport()

    private static let rejection = ScriptedTransport.Answer.json(422, #"{"error":"no"}"#)

    private func read(_ device: Device) async throws -> Todo {
        try #require(try await device.todos().read(id: "a"))
    }

    /// Deletes a row, and inserts it again while the delete is being sent; the two get these responses.
    private func deleteAndInsert(
        _ toDelete: ScriptedTransport.Answer,
        _ toInsert: ScriptedTransport.Answer
    ) async throws -> Device {
        let device = try await Device(transport, conflicts: .serverWins)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        try await device.todos().delete(id: "a")
        transport.add(
            .run { _ in
                try await device.todos().insert(Todo(id: "a", text: "b"))
                return toDelete
            },
            toInsert
        )
        return device
    }

    @Test("A record inserted during a conflicting delete does not overwrite a later change")
    func aRecordInsertedDuringADeleteWithAConflictIsOlder() async throws {
        let device = try await deleteAndInsert(answer(412, 2, "other", 2), answer(200, 3, "b", nil))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 4, text: "theirs", rank: nil)]))
        try await device.todos().pull(queryID: nil)
        try await device.todos().update(Todo(id: "a", text: "b", rank: 5))
        transport.add(answer(412, 4, "theirs", nil))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v3\"")
        #expect(try await read(device).text == "theirs")
    }

    @Test("A reverted edit is dropped if the server resolved the conflict with its own row")
    func aRestoredValueGivesWayWithAnUpdateThatTheServerDropped() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        try await device.todos().update(id: "a") { $0.text = "one" }
        transport.add(
            .run { _ in
                try await device.todos().update(id: "a") { $0.text = "draft" }
                return answer(200, 2, "theirs", 1, ["Tideline-Conflict": "resolved"])
            }
        )
        #expect(try await device.push() == nil)
        #expect(try await read(device).text == "theirs")
        #expect(transport.sent.count == 1)
    }

    /// Two own states with another writer's state between them are not joined when the row has too many.
    @Test("Own states are not joined across another writer's change")
    func joinedStatesAreOnlyOwnOnes() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var oldest = try await read(device)
        try await device.todos().update(id: "a") { $0.text = "one" }
        transport.add(answer(200, 2, "one"))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 3, text: "one", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        var editor = try await read(device)
        try await device.todos().update(oldest)
        editor.text = "two"
        try await device.todos().update(editor)
        transport.add(answer(412, 3, "one", 7))
        #expect(try await device.push() == nil)
        for turn in 4...120 {
            try await device.todos().update(id: "a") { $0.text = "text \(turn)" }
            transport.add(answer(200, turn, "text \(turn)", 7))
            #expect(try await device.push() == nil)
        }
        oldest.text = "late"
        try await device.todos().update(oldest)
        transport.add(answer(412, 120, "text 120", 7))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
        #expect(try await read(device).rank == 7)
    }

    @Test("The record of a discarded insert is not mistaken for the record of a later insert")
    func theRecordOfADiscardedInsertIsNotThatOfALaterOne() async throws {
        let device = try await Device(transport)
        let first = try await device.todos().insert(Todo(id: "a", text: "first"))
        transport.add(
            .run { _ in
                var edited = first
                edited.text = "one"
                try await device.todos().update(edited)
                return Self.rejection
            },
            Self.rejection
        )
        let error = try #require(try await device.push()?.errors.first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.todos().read(id: "a") == nil)
        var second = try await device.todos().insert(Todo(id: "a", text: "new"))
        transport.add(answer(201, 1, "new", nil))
        #expect(try await device.push() == nil)
        try await device.todos().update(id: "a") { $0.text = "final" }
        transport.add(answer(200, 2, "final", nil))
        #expect(try await device.push() == nil)
        second.rank = 5
        try await device.todos().update(second)
        #expect(try await read(device).text == "final")
    }

    /// A pull shows that another device has inserted the row, and the app discards its own insert.
    @Test(
        "The record of an insert that gave way to another device's row overwrites nothing",
        arguments: ["discard", "cancel", "delete"]
    )
    func theRecordOfAnInsertThatGaveWayIsOlder(action: String) async throws {
        let device = try await Device(transport)
        var record = try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.json(403, #"{"title":"Forbidden","status":403}"#))
        let error = try #require(try await device.push()?.errors.first)
        let theirs = serverRow("a", 1, text: "theirs", rank: 7)
        transport.add(page([theirs]))
        try await device.todos().pull(queryID: nil)
        switch action {
        case "discard": try await error.cancelOperationAndDiscardItem()
        case "cancel":
            guard
                case .row(let row) = try await device.client.syncContext.operationErrors().first?
                    .serverCopy
            else { break }
            try await error.cancelOperationAndUpdateItem(row)
        default:
            try await device.todos().delete(id: "a")
            #expect(try await device.queue() == ["delete a"])
            try await device.todos().insert(Todo(id: "a", text: "again"))
            transport.add(answer(200, 2, "again", nil))
            #expect(try await device.push() == nil)
            transport.add(page([serverRow("a", 3, text: "theirs", rank: 7)]))
            try await device.todos().pull(queryID: nil)
        }
        #expect(try await read(device).text == "theirs")
        record.rank = 5
        try await device.todos().update(record)
        transport.add(answer(412, 3, "theirs", 7))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == (action == "delete" ? "\"v2\"" : "\"\""))
    }

    /// A row is deleted and inserted again while an update of it is being sent, and its record is saved twice.
    @Test("Replacing a row while its update is sent causes no conflict")
    func aRowReplacedDuringItsUpdateIsNotAConflict() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        try await device.todos().update(id: "a") { $0.text = "one" }
        let inserted = Mutex<Todo?>(nil)
        transport.add(
            .run { _ in
                try await device.todos().delete(id: "a")
                let new = try await device.todos().insert(Todo(id: "a", text: "new"))
                inserted.withLock { $0 = new }
                return answer(200, 2, "one")
            },
            .run { _ in
                var edited = try #require(inserted.withLock { $0 })
                edited.rank = 2
                try await device.todos().update(edited)
                return answer(200, 3, "new", nil)
            },
            answer(200, 4, "new", 2)
        )
        // The second push sends the edit that was made during the first one.
        #expect(try await device.push() == nil)
        #expect(try await device.push() == nil)
        var record = try #require(inserted.withLock { $0 })
        record.rank = 3
        try await device.todos().update(record)
        transport.add(answer(200, 5, "new", 3))
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.map(\.ifMatch) == ["\"v1\"", "\"v2\"", "\"v3\"", "\"v4\""]
        )
        #expect(try await read(device).rank == 3)
    }

    /// An insert whose response was lost is rejected when it is repeated; its record is saved three times.
    @Test("An edit of a parked insert can be reverted after the insert succeeds")
    func editsOfAParkedInsertAreTakenBack() async throws {
        let device = try await Device(transport)
        var record = try await device.todos().insert(Todo(id: "a", text: "draft"))
        transport.add(.lost)
        #expect(try await device.push()?.status == .networkFailure)
        transport.add(.json(403, #"{"title":"Forbidden","status":403}"#))
        #expect(try await device.push()?.status == .operationErrors)
        record.rank = 1
        try await device.todos().update(record)
        record.complete = true
        try await device.todos().update(record)
        transport.add(
            answer(409, 1, "draft", nil),
            .json(
                200,
                serverRow("a", 2, text: "draft", rank: 1)
                    .replacingOccurrences(of: #""complete":false"#, with: #""complete":true"#)
            )
        )
        #expect(try await device.push() == nil)
        record.complete = false
        try await device.todos().update(record)
        #expect(try await read(device).complete == false)
        #expect(try await device.queue() == ["update a"])
    }

    @Test("A restored JSON member is sent after the server merged the object")
    func aRestoredMemberIsSentAfterAMerge() async throws {
        let device = try await Device(transport, tables: [Paper.self])
        let table = try device.client.syncTable(Paper.self)
        transport.add(page([paper(1, #"{"x":0}"#)]))
        try await table.pull(queryID: nil)
        try await table.update(id: "a") { $0.content.x = 1 }
        transport.add(
            .run { _ in
                try await table.update(id: "a") { $0.content.x = 0 }
                return .json(200, paper(3, #"{"x":1,"y":1}"#), ["Tideline-Conflict": "resolved"])
            },
            .json(200, paper(4, #"{"x":0,"y":1}"#))
        )
        _ = try await device.push()
        _ = try await device.push()
        #expect(transport.sent.count == 3)
        #expect(transport.sent.last?.body == #"{"content":{"x":0,"y":1}}"#)
    }

    @Test("A record with the first row's values edits a row that replaced it during its insert")
    func aRowReplacedDuringItsInsertIsNotTheFirstRow() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "a"))
        transport.add(
            .run { _ in
                try await device.todos().delete(id: "a")
                try await device.todos().insert(Todo(id: "a", text: "b"))
                return answer(201, 1, "a", nil)
            },
            answer(200, 2, "b", nil)
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 2)
        try await device.todos().update(Todo(id: "a", text: "a"))
        #expect(try await read(device).text == "a")
    }

    /// Transactions update, delete and insert a row, and the record is saved while the insert is being sent.
    @Test("An edit during an insert that follows other transactions is not a conflict")
    func aRecordOfAnInsertAfterTransactionsIsCurrent() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        try await device.context.transaction {
            try $0.table(Todo.self).update(id: "a") { $0.text = "one" }
        }
        try await device.context.transaction {
            try $0.table(Todo.self).update(id: "a") { $0.text = "two" }
        }
        try await device.context.transaction { try $0.table(Todo.self).delete(id: "a") }
        try await device.context.transaction {
            try $0.table(Todo.self).insert(Todo(id: "a", text: "new"))
        }
        let version = Mutex(1)
        for _ in 0..<5 {
            transport.add(
                .run { request in
                    let next = version.withLock {
                        $0 += 1
                        return $0
                    }
                    switch request.method {
                    case "DELETE": return .status(204)
                    case "POST":
                        try await device.todos().update(Todo(id: "a", text: "new", rank: 5))
                        return answer(201, 7, "new", nil)
                    default:
                        let isLast = request.body == #"{"rank":5}"#
                        return isLast ? answer(200, 8, "new", 5) : answer(200, next, "one")
                    }
                }
            )
        }
        for _ in 0..<2 { #expect(try await device.push() == nil) }
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v7" {"rank":5}"#)
        #expect(try await read(device).rank == 5)
    }

    /// An insert becomes a delete, because it may have arrived, and gives way to another device's row.
    @Test("The record of an insert that became a delete does not overwrite another device's row")
    func theRecordOfAnInsertThatBecameADeleteIsOlder() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        let record = try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.lost)
        _ = try await device.push()
        transport.add(.json(403, #"{"title":"Forbidden","status":403}"#))
        _ = try await device.push()
        transport.add(page([serverRow("a", 1, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        try await device.todos().delete(id: "a")
        transport.add(answer(412, 2, "theirs", 7))
        #expect(try await device.push() == nil)
        try await isOlder(record, device)
    }

    @Test(
        "The record of an insert that was never accepted overwrites no row of another device",
        arguments: ["delete", "discard", "purge"]
    )
    func theRecordOfAnUnsentInsertIsOlder(action: String) async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        let record = try await device.todos().insert(Todo(id: "a", text: "mine"))
        switch action {
        case "discard":
            transport.add(.json(403, #"{"title":"Forbidden","status":403}"#))
            try await device.push()?.errors.first?.cancelOperationAndDiscardItem()
        case "purge": try await device.todos().purge(force: true)
        default: try await device.todos().delete(id: "a")
        }
        #expect(try await device.queue().isEmpty)
        transport.add(page([serverRow("a", 1, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        try await isOlder(record, device)
    }

    @Test("The record of an insert does not overwrite a row that was deleted and restored")
    func theRecordOfAnInsertThatWasDeletedIsOlder() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        let record = try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.lost)
        _ = try await device.push()
        transport.add(.json(409, serverRow("a", 2, text: "mine", deleted: true)))
        #expect(try await device.push() == nil)
        #expect(try await device.todos().read(id: "a") == nil)
        transport.add(page([serverRow("a", 3, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        try await isOlder(record, device)
    }

    /// A delete is rejected, and the insert that followed it is sent instead: no other device wrote the row.
    @Test("A record inserted during a rejected delete can be updated without a conflict")
    func aRecordInsertedDuringARejectedDeleteIsCurrent() async throws {
        let device = try await deleteAndInsert(
            .json(403, #"{"title":"Forbidden","status":403}"#),
            answer(200, 2, "b", nil)
        )
        _ = try await device.push()
        _ = try await device.push()
        #expect(transport.sent.map(\.method) == ["DELETE", "PATCH"])
        try await device.todos().update(Todo(id: "a", text: "b", rank: 5))
        transport.add(answer(200, 3, "b", 5))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"rank":5}"#)
    }

    @Test("A record of an own state stays current after an older record is saved twice")
    func anOlderRecordThatIsSavedTwiceEndsNoStates() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var oldest = try await read(device)
        transport.add(page([serverRow("a", 2, text: "theirs", rank: 1)]))
        try await device.todos().pull(queryID: nil)
        var own = try await read(device)
        try await device.todos().update(id: "a") { $0.rank = 2 }
        transport.add(answer(200, 3, "theirs", 2))
        #expect(try await device.push() == nil)
        oldest.complete = true
        oldest = try await device.todos().update(oldest)
        oldest.complete = false
        try await device.todos().update(oldest)
        transport.add(answer(412, 3, "theirs", 2))
        #expect(try await device.push() == nil)
        own.text = "mine"
        try await device.todos().update(own)
        transport.add(answer(200, 4, "mine", 2))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v3" {"text":"mine"}"#)
    }

    /// Transactions insert and delete a row, and the server rejects the insert.
    @Test("The record of an insert rejected in a transaction does not overwrite a later row")
    func theRecordOfAnInsertInATransactionIsOlder() async throws {
        let device = try await Device(transport, conflicts: .serverWins)
        let record = Todo(id: "a", text: "mine")
        try await device.context.transaction { try $0.table(Todo.self).insert(record) }
        try await device.context.transaction { try $0.table(Todo.self).delete(id: "a") }
        transport.add(.json(403, #"{"title":"Forbidden","status":403}"#))
        _ = try await device.push()
        transport.add(page([serverRow("a", 1, text: "theirs", rank: 1)]))
        try await device.todos().pull(queryID: nil)
        try await device.todos().insert(Todo(id: "a", text: "again"))
        transport.add(answer(200, 2, "again", nil))
        #expect(try await device.push() == nil)
        transport.add(page([serverRow("a", 3, text: "theirs", rank: 7)]))
        try await device.todos().pull(queryID: nil)
        try await isOlder(record, device)
    }

    /// Saves a record without a state over another device's row, which stays.
    private func isOlder(_ record: Todo, _ device: Device) async throws {
        let theirs = try await read(device)
        #expect(theirs.text == "theirs")
        var record = record
        record.rank = 5
        try await device.todos().update(record)
        transport.add(
            .json(
                412,
                serverRow("a", 9, text: "theirs", rank: theirs.rank)
            )
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch != "\"\(theirs.version ?? "")\"")
        #expect(try await read(device).text == "theirs")
    }
}
