// The program of the README, compiled and run against a server in process.

import Foundation
import Testing
import Tideline
import TidelineServerCore
import TidelineTestKit

private struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var updatedAt: Date?
}

@Suite struct ReadmeTests {
    @Test func theProgramOfTheReadmeRuns() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "TodoItem",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                ]
            )
        ])
        let client = SyncClient(endpoint: server.endpoint, transport: server.transport)
        let path = NSTemporaryDirectory() + "readme-\(UUID().uuidString).sqlite"
        defer { try? FileManager.default.removeItem(atPath: path) }
        // README begins
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: path),
            tables: [TodoItem.self]
        )
        let todos = try client.syncTable(TodoItem.self)

        // No network needed:
        let milk = try await todos.insert(TodoItem(text: "Buy milk"))
        try await todos.update(id: milk.id) { $0.text = "Buy oat milk" }
        let open = try await todos.read(
            where: { !$0.complete && $0.text.contains("milk") },
            sortedBy: [.ascending(\.text)]
        )

        // When there is one:
        try await client.syncContext.push()
        try await todos.pull(queryID: "openItems", where: { !$0.complete })
        // README ends
        #expect(open.map(\.text) == ["Buy oat milk"])
        let remote = try await client.table(TodoItem.self).read()
        #expect(remote.map(\.text) == ["Buy oat milk"])
    }
}
