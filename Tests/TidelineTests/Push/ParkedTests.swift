// Parked operations: the rejections that park them, the actions that release them, and their state after a restart.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct ParkedTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy = .fail) async throws -> Device {
        try await Device(transport, conflicts: policy)
    }

    @Test(
        "A rejected operation is parked, and an independent operation is sent",
        arguments: [400, 402, 403, 405, 409, 412, 413, 415, 422]
    )
    func rejectedOperationsAreParkedAndTheOthersContinue(status: Int) async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "bad"))
        try await device.todos().insert(Todo(id: "b", text: "good"))
        transport.add(
            .json(status, #"{"error":"too long"}"#),
            .json(201, serverRow("b", 1, text: "good"))
        )
        let error = try #require(try await device.push())
        #expect(error.status == .operationErrors)
        #expect(error.completed == 1)
        let one = try #require(error.errors.first)
        #expect(error.errors.count == 1)
        #expect(one.table == "Todo")
        #expect(one.itemID == "a")
        #expect(one.kind == .insert)
        #expect(one.statusCode == status)
        #expect(one.item?["text"] == "bad")
        #expect(one.serverItem == nil)
        #expect(one.message.contains("too long"))
        #expect(!one.message.contains("bad"))
        #expect(try await device.queue() == ["insert a attempted parked"])
        #expect(try await device.context.pendingOperationCount == 1)
    }

    @Test("Each push reports a parked operation without sending it again")
    func aParkedOperationIsNotSentAgainAndEachPushReportsIt() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.status(400))
        _ = try await device.push()
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.count == 1)
    }

    @Test("A push without a network reports the earlier rejections, too")
    func aPushWithoutNetworkReportsTheEarlierErrorsToo() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.status(400))
        #expect(try await device.push()?.status == .operationErrors)
        try await device.todos().insert(Todo(id: "b"))
        transport.add(
            .run { _ in
                throw TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false)
            }
        )
        let error = try await device.push()
        #expect(error?.status == .networkFailure)
        #expect(error?.errors.map(\.itemID) == ["a"])
        #expect(try await device.context.pendingOperationCount == 2)
    }

    @Test("A new edit sends a parked operation again")
    func aNewEditReleasesAParkedOperation() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "bad"))
        transport.add(.status(422), .json(201, serverRow("a", 1, text: "better")))
        _ = try await device.push()
        try await device.todos().update(id: "a") { $0.text = "better" }
        #expect(try await device.queue() == ["insert a"])
        #expect(try await device.context.operationErrors().isEmpty)
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].method == "POST")
        #expect(transport.sent[1].body?.contains("better") == true)
    }

    @Test("An edit without changes sends a parked operation again")
    func anEditWithoutChangesReleasesAParkedOperation() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "x"))
        transport.add(.status(403), .json(201, serverRow("a", 1, text: "x")))
        _ = try await device.push()
        try await device.todos().update(id: "a") { _ in }
        #expect(try await device.push() == nil)
    }

    @Test("An edit made during a rejected request sends the operation again at once")
    func anEditDuringTheRejectedPushReleasesTheOperationAtOnce() async throws {
        let device = try await device()
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a", text: "bad"))
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { $0.text = "better" }
                return .status(400)
            },
            .json(201, serverRow("a", 1, text: "better"))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == ["POST", "POST"])
        #expect(try await device.rows() == [localRow("a", 1, text: "better")])
    }

    @Test("Deleting a row whose insert was rejected removes the operation")
    func aRejectedInsertThatIsDeletedIsRemoved() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.status(400))
        _ = try await device.push()
        try await device.todos().delete(id: "a")
        #expect(try await device.queue() == [])
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 1)
    }

    @Test("An insert into a missing table is parked under every policy")
    func aMissingTableParksAnInsertUnderEveryPolicy() async throws {
        for policy in [ConflictPolicy.fail, .serverWins, .clientWins] {
            let answer = #"{"error":"The table does not exist.","code":"noSuchTable"}"#
            let transport = ScriptedTransport([.json(404, answer)])
            let device = try await Device(transport, conflicts: policy)
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            #expect(try await device.push()?.status == .operationErrors)
            #expect(try await device.todos().read(id: "a")?.text == "mine")
        }
    }

    @Test("A gateway's 404 does not park an insert")
    func aGateways404DoesNotParkAnInsert() async throws {
        let answer = #"{"statusCode":404,"message":"Resource not found"}"#
        let transport = ScriptedTransport(Array(repeating: .json(404, answer), count: 20))
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.context.operationErrors().isEmpty)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("A 404 for a missing table discards no local change", arguments: [true, false])
    func aMissingTableDeletesNothing(isDelete: Bool) async throws {
        let transport = ScriptedTransport([
            .json(201, #"{"id":"a","text":"mine","complete":false,"version":"v1"}"#),
            .json(404, #"{"error":"The table does not exist.","code":"noSuchTable"}"#),
        ])
        let device = try await Device(transport, conflicts: .serverWins)
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a", text: "mine"))
        #expect(try await device.push() == nil)
        if isDelete {
            try await todos.delete(id: "a")
        } else {
            try await todos.update(id: "a") { $0.text = "edited" }
        }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(try await device.queue().count == 1)
        #expect(try await todos.read(id: "a")?.text == (isDelete ? nil : "edited"))
    }

    @Test("A wrong path of the endpoint ends the push and parks nothing")
    func aWrongPathStopsThePush() async throws {
        let answer = #"{"error":"This path does not exist.","code":"noSuchPath"}"#
        let transport = ScriptedTransport(Array(repeating: .json(404, answer), count: 10))
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.context.operationErrors().isEmpty)
        #expect(try await device.queue().count == 1)
    }

    /// The three actions, on a new client over the same file.
    enum Action: CaseIterable {
        case discard
        case update
        case updateRecord
        case retry
        case retryRecord
    }

    @Test("The actions of an error work after a restart", arguments: Action.allCases)
    func actionsWorkAfterARestart(action: Action) async throws {
        try await withTemporaryFile { path in
            try await parkConflict(path)
            let device = try await Device(transport, store: SQLiteStore(path: path))
            let errors = try await device.context.operationErrors()
            let error = try #require(errors.first)
            #expect(errors.count == 1)
            #expect(error.statusCode == 412)
            #expect(error.item?["text"] == "mine")
            #expect(error.serverItem?["text"] == "theirs")
            #expect(error.serverItem?.version == "v2")
            switch action {
            case .discard:
                try await error.cancelOperationAndDiscardItem()
                #expect(try await device.rows() == [localRow("a", 2, text: "theirs")])
            case .update:
                try await error.cancelOperationAndUpdateItem(["id": "a", "text": "both"])
                #expect(try await device.rows() == [localRow("a", 2, text: "both")])
            case .updateRecord:
                try await error.cancelOperationAndUpdateItem(Todo(id: "a", text: "both"))
                #expect(try await device.rows() == [localRow("a", 2, text: "both")])
            case .retry:
                try await error.updateOperationAndRetry(with: ["id": "a", "text": "both"])
            case .retryRecord:
                try await error.updateOperationAndRetry(with: Todo(id: "a", text: "both"))
            }
            #expect(try await device.context.operationErrors().isEmpty)
            let isRetry = action == .retry || action == .retryRecord
            #expect(try await device.queue() == (isRetry ? ["update a"] : []))
            if isRetry { transport.add(.json(200, serverRow("a", 3, text: "both"))) }
            #expect(try await device.push() == nil)
            guard isRetry else { return }
            #expect(transport.sent.last?.ifMatch == "\"v2\"")
            #expect(transport.sent.last?.body?.contains("both") == true)
            #expect(try await device.rows() == [localRow("a", 3, text: "both")])
        }
    }

    private func parkConflict(_ path: String) async throws {
        let device = try await Device(transport, store: SQLiteStore(path: path))
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.json(412, serverRow("a", 2, text: "theirs")))
        #expect(try await device.push()?.status == .operationErrors)
    }

    @Test("Discarding an insert that the server rejected deletes the local row")
    func discardingWithoutAServerRowDeletesTheLocalOne() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.status(400))
        let error = try #require(try await device.push()?.errors.first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.rows() == [])
        #expect(try await device.queue() == [])
    }

    @Test("Discarding a delete restores the row")
    func discardingADeleteRestoresTheRow() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        transport.add(.status(403))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.item == nil)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.rows() == [localRow("a", 1)])
    }

    /// Pulls between the delete and the insert could not store whether the server still has the row.
    @Test("The table is pulled from the start after a replaced row is discarded")
    func discardingAReplacedRowReadsTheTableAgain() async throws {
        let device = try await device()
        transport.add(page([serverRow("a", 1, text: "server", rank: nil)]), page([]), page([]))
        for _ in 0..<2 { try await device.todos().pull(queryID: "all") }
        #expect(transport.sent.last?.query.contains("updatedAt ge") == true)
        try await device.todos().delete(id: "a")
        try await device.todos().insert(Todo(id: "a", text: "again"))
        transport.add(.status(403))
        let error = try #require(try await device.push()?.errors.first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.rows() == [localRow("a", 1)])
        transport.add(page([]))
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.last?.query.contains("updatedAt ge") == false)
        #expect(try await device.rows() == [])
    }

    @Test("An action of a resolved error reports that it is already resolved")
    func aResolvedErrorReportsThatItIsResolved() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "x"))
        transport.add(.status(400), .status(400))
        let old = try #require(try await device.push()?.errors.first)
        try await device.todos().update(id: "a") { $0.text = "y" }
        let stale = await #expect(throws: SyncError.self) {
            try await old.cancelOperationAndDiscardItem()
        }
        #expect(stale?.code == .notFound)
        #expect(stale?.message.contains("already resolved") == true)
        let new = try #require(try await device.push()?.errors.first)
        #expect(await code { try await old.updateOperationAndRetry(with: Row()) } == .notFound)
        try await new.cancelOperationAndDiscardItem()
        #expect(await code { try await new.cancelOperationAndDiscardItem() } == .notFound)
    }

    @Test("An app can create errors to test its error handling")
    func anErrorCanBeMadeForATest() async throws {
        let conflict = TableOperationError(
            table: "Todo",
            itemID: "a",
            kind: .update,
            statusCode: 412,
            message: "Another device changed it.",
            item: localRow("a", 1, text: "mine", rank: 1),
            serverItem: localRow("a", 2, text: "theirs", rank: 1)
        )
        let error = PushError(status: .operationErrors, errors: [conflict])
        #expect(error.errors.first?.differingColumns == ["text"])
        #expect(error.errors.first?.code == .conflict)
        #expect(error.description.contains("Another device changed it."))
        #expect(conflict.serverCopy == .row(localRow("a", 2, text: "theirs", rank: 1)))
        #expect(await code { try await conflict.cancelOperationAndDiscardItem() } == .notFound)
        #expect(await code { try await conflict.updateOperationAndRetry(with: Row()) } == .notFound)
    }
}
