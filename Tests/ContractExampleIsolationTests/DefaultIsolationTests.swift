// DefaultIsolationTests: the example code under `-default-isolation MainActor`, with the settings of a
// plain Swift 6 package. All code here is on the main actor unless it is `nonisolated`.

import Foundation
import Testing
import Tideline
import TidelineServerCore
import TidelineTestKit

struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var updatedAt: Date?
}

/// A value of a record, which is `nonisolated` because the record is `Hashable`.
nonisolated struct Place: Codable, Hashable {
    var street = ""
}

struct Customer: SyncRecord, Hashable {
    var id = UUID().uuidString.lowercased()
    var address = Place()
}

final class Screen {
    var search = "milk"
    var shown: [TodoItem] = []
}

@Suite(.timeLimit(.minutes(10))) struct DefaultIsolationTests {
    @Test("The example runs in a module with main actor isolation by default")
    func theExampleRuns() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "TodoItem",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                ]
            )
        ])
        let screen = Screen()
        let client = SyncClient(endpoint: server.endpoint, transport: server.transport)
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: ":memory:"),
            tables: [TodoItem.self]
        )

        let todos = try client.syncTable(TodoItem.self)
        let milk = try await todos.insert(TodoItem(text: "Buy milk"))
        let open = try await todos.read(
            where: { !$0.complete && $0.text.contains("milk") },
            sortedBy: [SortDescriptor(\.text)]
        )
        let same = try await todos.read(
            where: #Predicate { !$0.complete && $0.text.contains("milk") }
        )
        let captured = try await todos.read(where: { $0.text.contains(screen.search) })
        let odata = try await todos.read(Query(odata: "$filter=complete eq false&$orderby=text"))
        #expect(
            [open, same, captured, odata.items].map { $0.map(\.id) }
                == Array(
                    repeating: [milk.id],
                    count: 4
                )
        )

        for try await items in todos.observe(where: { !$0.complete }) {
            screen.shown = items
            if items.count == 2 { break }
            try await todos.insert(TodoItem(text: "Buy bread"))
        }
        #expect(screen.shown.count == 2)
        try await todos.update(id: milk.id) { $0.text += screen.search }

        try await client.syncContext.push()
        try await todos.pull(queryID: "openItems", where: { !$0.complete })
        try await todos.pull(queryID: nil)
        try await todos.purge()

        let remote = client.table(TodoItem.self)
        let there = try await remote.read(where: { $0.text.contains(screen.search) })
        #expect(there.map(\.text) == ["Buy milkmilk"])
    }
}
