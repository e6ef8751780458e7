// LocalChildAfterRestoreTests: local records whose parent no page of a restored server returned.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalChildAfterRestoreTests {
    private struct Draft: SyncRecord {
        static let isLocalOnly = true
        static let references = [Reference(\Draft.todoID, to: Todo.self, onDelete: .cascade)]
        var id = ""
        var todoID: String?
    }

    @Test(
        "Local records are deleted with a parent whose tombstone a lookup returns after a restore",
        arguments: [true, false]
    )
    func lookup(isDeleted: Bool) async throws {
        try await withRestorableServer { server in
            let device = try await Device(server, tables: [Todo.self, Draft.self])
            let drafts = try device.client.syncTable(Draft.self)
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            try await device.context.push()
            try await device.todos().pull(queryID: "open", where: { !$0.complete })
            try await drafts.insert(Draft(id: "d", todoID: "a"))
            try await server.restore(try server.backup())

            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            try await other.todos().update(id: "a") { $0.complete = true }
            try await other.context.push()
            if isDeleted {
                try await other.todos().delete(id: "a")
                try await other.context.push()
            }
            // Neither the row nor its tombstone matches the query.
            let result = try await device.todos().pull(queryID: "open", where: { !$0.complete })
            #expect(result.removed == 1 && result.lost == 0)
            #expect(try await device.todos().read().isEmpty)
            // A row that only left the query may still be on the server.
            #expect(try await drafts.read().map(\.id) == (isDeleted ? [] : ["d"]))
        }
    }
}
