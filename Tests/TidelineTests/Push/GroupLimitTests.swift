// Transactions that exceed the limits of a server's requests or answers, and servers that accepted batches before.

import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct GroupLimitTests {
    private typealias Scene = GroupScene

    @Test("A transaction whose responses exceed the server's limit is parked and blocks nothing")
    func aGroupWithTooLargeAnswersIsParked() async throws {
        var limits = SyncLimits()
        limits.batchRowsFirst = 3
        let scene = try await Scene(limits: limits)
        let tooLarge = ["1", "2", "3"].map {
            #"{"id":"\#($0)","status":503,"body":{"code":"batchAnswersTooLarge"}}"#
        }
        let answer = "{\"responses\":[\(tooLarge.joined(separator: ","))]}"
        for _ in 0..<limits.attemptsMax { scene.tap.add(.say(answer) {}) }
        try await scene.change("a", "b")
        try await scene.device.todos().insert(Todo(id: "z", text: "alone"))
        let error = try #require(try await scene.device.push())
        #expect(error.status == .operationErrors)
        #expect(error.completed == 1)
        #expect(error.errors.map(\.itemID) == ["a", "b", "n"])
        #expect(error.errors.map(\.statusCode) == [503, 503, 503])
        for error in error.errors {
            #expect(error.message.contains("limits.batchAnswerBytes"))
            #expect(error.message.contains("row '\(error.itemID)'"))
        }
        #expect(try await scene.serverContents() == ["a first", "b first", "z alone"])
        // Pulls continue, and another push does not send it.
        try await scene.device.todos().pull(queryID: "all")
        #expect(scene.tap.bodies.count == limits.attemptsMax)

        let waiting = try #require(try await scene.device.context.operationErrors().first)
        try await waiting.updateOperationAndRetry(with: try #require(waiting.item))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["a mine", "b mine", "z alone", "note n mine"])
    }

    @Test("A batch without space for any response shrinks until the transaction is alone")
    func aGroupWithTooLargeAnswersIsSentAlone() async throws {
        let scene = try await Scene()
        let tooLarge = (1...4).map {
            #"{"id":"\#($0)","status":503,"body":{"code":"batchAnswersTooLarge"}}"#
        }
        let answer = "{\"responses\":[\(tooLarge.joined(separator: ","))]}"
        for _ in 0..<20 { scene.tap.add(.say(answer) {}) }
        try await scene.change("a", "b")
        try await scene.device.todos().insert(Todo(id: "z", text: "alone"))
        for _ in 0..<3 { _ = try await scene.device.push() }
        #expect(try await scene.device.push()?.errors.map(\.statusCode) == [503, 503, 503])
        #expect(try await scene.serverContents() == ["a first", "b first", "z alone"])
    }

    @Test(
        "A gateway's error after a restart does not split a transaction",
        arguments: [404, 405, 501]
    )
    func thatAServerAcceptsBatchesIsStored(status: Int) async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            try await scene.change("a", note: "m")
            #expect(try await scene.device.push() == nil)
            let tap = BatchTap(scene.server.transport)
            for _ in 0..<20 { tap.add(.answer(status)) }
            let again = try await Device(tap, store: SQLiteStore(path: path))
            try await again.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                for id in ["a", "b"] { try todos.update(id: id) { $0.text = "again" } }
            }
            #expect(try await again.push()?.status == .networkFailure)
            #expect(tap.singles.isEmpty)
            #expect(try await scene.serverContents() == ["a mine", "b first", "note m mine"])
        }
    }

    @Test("A transaction with too many bytes throws an error and changes nothing")
    func aTransactionOfTooManyBytesIsRejected() async throws {
        let scene = try await Scene()
        let text = String(repeating: "x", count: 900_000)
        let error = await #expect(throws: SyncError.self) {
            try await scene.device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                for number in 0..<8 { try todos.insert(Todo(id: "t\(number)", text: text)) }
            }
        }
        #expect(error?.code == .transactionTooLarge)
        #expect(error?.message.contains("SyncLimits.transactionBytesMax") == true)
        #expect(try await scene.device.queue() == [])
        #expect(try await scene.device.todos().read().count == 2)
        // Arrays are not groups.
        try await scene.device.todos().insert((0..<8).map { Todo(id: "t\($0)", text: text) })
        #expect(try await scene.device.push() == nil)
    }

    @Test(
        "Unsent operations that a transaction edits count toward its limit, and remain if it fails",
        arguments: [2, 3]
    )
    func unsentOperationsCount(rows: Int) async throws {
        var limits = SyncLimits()
        limits.transactionRowsMax = 2
        let scene = try await Scene(rows: [], limits: limits)
        try await scene.device.todos().insert((0..<rows).map { Todo(id: "t\($0)") })
        let tooLarge = await code {
            try await scene.device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                _ = try todos.update(Query()) { $0.text = "changed" }
                if rows == 2 { try todos.insert(Todo(id: "n")) }
            }
        }
        #expect(tooLarge == .transactionTooLarge)
        let operations = try await scene.device.context.pendingOperations()
        #expect(operations.map(\.itemID) == (0..<rows).map { "t\($0)" })
        #expect(operations.allSatisfy { $0.groupID == nil })
        #expect(try await scene.device.push() == nil)
    }

    @Test(
        "Rejected operations that a transaction does not change leave its group if it is too large"
    )
    func rejectedOperationsStayApart() async throws {
        var limits = SyncLimits()
        limits.transactionRowsMax = 3
        let scene = try await Scene(rows: ["a", "b", "c"], limits: limits)
        try await scene.interfere("a")
        try await scene.set("a", "b", "c", to: "mine")
        #expect(try await scene.device.push()?.errors.count == 3)
        try await scene.device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            try todos.update(id: "a") { $0.rank = 1 }
            try todos.insert([Todo(id: "x"), Todo(id: "y")])
        }
        #expect(try await scene.device.groups() == [["a", "x", "y"], ["b", "c"]])
        #expect(try await scene.device.push()?.errors.map(\.itemID) == ["a", "x", "y"])
        #expect(try await scene.serverContents() == ["a theirs", "b mine", "c mine"])
    }

    @Test(
        "The size of a transaction equals the size of its request to the byte",
        arguments: ["plain", "\u{1}\"\\ä😀", ""]
    )
    func theSizeOfATransactionIsTheSizeOfItsBatch(text: String) async throws {
        let measured = try await Scene()
        try await measured.change("a", "b", text: text)
        #expect(try await measured.device.push() == nil)
        let size = try #require(measured.tap.bodies.first).utf8.count
        for (max, isTaken) in [(size, true), (size - 1, false)] {
            var limits = SyncLimits()
            limits.transactionBytesMax = max
            let scene = try await Scene(limits: limits)
            let code = await code { try await scene.change("a", "b", text: text) }
            #expect(code == (isTaken ? nil : .transactionTooLarge))
            #expect(try await scene.device.push() == nil)
        }
    }

    @Test("The error of a 413 response names the server's limit")
    func theErrorNamesAServerWithALowerLimit() async throws {
        let scene = try await Scene([.answer(413), .answer(413)])
        try await scene.change("a", "b")
        for _ in 0..<2 {
            let error = try #require(try await scene.device.push()?.errors.first)
            #expect(error.statusCode == 413)
            #expect(error.message.contains("A retry resends the same transaction"))
            #expect(error.message.contains("limits.batchBytes"))
            try await error.updateOperationAndRetry(with: try #require(error.item))
        }
        #expect(try await scene.device.push() == nil)
    }
}
