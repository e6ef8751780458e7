// Transactions of an app on their way to the server: as one where it takes batches, in order where not.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite struct GroupTests {
    private typealias Scene = GroupScene

    @Test func aTransactionIsOneGroupOfABatch() async throws {
        let scene = try await Scene()
        try await scene.device.todos().insert(Todo(id: "c", text: "alone"))
        try await scene.change("a", "b")
        let groups = try await scene.device.context.pendingOperations().map(\.groupID)
        #expect(groups.map { $0 == nil } == [true, false, false, false])
        #expect(Set(groups).count == 2)
        #expect(try await scene.device.context.push().completed == 4)
        #expect(scene.tap.groups == [["-", "g2", "g2", "g2"]])
        #expect(try await scene.truth() == ["a mine", "b mine", "c alone", "note n mine"])
    }

    /// Arrays are one on this device only: they may have more rows than a batch.
    @Test func arraysAreNoGroups() async throws {
        let scene = try await Scene()
        var rows = try await scene.device.todos().read()
        for index in rows.indices { rows[index].text = "many" }
        try await scene.device.todos().update(rows)
        #expect(try await scene.device.push() == nil)
        #expect(scene.tap.groups == [["-", "-"]])
    }

    /// Nothing of it is done, every row has its error, and a retry of one sends all.
    @Test(arguments: ["a", "b", "n"])
    func aRefusedGroupIsParkedWholeAndSentAgainWhole(retried: String) async throws {
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
        #expect(try await scene.truth() == ["a first", "b theirs", "z other"])
        // Another push sends nothing of it.
        #expect(try await scene.device.push()?.errors.count == 3)
        #expect(scene.tap.bodies.count == 1)

        // The conflict is settled for the row here; whatever row is sent again takes the others along.
        let errors = try await scene.device.context.operationErrors()
        let conflict = errors[1]
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await scene.device.context.operationErrors().isEmpty)
        if retried != "b" {
            // An app that goes through all errors may settle this one, too, as long as it is not sent.
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
        #expect(try await scene.truth() == truth)
    }

    /// An edit of a row that only waits for another one sends all of them again.
    @Test func anEditReleasesTheWholeGroup() async throws {
        let scene = try await Scene()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        _ = try await scene.device.push()
        let errors = try await scene.device.context.operationErrors()
        try await scene.device.todos().update(id: "a") { $0.rank = 3 }
        #expect(try await scene.device.context.operationErrors().isEmpty)
        // What was edited is settled.
        let settled = await code { try await errors[0].cancelOperationAndDiscardItem() }
        #expect(settled == .notFound)
        // The conflict is still there.
        #expect(try await scene.device.push()?.errors.map(\.statusCode) == [424, 412, 424])
        #expect(scene.tap.groups == [["g1", "g1", "g1"], ["g1", "g1", "g1"]])
    }

    /// A row that is given up leaves the group; the others are sent again when one of them is.
    @Test func aDiscardedRowLeavesTheGroup() async throws {
        let scene = try await Scene()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        let error = try #require(try await scene.device.push())
        try await error.errors[1].cancelOperationAndDiscardItem()
        #expect(try await scene.device.push()?.errors.map(\.itemID) == ["a", "n"])
        let waiting = try #require(try await scene.device.context.operationErrors().first)
        try await waiting.updateOperationAndRetry(with: try #require(waiting.item))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.truth() == ["a mine", "b theirs", "note n mine"])
    }

    @Test func policiesSettleAMemberAndTheWholeGroupGoesAgain() async throws {
        let mine = try await Scene(conflicts: .clientWins)
        try await mine.interfere("b")
        try await mine.change("a", "b")
        #expect(try await mine.device.push() == nil)
        #expect(mine.tap.groups == [["g1", "g1", "g1"], ["g1", "g1", "g1"]])
        #expect(try await mine.truth() == ["a mine", "b mine", "note n mine"])

        let theirs = try await Scene(conflicts: .serverWins)
        try await theirs.interfere("b")
        try await theirs.change("a", "b")
        #expect(try await theirs.device.push() == nil)
        #expect(theirs.tap.groups == [["g1", "g1", "g1"], ["g1", "g1"]])
        #expect(try await theirs.truth() == ["a mine", "b theirs", "note n mine"])

        let asked = try await Scene(conflicts: .custom { _ in .fail })
        try await asked.interfere("b")
        try await asked.change("a", "b")
        #expect(try await asked.device.push()?.errors.map(\.itemID) == ["a", "b", "n"])
    }

    /// The same bytes go out again, and the server answers each as it did.
    @Test(arguments: [BatchTap.Fate.dropAnswer, .dropRequest])
    func aLostAnswerIsAskedForAgain(fate: BatchTap.Fate) async throws {
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
            #expect(try await scene.truth() == ["a mine", "b mine", "note n mine"])
        }
    }

    /// What was sent of a row before goes first; only then the group that changes the row again.
    @Test func anEarlierOperationOfARowGoesFirst() async throws {
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
        #expect(try await scene.truth() == ["a two", "b first", "note m one", "note n two"])
    }

    @Test("two transactions that change one row are sent one after the other")
    func transactionsOfOneRowStayTwo() async throws {
        let scene = try await Scene()
        try await scene.change("a", text: "one", note: "m")
        try await scene.device.todos().insert(Todo(id: "c", text: "between"))
        try await scene.change("a", "b", text: "two", note: "n")
        #expect(try await scene.device.context.push().completed == 6)
        #expect(scene.tap.groups == [["g1", "g1", "-"], ["g1", "g1", "g1"]])
        #expect(
            try await scene.truth()
                == ["a two", "b two", "c between", "note m one", "note n two"]
        )
    }

    /// A slice of any size takes a group whole.
    @Test func aGroupIsNeverSplit() async throws {
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
        // The lost one is tried again behind the others.
        #expect(scene.tap.groups == [group, group])
        #expect(Set(scene.tap.bodies).count == 1)
        #expect(scene.tap.singles.count == 2)
    }

    @Test func aTransactionOfTooManyRowsIsRefused() async throws {
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
        // What is in the queue does not count.
        try await scene.change("a", text: "more", note: "m")
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.truth() == ["a more", "b mine", "note m more", "note n mine"])
    }

    /// A batch that is refused as too large holds one group: it cannot be made smaller.
    @Test func aGroupThatIsTooLargeForTheServerIsParked() async throws {
        var limits = SyncLimits()
        limits.batchRowsFirst = 3
        let scene = try await Scene([.answer(413)], limits: limits)
        try await scene.change("a", "b")
        try await scene.device.todos().insert(Todo(id: "c"))
        let error = try #require(try await scene.device.push())
        #expect(error.errors.map(\.statusCode) == [413, 413, 413])
        #expect(try await scene.truth().contains("c "))
    }

    /// A server that knows no batches does them in order, and what it refuses waits alone.
    @Test func withoutBatchesEachGoesInOrder() async throws {
        let script = ScriptedTransport([
            // A list of a server that names itself in nothing: an original one.
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

    /// The original servers name themselves, or are known by their lists.
    @Test(arguments: OriginalServer.Flavor.allCases)
    func originalServersGetThemInOrder(flavor: OriginalServer.Flavor) async throws {
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

    /// A page of something in between as the very first answer of an endpoint decides nothing.
    @Test(arguments: [403, 404, 405, 501], [1, 2])
    func aFirstPageDoesNotTakeAGroupApart(status: Int, pages: Int) async throws {
        let server = try await makeServer()
        let tap = BatchTap(server.transport)
        let portal = Portal(tap)
        portal.answer(next: pages, Portal.page(status))
        let device = try await Device(portal)
        try await device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "a", text: "mine"))
            try transaction.table(Note.self).insert(Note(id: "n", body: "mine"))
        }
        // What is refused twice is left to the next push.
        if let error = try await device.push() {
            #expect(error.status == .networkFailure)
            #expect(error.failingRows.map(\.itemID) == ["n", "a"])
            #expect(try await device.push() == nil)
        }
        #expect(tap.groups == [["g1", "g1"]])
        #expect(tap.singles.isEmpty)
    }

    /// A proxy that always refuses batches, in front of a server that takes them: the group waits, is named,
    /// and keeps neither other rows nor pulls back.
    @Test(arguments: [403, 404, 405, 501])
    func aProxyThatRefusesBatchesDoesNotTakeAGroupApart(status: Int) async throws {
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

    /// That a path is missing for a while does not take a group apart on a server that takes batches.
    @Test(arguments: [404, 200, 502])
    func aServerThatTookBatchesNeverGetsHalves(status: Int) async throws {
        let scene = try await Scene()
        try await scene.change("a", note: "m")
        #expect(try await scene.device.push() == nil)
        try await scene.change("a", "b", text: "again")
        for _ in 0..<20 { scene.tap.add(.answer(status)) }
        #expect(try await scene.device.push()?.status == .networkFailure)
        #expect(scene.tap.singles.isEmpty)
        #expect(try await scene.truth() == ["a mine", "b first", "note m mine"])
        let again = try await Scene([.answer(400)])
        try await again.change("a", "b")
        #expect(try await again.device.push()?.errors.map(\.statusCode) == [400, 400, 400])
        #expect(again.tap.singles.isEmpty)
    }

    /// An edit made while the group is on its way is kept, and goes out behind it.
    @Test func anEditDuringTheBatchIsKept() async throws {
        let scene = try await Scene()
        let todos = try scene.device.todos()
        try await scene.change("a", "b")
        scene.tap.add(.first { try await todos.update(id: "a") { $0.rank = 7 } })
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.queue().isEmpty)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.text == "mine" && row.rank == 7)
    }

    /// A refused group whose row was edited meanwhile is sent once more with the edit, and then waits.
    @Test func anEditDuringARefusedBatchReleasesIt() async throws {
        let scene = try await Scene()
        let todos = try scene.device.todos()
        try await scene.interfere("b")
        try await scene.change("a", "b")
        scene.tap.add(.first { try await todos.update(id: "a") { $0.rank = 7 } })
        let error = try #require(try await scene.device.push())
        #expect(error.errors.map(\.itemID) == ["a", "b", "n"])
        #expect(scene.tap.groups == [["g1", "g1", "g1"], ["g1", "g1", "g1"]])
        #expect(scene.tap.bodies.last?.contains("\"rank\":7") == true)
        #expect(try await scene.truth() == ["a first", "b theirs"])
    }

    @Test("a transaction that is made during a rejected batch waits for the rejected one")
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
        #expect(try await scene.truth() == ["a first", "b theirs"])
        let conflict = error.errors[1]
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await device.push() == nil)
        #expect(try await scene.truth() == ["a two", "b two", "note m two", "note n mine"])
    }

    /// What changes nothing is done without a request; the rest of the group goes.
    @Test func aMemberWithNothingToSendIsLeftOut() async throws {
        let scene = try await Scene()
        try await scene.change("a", "b")
        try await scene.device.todos().update(id: "b") { $0.text = "first" }
        #expect(try await scene.device.push() == nil)
        #expect(scene.tap.groups == [["g1", "g1"]])
        #expect(try await scene.truth() == ["a mine", "b first", "note n mine"])
    }

    /// A group with a table that the app does not name waits for that, and holds up nothing else.
    @Test func aGroupOfAnUnnamedTableWaits() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            try await scene.change("a")
            try await scene.device.todos().update(id: "b") { $0.text = "alone" }
            let tap = BatchTap(scene.server.transport)
            let less = try await Device(tap, store: SQLiteStore(path: path), tables: [Todo.self])
            #expect(try await less.push()?.errors.map(\.itemID) == ["n"])
            #expect(try await scene.truth() == ["a first", "b alone"])
            let whole = try await Device(tap, store: SQLiteStore(path: path))
            #expect(try await whole.push() == nil)
            #expect(try await scene.truth() == ["a mine", "b alone", "note n mine"])
        }
    }
}
