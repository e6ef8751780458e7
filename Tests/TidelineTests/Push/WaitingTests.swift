// Operations that wait for the app without a stored error, or whose table cannot be opened: each is reported, and each
// can be dropped by its number.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestSupport

@Suite struct WaitingTests {
    private static func change(_ path: String, _ sql: String) throws {
        try Database(path: path).execute(sql)
    }

    /// An operation without a row id or a table name, or with a table that the store does not have.
    @Test(
        "An operation without a row or table is reported and can be discarded",
        arguments: [
            "itemId = NULL", "\"table\" = NULL", "itemId = NULL, \"table\" = NULL",
            "\"table\" = 'Gone'", "\"table\" = 'Gone', kind = 9",
            "\"table\" = 'Gone', itemId = NULL",
        ]
    )
    func anOperationWithoutARowOrTableCanBeDropped(damage: String) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.json(201, serverRow("b", 1)), page([])])
            var device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try await device.todos().insert(Todo(id: "b"))
            try Self.change(path, "UPDATE MS_TableOperations SET \(damage) WHERE id = 1")
            let pushed = try #require(try await device.push())
            #expect(pushed.status == .operationErrors)
            #expect(pushed.completed == 1)
            #expect(pushed.errors.count == 1)
            #expect(pushed.description.contains("1 operation(s) cannot be sent"))
            try await device.todos().pull(queryID: nil, where: { $0.rank == 7 })
            // After a restart it is still reported.
            device = try await Device(transport, store: SQLiteStore(path: path))
            let error = try #require(try await device.context.operationErrors().first)
            #expect(!error.canRetry)
            #expect(error.id == pushed.errors.first?.id)
            #expect(error.message.contains("Operation 1,"))
            #expect(error.message.contains("cancelOperationAndDiscardItem()"))
            await #expect(throws: SyncError.self) {
                try await error.updateOperationAndRetry(with: Todo(id: "a"))
            }
            await #expect(throws: SyncError.self) {
                try await error.cancelOperationAndUpdateItem(Todo(id: "a"))
            }
            #expect(try await device.context.pendingOperationCount == 1)
            try await error.cancelOperationAndDiscardItem()
            #expect(try await device.queue().isEmpty)
            #expect(try await device.push() == nil)
            #expect(await code { try await error.cancelOperationAndDiscardItem() } == .notFound)
            #expect(try await device.rows().map(\.id) == ["a", "b"])
            #expect(transport.sent.filter { $0.method != "GET" }.count == 1)
        }
    }

    /// The store assigns ids from 1: another program wrote an operation with a lower id.
    @Test(
        "An operation with an ID below 1 is reported and can be discarded",
        arguments: [0, -5, Int64.min + 1]
    )
    func anOperationWithALowIDIsReported(id: Int64) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.json(201, serverRow("b", 1))])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try await device.todos().insert(Todo(id: "b"))
            try Self.change(path, "UPDATE MS_TableOperations SET id = \(id) WHERE id = 1")
            let pushed = try #require(try await device.push())
            #expect(pushed.completed == 1)
            let error = try #require(pushed.errors.first)
            #expect(error.itemID == "a" && !error.canRetry)
            #expect(error.message.contains("Operation \(id),"))
            #expect(error.message.contains("column 'id'"))
            try await error.cancelOperationAndDiscardItem()
            #expect(try await device.queue().isEmpty)
            #expect(try await device.push() == nil)
        }
    }

    @Test("Operations of an undeclared table are reported, and sent once it is declared")
    func operationsOfAnUnnamedTableStayVisible() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let both = try await Device(transport, store: SQLiteStore(path: path))
            try await both.client.syncTable(Note.self).insert(Note(id: "n", body: "kept"))
            let one = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Todo.self]
            )
            for _ in 1...2 {
                let error = try #require(try await one.push()?.errors.first)
                #expect(error.table == "Note" && error.itemID == "n" && error.kind == .insert)
                #expect(error.message.contains("'tables:'"))
                #expect(!error.message.contains("kept"))
            }
            #expect(transport.sent.isEmpty)
            #expect(try await one.queue() == ["insert n"])
            let again = try await Device(transport, store: SQLiteStore(path: path))
            #expect(try await again.context.operationErrors().isEmpty)
            transport.add(.json(201, #"{"id":"n","body":"kept","version":"v1"}"#))
            #expect(try await again.push() == nil)
        }
    }

    @Test("An operation that follows a discarded one of its row is sent with If-Match")
    func anOperationAfterADroppedOneIsAtMostAConflict() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.lost])
            let both = try await Device(transport, store: SQLiteStore(path: path))
            let notes = try both.client.syncTable(Note.self)
            try await notes.insert(Note(id: "n", body: "one"))
            #expect(try await both.push()?.status == .networkFailure)
            try await notes.delete(id: "n")
            let one = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Todo.self]
            )
            let errors = try #require(try await one.push()?.errors)
            #expect(errors.map(\.kind) == [.insert, .delete])
            try await errors[0].cancelOperationAndDiscardItem()
            #expect(try await one.queue() == ["delete n"])
            let again = try await Device(transport, store: SQLiteStore(path: path))
            transport.add(.status(204))
            #expect(try await again.push() == nil)
            #expect(transport.sent.last?.description == #"DELETE /tables/Note/n "" -"#)
        }
    }

    @Test(
        "A parked operation whose stored error is missing is still reported",
        arguments: ["discard", "update", "retry", "edit"]
    )
    func aParkedOperationWithoutItsErrorIsReported(action: String) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.json(412, serverRow("a", 2, text: "theirs"))])
            var device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            #expect(try await device.push()?.status == .operationErrors)
            try Self.change(path, "DELETE FROM MS_TableOperationErrors")
            device = try await Device(transport, store: SQLiteStore(path: path))
            let pushed = try #require(try await device.push())
            #expect(pushed.status == .operationErrors)
            let error = try #require(pushed.errors.first)
            #expect(error.canRetry)
            #expect(error.message.contains("Operation 1,"))
            #expect(error.message.contains("was rejected by the server"))
            #expect(error.item?["text"] == "mine")
            #expect(error.serverItem?["text"] == "theirs")
            #expect(transport.sent.count == 1)
            switch action {
            case "discard":
                try await error.cancelOperationAndDiscardItem()
                #expect(try await device.rows() == [localRow("a", 2, text: "theirs")])
            case "update":
                try await error.cancelOperationAndUpdateItem(Todo(id: "a", text: "both"))
                #expect(try await device.rows() == [localRow("a", 2, text: "both")])
            case "retry":
                try await error.updateOperationAndRetry(with: Todo(id: "a", text: "both"))
                transport.add(.json(200, serverRow("a", 3, text: "both")))
            default:
                try await device.todos().update(id: "a") { $0.text = "both" }
                transport.add(.json(200, serverRow("a", 3, text: "both")))
            }
            #expect(try await device.push() == nil)
            #expect(try await device.queue().isEmpty)
        }
    }

    @Test("An unreadable operation without its stored error still blocks later ones")
    func aDamagedOperationWithoutItsErrorStillBlocksLaterOnes() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try Self.change(path, "UPDATE MS_TableOperations SET base = '{' WHERE id = 1")
            #expect(try await device.push()?.status == .operationErrors)
            try await device.todos().update(id: "a") { $0.rank = 7 }
            try Self.change(path, "DELETE FROM MS_TableOperationErrors")
            let pushed = try #require(try await device.push())
            #expect(pushed.errors.map(\.itemID) == ["a"])
            #expect(pushed.errors.first?.message.contains("column 'base'") == true)
            #expect(transport.sent.isEmpty)
            #expect(try await device.queue() == ["update a parked", "update a"])
        }
    }
}
