// Transactions of an app that are sent to the server: as one group if it supports batches, otherwise in order.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct GroupTests {
    private typealias Scene = GroupScene

    @Test("A transaction is sent as one atomic group of a batch")
    func aTransactionIsOneGroupOfABatch() async throws {
        let scene = try await Scene()
        try await scene.device.todos().insert(Todo(id: "c", text: "alone"))
        try await scene.change("a", "b")
        let groups = try await scene.device.context.pendingOperations().map(\.groupID)
        #expect(groups.map { $0 == nil } == [true, false, false, false])
        #expect(Set(groups).count == 2)
        #expect(try await scene.device.context.push().completed == 4)
        #expect(scene.tap.groups == [["-", "g2", "g2", "g2"]])
        #expect(try await scene.serverContents() == ["a mine", "b mine", "c alone", "note n mine"])
    }

    /// Arrays are atomic on this device only: they may have more rows than a batch.
    @Test("An update of an array is not sent as an atomic group")
    func arraysAreNotGroups() async throws {
        let scene = try await Scene()
        var rows = try await scene.device.todos().read()
        for index in rows.indices { rows[index].text = "many" }
        try await scene.device.todos().update(rows)
        #expect(try await scene.device.push() == nil)
        #expect(scene.tap.groups == [["-", "-"]])
    }

    @Test(
        "A rejected transaction is parked completely, and a retry of a row sends all of it",
        arguments: ["a", "b", "n"]
    )
    func aRejectedGroupIsParkedAndRetriedCompletely(retried: String) async throws {
        let scene = try await Scene()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        try await scene.device.todos().insert(Todo(id: "z", text: "other"))
        let error = try #require(try await scene.device.push())
        #expect(error.status == .operationErrors)
        #expect(error.completed == 1)
        #expect(error.errors.map(\.itemID) == ["a", "b", "n"])
        #expect(error.errors.map(\.statusCode) == [424, 412, 424])
        #expect(Set(error.errors.map(\.groupID)).count == 1)
        #expect(error.errors[0].message.contains("row 'b' in table 'Todo'"))
        #expect(try await scene.serverContents() == ["a first", "b theirs", "z other"])
        // Another push sends no operation of the group.
        #expect(try await scene.device.push()?.errors.count == 3)
        #expect(scene.tap.bodies.count == 1)

        // The conflict of this row is resolved on the device; a retry of any row also sends the others.
        let errors = try await scene.device.context.operationErrors()
        let conflict = errors[1]
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await scene.device.context.operationErrors().isEmpty)
        if retried != "b" {
            // An app that handles all errors may resolve this one, too, as long as it is not sent.
            let error = try #require(errors.first { $0.itemID == retried })
            try await error.updateOperationAndRetry(with: try #require(error.item))
            let again = await code { try await error.cancelOperationAndDiscardItem() }
            #expect(again == .notFound)
        }
        #expect(try await scene.device.push() == nil)
        let late = await code { try await errors[0].cancelOperationAndDiscardItem() }
        #expect(late == .notFound)
        #expect(scene.tap.groups.last == ["g1", "g1", "g1"])
        let truth = ["a mine", "b mine", "z other", "note n mine"]
        #expect(try await scene.serverContents() == truth)
    }

    @Test("An edit of one row of a parked transaction sends all of it again")
    func anEditReleasesTheWholeGroup() async throws {
        let scene = try await Scene()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        _ = try await scene.device.push()
        let errors = try await scene.device.context.operationErrors()
        try await scene.device.todos().update(id: "a") { $0.rank = 3 }
        #expect(try await scene.device.context.operationErrors().isEmpty)
        // The conflict of the edited row is resolved.
        let settled = await code { try await errors[0].cancelOperationAndDiscardItem() }
        #expect(settled == .notFound)
        // The other conflict remains.
        #expect(try await scene.device.push()?.errors.map(\.statusCode) == [424, 412, 424])
        #expect(scene.tap.groups == [["g1", "g1", "g1"], ["g1", "g1", "g1"]])
    }

    @Test("A retry sends a parked transaction without the row that the app discarded")
    func aDiscardedRowLeavesTheGroup() async throws {
        let scene = try await Scene()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        let error = try #require(try await scene.device.push())
        try await error.errors[1].cancelOperationAndDiscardItem()
        #expect(try await scene.device.push()?.errors.map(\.itemID) == ["a", "n"])
        let waiting = try #require(try await scene.device.context.operationErrors().first)
        try await waiting.updateOperationAndRetry(with: try #require(waiting.item))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["a mine", "b theirs", "note n mine"])
    }

    @Test("A transaction is sent again after the policy resolves the conflict of one row")
    func aPolicyResolvesAMemberAndTheWholeGroupIsSentAgain() async throws {
        let mine = try await Scene(conflicts: .clientWins)
        try await mine.interfere("b")
        try await mine.change("a", "b")
        #expect(try await mine.device.push() == nil)
        #expect(mine.tap.groups == [["g1", "g1", "g1"], ["g1", "g1", "g1"]])
        #expect(try await mine.serverContents() == ["a mine", "b mine", "note n mine"])

        let theirs = try await Scene(conflicts: .serverWins)
        try await theirs.interfere("b")
        try await theirs.change("a", "b")
        #expect(try await theirs.device.push() == nil)
        #expect(theirs.tap.groups == [["g1", "g1", "g1"], ["g1", "g1"]])
        #expect(try await theirs.serverContents() == ["a mine", "b theirs", "note n mine"])

        let handled = try await Scene(conflicts: .custom { _ in .fail })
        try await handled.interfere("b")
        try await handled.change("a", "b")
        #expect(try await handled.device.push()?.errors.map(\.itemID) == ["a", "b", "n"])
    }

    @Test(
        "A transaction without a response is resent with the same bytes after a restart",
        arguments: [BatchTap.Fate.dropAnswer, .dropRequest]
    )
    func aGroupWithoutAnAnswerIsSentAgain(fate: BatchTap.Fate) async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene([fate], store: SQLiteStore(path: path))
            try await scene.change("a", "b")
            #expect(try await scene.device.push()?.status == .networkFailure)
            let sent = try #require(scene.tap.bodies.first)
            let tap = BatchTap(scene.server.transport)
            let again = try await Device(tap, store: SQLiteStore(path: path))
            #expect(try await again.queue().allSatisfy { $0.hasSuffix(" attempted") })
            #expect(try await again.context.push().completed == 3)
            #expect(tap.bodies == [sent])
            let truth = try await scene.other.client.table(Todo.self).read()
            #expect(Set(truth.map(\.version)) == Set(try await again.todos().read().map(\.version)))
            #expect(try await scene.serverContents() == ["a mine", "b mine", "note n mine"])
        }
    }

    @Test("An earlier attempt of a row is sent before a transaction that changes it again")
    func anEarlierOperationOfARowIsSentFirst() async throws {
        let scene = try await Scene([.dropRequest])
        try await scene.change("a", text: "one", note: "m")
        #expect(try await scene.device.push()?.status == .networkFailure)
        try await scene.device.context.transaction { transaction in
            try transaction.table(Note.self).insert(Note(id: "n", body: "two"))
            try transaction.table(Todo.self).update(id: "a") { $0.text = "two" }
        }
        let before = scene.tap.bodies.count
        #expect(try await scene.device.context.push().completed == 4)
        let groups = scene.tap.groups[before...]
        #expect(Array(groups) == [["g1", "g1"], ["g1", "g1"]])
        #expect(scene.tap.bodies[before].contains("one"))
        #expect(scene.tap.bodies[before + 1].contains("two"))
        #expect(
            try await scene.serverContents() == ["a two", "b first", "note m one", "note n two"]
        )
    }

    @Test("Two transactions that change one row are sent one after the other")
    func transactionsOfOneRowStaySeparate() async throws {
        let scene = try await Scene()
        try await scene.change("a", text: "one", note: "m")
        try await scene.device.todos().insert(Todo(id: "c", text: "between"))
        try await scene.change("a", "b", text: "two", note: "n")
        #expect(try await scene.device.context.push().completed == 6)
        #expect(scene.tap.groups == [["g1", "g1", "-"], ["g1", "g1", "g1"]])
        #expect(
            try await scene.serverContents()
                == ["a two", "b two", "c between", "note m one", "note n two"]
        )
    }

    @Test("Batch limits never split a transaction") func aGroupIsNeverSplit() async throws {
        var limits = SyncLimits()
        limits.batchRowsFirst = 2
        limits.batchRowsMax = 2
        limits.batchBytesMax = 10
        let scene = try await Scene([.dropAnswer], limits: limits)
        try await scene.device.todos().insert(Todo(id: "c"))
        try await scene.device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            for number in 0..<7 { try todos.insert(Todo(id: "t\(number)", text: "group")) }
        }
        try await scene.device.todos().insert(Todo(id: "d"))
        #expect(try await scene.device.context.push().completed == 9)
        let group = [String](repeating: "g1", count: 7)
        // The lost group is sent again after the other operations.
        #expect(scene.tap.groups == [group, group])
        #expect(Set(scene.tap.bodies).count == 1)
        #expect(scene.tap.singles.count == 2)
    }

    @Test("A transaction with too many rows throws an error and changes nothing")
    func aTransactionOfTooManyRowsIsRejected() async throws {
        var limits = SyncLimits()
        limits.transactionRowsMax = 3
        let scene = try await Scene(limits: limits)
        try await scene.change("a", "b")
        let tooLarge = await code {
            try await scene.device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                for number in 0..<4 { try todos.insert(Todo(id: "t\(number)")) }
            }
        }
        #expect(tooLarge == .transactionTooLarge)
        #expect(try await scene.device.queue() == ["update a", "update b", "insert n"])
        // Operations that are already queued do not count.
        try await scene.change("a", text: "more", note: "m")
        #expect(try await scene.device.push() == nil)
        #expect(
            try await scene.serverContents() == ["a more", "b mine", "note m more", "note n mine"]
        )
    }

    @Test("A transaction that the server rejects as too large is parked")
    func aGroupThatIsTooLargeForTheServerIsParked() async throws {
        var limits = SyncLimits()
        limits.batchRowsFirst = 3
        let scene = try await Scene([.answer(413)], limits: limits)
        try await scene.change("a", "b")
        try await scene.device.todos().insert(Todo(id: "c"))
        let error = try #require(try await scene.device.push())
        #expect(error.errors.map(\.statusCode) == [413, 413, 413])
        #expect(try await scene.serverContents().contains("c "))
    }

    @Test("Without batches, operations are sent in order and a rejected one is parked alone")
    func withoutBatchesOperationsAreSentInOrder() async throws {
        let script = ScriptedTransport([
            // A list of a server without any identifying header field: an original server.
            page([serverRow("a", 1)]),
            .json(200, serverRow("a", 2, text: "mine")), .json(422, #"{"error":"no"}"#),
            .json(201, #"{"id":"n","body":"mine","version":"v1"}"#),
        ])
        let device = try await Device(script)
        try await device.seed([localRow("a", 1), localRow("b", 1)])
        try await device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            for id in ["a", "b"] { try todos.update(id: id) { $0.text = "mine" } }
            try transaction.table(Note.self).insert(Note(id: "n", body: "mine"))
        }
        let error = try #require(try await device.push())
        #expect(error.errors.map(\.itemID) == ["b"])
        #expect(error.completed == 2)
        let targets = script.sent.map { "\($0.method) \($0.target)" }
        #expect(
            targets == [
                "GET /tables/Todo?$top=1", "PATCH /tables/Todo/a", "PATCH /tables/Todo/b",
                "POST /tables/Note",
            ]
        )
    }

    /// The original servers identify themselves, or are known by their lists.
    @Test(
        "A transaction is pushed to an original server",
        arguments: OriginalServer.Flavor.allCases
    )
    func originalServersGetOperationsInOrder(flavor: OriginalServer.Flavor) async throws {
        let server = OriginalServer(
            flavor,
            tables: [
                .init(
                    "Todo",
                    columns: ["text": .string, "complete": .boolean, "rank": .number]
                ),
                .init("Note", columns: ["body": .string]),
            ]
        )
        let device = try await Device(server, endpoint: server.endpoint)
        try await device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "a", text: "mine"))
            try transaction.table(Note.self).insert(Note(id: "n", body: "mine"))
        }
        #expect(try await device.push() == nil)
        #expect(try await device.client.table(Note.self).read(id: "n")?.body == "mine")
    }

    @Test(
        "A gateway's page as the first response of an endpoint does not split a transaction",
        arguments: [403, 404, 405, 501],
        [1, 2]
    )
    func aFirstPageOfAGatewayDoesNotSplitAGroup(status: Int, pages: Int) async throws {
        let server = try await makeServer()
        let tap = BatchTap(server.transport)
        let portal = Portal(tap)
        portal.answer(next: pages, Portal.page(status))
        let device = try await Device(portal)
        try await device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "a", text: "mine"))
            try transaction.table(Note.self).insert(Note(id: "n", body: "mine"))
        }
        // An operation that is rejected twice is left to the next push.
        if let error = try await device.push() {
            #expect(error.status == .networkFailure)
            #expect(error.failingRows.map(\.itemID) == ["n", "a"])
            #expect(try await device.push() == nil)
        }
        #expect(tap.groups == [["g1", "g1"]])
        #expect(tap.singles.isEmpty)
    }

    @Test(
        "A transaction stays queued and blocks no other row while a proxy rejects batches",
        arguments: [403, 404, 405, 501]
    )
    func aProxyThatRejectsBatchesDoesNotSplitAGroup(status: Int) async throws {
        let server = try await makeServer()
        let tap = BatchTap(server.transport)
        let portal = Portal(tap)
        portal.answer { $0.url.path().hasSuffix("/$batch") ? Portal.page(status) : nil }
        let device = try await Device(portal)
        let other = try await Device(server.transport)
        try await other.client.table(Todo.self).insert(Todo(id: "theirs"))
        try await device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "a", text: "mine"))
            try transaction.table(Note.self).insert(Note(id: "n", body: "mine"))
        }
        try await device.todos().insert(Todo(id: "alone"))
        for _ in 0..<2 {
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure)
            #expect(error.failingRows.map(\.itemID) == ["n", "a"])
            try await device.todos().pull(queryID: "all")
        }
        #expect(try await device.todos().read(id: "theirs") != nil)
        #expect(tap.singles == ["POST /tables/Todo"])
        #expect(try await other.client.table(Todo.self).read(id: "alone") != nil)
        #expect(try await other.client.table(Todo.self).read(id: "a") == nil)
        #expect(try await other.client.table(Note.self).count() == 0)
        portal.answer(nil)
        #expect(try await device.push() == nil)
        #expect(tap.groups == [["g1", "g1"]])
        #expect(try await other.client.table(Note.self).count() == 1)
    }

    @Test(
        "A server that accepted batches never receives part of a transaction",
        arguments: [404, 200, 502]
    )
    func aServerThatAcceptedBatchesNeverGetsPartsOfAGroup(status: Int) async throws {
        let scene = try await Scene()
        try await scene.change("a", note: "m")
        #expect(try await scene.device.push() == nil)
        try await scene.change("a", "b", text: "again")
        for _ in 0..<20 { scene.tap.add(.answer(status)) }
        #expect(try await scene.device.push()?.status == .networkFailure)
        #expect(scene.tap.singles.isEmpty)
        #expect(try await scene.serverContents() == ["a mine", "b first", "note m mine"])
        let again = try await Scene([.answer(400)])
        try await again.change("a", "b")
        #expect(try await again.device.push()?.errors.map(\.statusCode) == [400, 400, 400])
        #expect(again.tap.singles.isEmpty)
    }

    @Test("An edit made during the batch is sent after the transaction")
    func anEditDuringTheBatchIsKept() async throws {
        let scene = try await Scene()
        let todos = try scene.device.todos()
        try await scene.change("a", "b")
        scene.tap.add(.first { try await todos.update(id: "a") { $0.rank = 7 } })
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.queue().isEmpty)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.text == "mine" && row.rank == 7)
    }

    @Test("A rejected transaction whose row was edited is sent again and then parked")
    func anEditDuringARejectedBatchReleasesIt() async throws {
        let scene = try await Scene()
        let todos = try scene.device.todos()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        scene.tap.add(.first { try await todos.update(id: "a") { $0.rank = 7 } })
        let error = try #require(try await scene.device.push())
        #expect(error.errors.map(\.itemID) == ["a", "b", "n"])
        #expect(scene.tap.groups == [["g1", "g1", "g1"], ["g1", "g1", "g1"]])
        #expect(scene.tap.bodies.last?.contains("\"rank\":7") == true)
        #expect(try await scene.serverContents() == ["a first", "b theirs"])
    }

    @Test("A transaction that is created during a rejected batch waits for the rejected one")
    func aTransactionDuringARejectedBatchWaits() async throws {
        let scene = try await Scene()
        let device = scene.device
        try await scene.interfere("b")
        try await scene.change("a", "b")
        scene.tap.add(
            .first {
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    for id in ["a", "b"] { try todos.update(id: id) { $0.text = "two" } }
                    try transaction.table(Note.self).insert(Note(id: "m", body: "two"))
                }
            }
        )
        let error = try #require(try await device.push())
        #expect(error.errors.map(\.itemID) == ["a", "b", "n"])
        #expect(scene.tap.groups == [["g1", "g1", "g1"]])
        #expect(try await scene.serverContents() == ["a first", "b theirs"])
        let conflict = error.errors[1]
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await device.push() == nil)
        #expect(
            try await scene.serverContents() == ["a two", "b two", "note m two", "note n mine"]
        )
    }

    @Test("A transaction is sent without an operation whose edit was reverted")
    func aMemberWithoutChangesIsLeftOut() async throws {
        let scene = try await Scene()
        try await scene.change("a", "b")
        try await scene.device.todos().update(id: "b") { $0.text = "first" }
        #expect(try await scene.device.push() == nil)
        #expect(scene.tap.groups == [["g1", "g1"]])
        #expect(try await scene.serverContents() == ["a mine", "b first", "note n mine"])
    }

    @Test("A transaction with an undeclared table stays queued and blocks no other operation")
    func aGroupOfAnUnnamedTableWaits() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            try await scene.change("a")
            try await scene.device.todos().update(id: "b") { $0.text = "alone" }
            let tap = BatchTap(scene.server.transport)
            let less = try await Device(tap, store: SQLiteStore(path: path), tables: [Todo.self])
            #expect(try await less.push()?.errors.map(\.itemID) == ["n"])
            #expect(try await scene.serverContents() == ["a first", "b alone"])
            let whole = try await Device(tap, store: SQLiteStore(path: path))
            #expect(try await whole.push() == nil)
            #expect(try await scene.serverContents() == ["a mine", "b alone", "note n mine"])
        }
    }
}
