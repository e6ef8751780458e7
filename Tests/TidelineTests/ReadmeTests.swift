// The README's app, compiled and run with an in-process server.

import Foundation
import Testing
import Tideline
import TidelineServerCore
import TidelineTestKit

// README begins
struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var updatedAt: Date?
}

@MainActor final class TodoList {
    let openItems: LiveQuery<TodoItem>
    let sync: LiveStatus
    private let todos: SyncTable<TodoItem>

    init(_ client: SyncClient) throws {
        todos = try client.syncTable(TodoItem.self)
        openItems = LiveQuery(todos, where: { !$0.complete }, sortedBy: [.ascending(\.text)])
        sync = try LiveStatus(client)
    }

    static func start(endpoint: URL, path: String) async throws -> TodoList {
        let client = try await SyncClient.open(
            endpoint: endpoint,
            store: try SQLiteStore(path: path),
            tables: [TodoItem.self],
            conflicts: .merge
        )
        try client.startSyncing()
        return try TodoList(client)
    }

    // These need no network.

    func add(_ text: String) async throws {
        try await todos.insert(TodoItem(text: text))
    }

    func complete(_ item: TodoItem) async throws {
        try await todos.update(id: item.id) { $0.complete = true }
    }

    func delete(_ item: TodoItem) async throws {
        try await todos.delete(id: item.id)
    }
}
// README ends

@Suite @MainActor struct ReadmeTests {
    @Test("The app of the README sends the changes that were made on the device")
    func theAppOfTheReadmeRuns() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "TodoItem",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                ]
            )
        ])
        let client = SyncClient(endpoint: server.endpoint, transport: server.transport)
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: ":memory:"),
            tables: [TodoItem.self]
        )
        let list = try TodoList(client)
        let todos = try client.syncTable(TodoItem.self)
        for text in ["Buy milk", "Call mum", "Water the plants"] { try await list.add(text) }
        let items = try await todos.read(sortedBy: [.ascending(\.text)])
        #expect(items.map(\.text) == ["Buy milk", "Call mum", "Water the plants"])
        try await list.complete(items[0])
        try await list.delete(items[1])
        try await client.syncContext.push()
        let remote = try await client.table(TodoItem.self).read()
        #expect(Set(remote.map(\.text)) == ["Buy milk", "Water the plants"])
        #expect(remote.filter { !$0.complete }.map(\.text) == ["Water the plants"])
    }
}
