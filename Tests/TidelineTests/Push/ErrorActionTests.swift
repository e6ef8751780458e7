// The actions of a parked operation, and the columns and values that they keep or reject: columns that the app's item
// does not have, and values that no table can store.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// ``Todo`` without some of its columns, as another version of an app or another screen declares it.
private struct Narrow: SyncRecord {
    static let tableName = "Todo"
    var id = ""
    var text = ""
    var rank: Int?
}

/// ``Todo`` with its version.
private struct Versioned: SyncRecord {
    static let tableName = "Todo"
    var id = ""
    var text = ""
    var complete = false
    var version: String?
}

@Suite struct ErrorActionTests {
    private let transport = ScriptedTransport()

    private func parkedError(
        _ device: Device,
        by status: Int = 400
    ) async throws
        -> TableOperationError
    {
        transport.add(.status(status))
        return try #require(try await device.push()?.errors.first)
    }

    /// Adds a column that no model names to a row of the server.
    private func noted(_ row: Row, _ note: String) -> Row {
        var row = row
        row["note"] = .string(note)
        return row
    }

    @Test("A retried insert preserves columns that the record does not have")
    func aRetriedInsertKeepsColumnsThatTheRecordDoesNotHave() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "x", complete: true, rank: 5000))
        let error = try await parkedError(device)
        var item = try #require(try error.item?.decode(Narrow.self))
        item.rank = 5
        try await error.updateOperationAndRetry(with: item)
        let row = try await device.todos().read(id: "a")
        #expect(row?.complete == true && row?.rank == 5)
        transport.add(.json(201, serverRow("a", 1, text: "x", rank: 5)))
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.last?.body == #"{"id":"a","text":"x","complete":true,"rank":5}"#
        )
    }

    /// The request contains the differences from the base row.
    @Test("A retried update preserves edits of columns that the record does not have")
    func aRetriedUpdateKeepsEditsThatTheRecordDoesNotHave() async throws {
        let device = try await Device(transport)
        try await device.seed([noted(localRow("a", 1), "old")])
        try await device.todos().update(id: "a") { $0.complete = true }
        try await device.client.syncTable(named: "Todo").update(id: "a") { $0["note"] = "new" }
        let error = try await parkedError(device)
        var item = try #require(try error.item?.decode(Narrow.self))
        item.rank = 5
        try await error.updateOperationAndRetry(with: item)
        #expect(try await device.rows().first?["note"] == "new")
        transport.add(.status(400))
        _ = try await device.push()
        #expect(
            transport.sent.last?.description
                == #"PATCH /tables/Todo/a?__changed=complete,rank,note "v1" {"complete":true,"rank":5,"note":"new"}"#
        )
    }

    @Test("A retry with a partial row preserves edits of its other columns")
    func aRetriedRowKeepsEditsThatItDoesNotName() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { ($0.complete, $0.text) = (true, "mine") }
        let error = try await parkedError(device)
        try await error.updateOperationAndRetry(with: ["rank": 1])
        transport.add(.status(400))
        _ = try await device.push()
        #expect(
            transport.sent.last?.description
                == #"PATCH /tables/Todo/a "v1" {"text":"mine","complete":true,"rank":1}"#
        )
    }

    @Test("A retry after a conflict preserves another device's changes of other columns")
    func aRetryAfterAConflictKeepsOtherDevicesChanges() async throws {
        let device = try await Device(transport)
        try await device.seed([noted(localRow("a", 1, rank: 1), "old")])
        try await device.todos().update(id: "a") { $0.complete = true }
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 7, #","note":"new""#)))
        let error = try #require(try await device.push()?.errors.first)
        try await error.updateOperationAndRetry(with: ["rank": 3])
        let local = try #require(try await device.rows().first)
        #expect(local["text"] == "theirs" && local["complete"] == true)
        #expect(local["rank"] == 3 && local["note"] == "new")
        transport.add(.status(400))
        _ = try await device.push()
        let sent = try #require(transport.sent.last)
        #expect(sent.ifMatch == "\"v2\"")
        #expect(sent.body == #"{"complete":true,"rank":3}"#)
    }

    @Test("A second retry does not send another device's values as edits")
    func aSecondRetryKeepsOtherDevicesChanges() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        try await device.todos().update(id: "a") { $0.complete = true }
        for version in 2...3 {
            let theirs = serverRow("a", version, text: "theirs \(version)", rank: 7)
            transport.add(.json(412, theirs))
            let error = try #require(try await device.push()?.errors.first)
            try await error.updateOperationAndRetry(with: ["rank": 3])
        }
        let local = try #require(try await device.rows().first)
        #expect(local["text"] == "theirs 3" && local["complete"] == true && local["rank"] == 3)
        transport.add(.status(400))
        _ = try await device.push()
        #expect(transport.sent.last?.body == #"{"complete":true,"rank":3}"#)
    }

    @Test("A retry of an edit to an older record preserves another device's changes")
    func aRetryWithAnOlderCopyKeepsOtherDevicesChanges() async throws {
        let device = try await Device(transport)
        let table = try device.client.syncTable(Versioned.self)
        try await device.seed([localRow("a", 1, text: "old")])
        var screen = try #require(try await table.read(id: "a"))
        try await device.seed([localRow("a", 2, text: "theirs")])
        screen.complete = true
        try await table.update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "theirs")))
        let error = try #require(try await device.push()?.errors.first)
        try await error.updateOperationAndRetry(with: ["complete": true])
        let local = try #require(try await device.rows().first)
        #expect(local["text"] == "theirs" && local["complete"] == true)
        transport.add(.status(400))
        _ = try await device.push()
        #expect(transport.sent.last?.body == #"{"complete":true}"#)
        #expect(transport.sent.last?.ifMatch == "\"v2\"")
    }

    @Test("A retried insert over another device's row preserves its other columns")
    func aRetriedInsertOverAnotherDevicesRowKeepsItsOtherColumns() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "mine", complete: true))
        transport.add(.json(409, serverRow("a", 2, text: "theirs", rank: 7)))
        let error = try #require(try await device.push()?.errors.first)
        try await error.updateOperationAndRetry(with: ["text": "both"])
        let local = try #require(try await device.rows().first)
        #expect(local["text"] == "both" && local["complete"] == true && local["rank"] == 7)
    }

    @Test("A retry after a delete on the server preserves the local values")
    func aRetryAfterATombstoneKeepsTheLocalRow() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, rank: 4)])
        try await device.todos().update(id: "a") { $0.complete = true }
        transport.add(.json(412, serverRow("a", 2, rank: 4, deleted: true)))
        let error = try #require(try await device.push()?.errors.first)
        try await error.updateOperationAndRetry(with: ["text": "back"])
        let local = try #require(try await device.rows().first)
        #expect(local["text"] == "back" && local["complete"] == true && local["rank"] == 4)
    }

    @Test("Cancelling an insert preserves local columns that the new record does not have")
    func aCancelledInsertKeepsColumnsThatTheRecordDoesNotHave() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "x", complete: true, rank: 5000))
        let error = try await parkedError(device)
        try await error.cancelOperationAndUpdateItem(Narrow(id: "a", text: "y", rank: 5))
        let row = try await device.todos().read(id: "a")
        #expect(row?.complete == true && row?.text == "y")
    }

    /// A row that the server does not have is a local row: the next edit inserts it again.
    @Test("A row that the app preserves after a tombstone has no version")
    func aRowThatIsKeptAfterATombstoneIsInsertedAgain() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, rank: 4)])
        try await device.todos().update(id: "a") { $0.complete = true }
        transport.add(.json(412, serverRow("a", 2, rank: 4, deleted: true)))
        let error = try #require(try await device.push()?.errors.first)
        try await error.cancelOperationAndUpdateItem(["text": "mine"])
        let row = try #require(try await device.rows().first)
        #expect(row["version"] ?? .null == .null)
        #expect(try await device.todos().read(id: "a")?.rank == 4)
    }

    @Test("The app can accept a server row that contains a column that no table can store")
    func theServersRowIsAccepted() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.json(412, serverRow("a", 2, #","__odd":1"#)))
        let error = try #require(try await device.push()?.errors.first)
        guard case .row(let theirs) = error.serverCopy else {
            Issue.record("the server has the row")
            return
        }
        try await error.cancelOperationAndUpdateItem(theirs)
        #expect(try await device.todos().read(id: "a")?.text == "server")
    }

    @Test("A retry after an app update preserves columns that the new model lacks")
    func aRetryByALaterModelKeepsTheFormerModelsColumns() async throws {
        try await withTemporaryFile { path in
            let former = try await Device(transport, store: SQLiteStore(path: path))
            try await former.todos().insert(Todo(id: "a", text: "x", complete: true, rank: 5000))
            _ = try await parkedError(former)
            try await former.store.close()
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Narrow.self]
            )
            let error = try #require(try await device.context.operationErrors().first)
            var item = try #require(try error.item?.decode(Narrow.self))
            item.rank = 5
            try await error.updateOperationAndRetry(with: item)
            transport.add(.json(201, serverRow("a", 1, text: "x", rank: 5)))
            #expect(try await device.push() == nil)
            #expect(transport.sent.last?.body?.contains(#""complete":true"#) == true)
        }
    }

    @Test(
        "The actions of an error reject values that no table can store",
        arguments: [
            ("text", Value.string("a\u{0}b")), ("rank", "not a number"), ("deleted", true),
            ("rank", .number(.nan)), ("__x", 1),
        ]
    )
    func aValueThatNoTableCanStoreIsRejected(column: String, value: Value) async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "x"))
        let error = try await parkedError(device)
        let before = try await device.rows()
        var item: Row = ["id": "a", "text": "y"]
        item[column] = value
        let bad = item
        for action in [error.cancelOperationAndUpdateItem, error.updateOperationAndRetry(with:)]
            as [(Row) async throws -> Void]
        {
            let rejection = await #expect(throws: SyncError.self) { try await action(bad) }
            #expect(rejection?.code == .rowDoesNotFit)
            #expect(rejection?.message.contains("'\(column)'") == true)
        }
        #expect(try await device.rows() == before)
        #expect(try await device.queue() == ["insert a attempted parked"])
        #expect(try await device.context.operationErrors().count == 1)
    }
}
