// Pull and the operation queue: the push before a pull, rows with pending operations, and purges.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct PullQueueTests {
    private let transport = ScriptedTransport()

    @Test("A pull pushes pending operations first") func aPullPushesFirst() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "x"))
        transport.add(.json(201, serverRow("a", 1, text: "x")), page([serverRow("a", 1)]))
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.map(\.method) == ["POST", "GET"])
    }

    @Test("A failed push ends the pull before any row is requested", arguments: [401, 503])
    func aPushThatFailsEndsThePull(status: Int) async throws {
        let transport = ScriptedTransport(otherwise: .status(status))
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        let error = await #expect(throws: PushError.self) {
            try await device.todos().pull(queryID: "all")
        }
        #expect(error?.status == (status == 401 ? .unauthorized : .networkFailure))
        #expect(transport.sent.allSatisfy { $0.method == "POST" })
    }

    @Test("A pull does not change a parked row, and a discard applies the newest server row")
    func parkedRowsKeepTheirEditsAndTheNewestServerRow() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1), localRow("b", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(
            .json(412, serverRow("a", 2)),
            page([serverRow("b", 3), serverRow("a", 4, text: "newest")]),
            page([])
        )
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.applied == 1)
        #expect(try await device.todos().read(id: "a")?.text == "mine")
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.last?.query.contains(timestamp(4)) == true)
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.rows().first == localRow("a", 4, text: "newest"))
    }

    @Test("A retry after a pull is based on the newest server row")
    func retryingAfterAPullIsBasedOnTheNewestRow() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.status(412), page([serverRow("a", 4)]))
        try await device.todos().pull(queryID: "all")
        let error = try #require(try await device.context.operationErrors().first)
        #expect(error.serverItem == nil)
        try await error.updateOperationAndRetry(with: Todo(id: "a", text: "mine"))
        transport.add(.json(200, serverRow("a", 5, text: "mine")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v4\"")
    }

    @Test("A pulled tombstone of a parked row is applied when its operation is discarded")
    func aTombstoneOfAParkedRowIsStored() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.status(403), page([serverRow("a", 4, deleted: true)]))
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.removed == 0)
        #expect(try await device.todos().read(id: "a")?.text == "mine")
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.rows() == [])
    }

    @Test("A pull does not overwrite an edit that is made during the pull")
    func anEditDuringAPullIsKept() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await device.seed([localRow("a", 1)])
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { $0.text = "mine" }
                return page([serverRow("a", 2, text: "theirs"), serverRow("b", 3)])
            }
        )
        try await todos.pull(queryID: "all")
        #expect(try await todos.read(id: "a")?.text == "mine")
        #expect(try await todos.read(id: "b")?.text == "server")
        #expect(try await device.queue() == ["update a"])
    }

    @Test("An update by ID uses the row that was stored while its closure ran")
    func anUpdateInOneStepReadsTheRowThatAPullStored() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        let store = device.store
        let turns = Turns()
        let result = try await todos.update(id: "a") { todo in
            if turns.next() == 1 {
                // Stores a row as a pull would, between the read and the write of this update.
                blocking { try await store.write { try $0.put([localRow("a", 2)], in: "Todo") } }
            }
            todo.rank = 7
        }
        #expect(turns.next() == 3)
        #expect(result.text == "server")
        #expect(result.rank == 7)
        #expect(result.version == "v2")
    }

    @Test("A purge fails while operations of its rows are pending")
    func purgeFailsWhileOperationsArePending() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("b", 1)])
        try await device.todos().insert(Todo(id: "a"))
        #expect(await code { try await device.todos().purge() } == .pendingOperations)
        #expect(
            await code { try await device.todos().purge(where: { $0.id == "a" }) }
                == .pendingOperations
        )
        #expect(try await device.rows().count == 2)
        try await device.todos().purge(where: { $0.id == "b" })
        #expect(try await device.rows().map(\.id) == ["a"])
        #expect(try await device.queue() == ["insert a"])
        let notes = try device.client.syncTable(Note.self)
        try await notes.purge()
    }

    @Test("A forced purge removes the operations of its table")
    func purgeWithForceDropsOperations() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        try await device.client.syncTable(Note.self).insert(Note(id: "n"))
        transport.add(.status(400), .status(400))
        _ = try await device.push()
        try await device.todos().purge(force: true)
        #expect(try await device.rows() == [])
        #expect(try await device.queue() == ["insert n attempted parked"])
        #expect(try await device.context.operationErrors().map(\.table) == ["Note"])
    }

    @Test("A forced purge with a filter removes the matching rows and their operations")
    func purgeWithAFilterRemovesMatchingRows() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, rank: 1), localRow("b", 1, rank: 2)])
        try await device.todos().update(id: "a") { $0.text = "x" }
        try await device.todos().update(id: "b") { $0.text = "y" }
        try await device.todos().purge(where: { $0.rank == 1 }, force: true)
        #expect(try await device.rows().map(\.id) == ["b"])
        #expect(try await device.queue() == ["update b"])
        try await device.todos().purge(where: #Predicate { $0.rank == 2 }, force: true)
        #expect(try await device.rows() == [])
        #expect(try await device.queue() == [])
    }

    @Test("A purge removes the cursors of its table") func purgeRemovesTheCursors() async throws {
        let device = try await Device(transport)
        transport.add(page([serverRow("a", 3)]), page([serverRow("a", 3)]))
        try await device.todos().pull(queryID: "all")
        try await device.todos().purge(where: { $0.id == "a" })
        #expect(try await device.rows() == [])
        try await device.todos().pull(queryID: "all")
        #expect(!transport.sent[1].query.contains("updatedAt ge"))
        #expect(try await device.rows() == [localRow("a", 3)])
    }
}
