// A new version of an app with another model opens the file of the old version, while other devices use the old one.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// ``Todo`` in a later version: one column has another type, and one column is removed.
private struct LaterTodo: SyncRecord {
    static let tableName = "Todo"
    var id = ""
    var text = ""
    var rank: String?
}

@Suite struct ChangedModelTests {
    @Test("Rows, queue, errors and cursors survive a change of the model")
    func rowsQueueErrorsAndCursorsOutliveAChangeOfTheModel() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let other = try await Device(server.transport)
            let remote = other.client.table(Todo.self)
            for id in ["a", "b"] {
                try await remote.insert(Todo(id: id, text: "first", complete: true))
            }
            let former = try await Device(server.transport, store: SQLiteStore(path: path))
            try await former.todos().pull(queryID: "all")
            try await remote.update(id: "a") { $0.text = "theirs" }
            try await former.todos().update(id: "a") { $0.text = "mine" }
            #expect(try await former.push()?.errors.map(\.itemID) == ["a"])
            try await former.todos().insert(Todo(id: "c", text: "new"))
            try await former.store.close()

            let device = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [LaterTodo.self]
            )
            let todos = try device.client.syncTable(LaterTodo.self)
            #expect(try await device.queue().count == 2)
            #expect(try await todos.read(id: "b")?.text == "first")
            let error = try #require(try await device.context.operationErrors().first)
            #expect(error.itemID == "a" && error.serverItem?["text"] == "theirs")
            // Columns that the model no longer names stay on the server.
            try await todos.update(id: "b") { $0.text = "later" }
            try await error.updateOperationAndRetry(with: ["text": "mine"])
            #expect(try await device.push() == nil)
            #expect(try await todos.pull(queryID: "all").requests <= 2)
            let rows = try await remote.read(sortedBy: [.ascending(\.id)])
            #expect(rows.map(\.text) == ["mine", "later", "new"])
            #expect(rows.map(\.complete) == [true, true, false])

            // An app of the old version continues with the same account.
            try await other.todos().pull(queryID: nil)
            try await other.todos().update(id: "b") { $0.complete = false }
            #expect(try await other.push() == nil)
            try await todos.pull(queryID: "all")
            #expect(try await todos.read(id: "b")?.text == "later")
        }
    }
}
