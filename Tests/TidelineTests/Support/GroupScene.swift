// GroupScene: a device that sends transactions, its server, and another device that writes to the server.

import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

struct GroupScene {
    let server: InProcessServer
    let tap: BatchTap
    let device: Device
    let other: Device

    init(
        _ fates: [BatchTap.Fate] = [],
        rows: [String] = ["a", "b"],
        conflicts: ConflictPolicy = .fail,
        limits: SyncLimits = SyncLimits(),
        store: any LocalStore = MemoryStore()
    ) async throws {
        server = try await makeServer()
        tap = BatchTap(server.transport, fates)
        device = try await Device(tap, store: store, conflicts: conflicts, limits: limits)
        other = try await Device(server.transport)
        let table = other.client.table(Todo.self)
        for id in rows { try await table.insert(Todo(id: id, text: "first")) }
        try await device.todos().pull(queryID: "all")
    }

    /// Changes the rows in one transaction, and adds a note.
    func change(_ ids: String..., text: String = "mine", note: String = "n") async throws {
        try await device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            for id in ids { try todos.update(id: id) { $0.text = text } }
            try transaction.table(Note.self).insert(Note(id: note, body: text))
        }
    }

    /// Changes the rows in one transaction.
    func set(_ ids: String..., to text: String) async throws {
        try await device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            for id in ids { try todos.update(id: id) { $0.text = text } }
        }
    }

    /// Changes a row on the server from the other device.
    func interfere(_ id: String, text: String = "theirs") async throws {
        let table = other.client.table(Todo.self)
        let row = try #require(try await table.read(id: id))
        var changed = row
        changed.text = text
        try await table.update(changed)
    }

    /// Returns the contents of the server: the texts of its todos by id, and its notes.
    func serverContents() async throws -> [String] {
        let todos = try await other.client.table(Todo.self).read(sortedBy: [.ascending(\.id)])
        let notes = try await other.client.table(Note.self).read(sortedBy: [.ascending(\.id)])
        return todos.map { "\($0.id) \($0.text)" } + notes.map { "note \($0.id) \($0.body)" }
    }
}

extension Device {
    /// Returns the ids of the rows of each group in the queue, in the order of their first ids.
    func groups() async throws -> [[String]] {
        let operations = try await context.pendingOperations()
        return Dictionary(grouping: operations, by: \.groupID).values
            .map { $0.map(\.itemID) }
            .sorted { $0.lexicographicallyPrecedes($1) }
    }
}
