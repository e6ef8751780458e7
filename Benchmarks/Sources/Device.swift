// Device: a client with a store file, like that of an app.

import Foundation
import Tideline

struct TodoItem: SyncRecord {
    var id = ""
    var text: String
    var complete = false
    var updatedAt: Date?

    static func numbered(_ number: Int) -> TodoItem {
        TodoItem(
            text: "item \(number) abcdefghijklmnopqrstuvwxyz",
            complete: number % 2 == 0
        )
    }
}

/// The table of `TodoItem`, with half of its columns.
struct HalfItem: SyncRecord {
    static let tableName = "TodoItem"

    var id = ""
    var text: String
}

/// The table of `TodoItem`, without the time of its last change.
struct UntimedItem: SyncRecord {
    static let tableName = "TodoItem"

    var id = ""
    var text: String
    var complete = false
}

struct Device {
    let client: SyncClient
    let todos: SyncTable<TodoItem>
    let store: SQLiteStore
    let path: String

    /// Opens a new store in the directory; local work does not need the server.
    static func open(
        in directory: String,
        server: String = "http://127.0.0.1:9",
        transport: (any Transport)? = nil,
        limits: SyncLimits = SyncLimits()
    ) async throws -> Device {
        try await open(
            at: "\(directory)/\(UUID().uuidString).sqlite",
            server: server,
            transport: transport,
            limits: limits
        )
    }

    /// Opens the store at a path.
    static func open(
        at path: String,
        server: String = "http://127.0.0.1:9",
        transport: (any Transport)? = nil,
        limits: SyncLimits = SyncLimits()
    ) async throws -> Device {
        guard let endpoint = URL(string: server) else { throw URLError(.badURL) }
        let client = SyncClient(
            endpoint: endpoint,
            generation: transport is CannedTable ? .datasync : .automatic,
            transport: transport,
            limits: limits
        )
        let store = try SQLiteStore(path: path)
        try await client.syncContext.initialize(store: store, tables: [TodoItem.self])
        let todos = try client.syncTable(TodoItem.self)
        return Device(client: client, todos: todos, store: store, path: path)
    }

    /// Opens a client with other models on a new store.
    static func client(
        in directory: String,
        _ models: [any SyncRecord.Type],
        _ rows: CannedTable?
    ) async throws -> (client: SyncClient, store: SQLiteStore, path: String) {
        guard let endpoint = URL(string: "http://127.0.0.1:9") else { throw URLError(.badURL) }
        let path = "\(directory)/\(UUID().uuidString).sqlite"
        let client = SyncClient(endpoint: endpoint, generation: .datasync, transport: rows)
        let store = try SQLiteStore(path: path)
        try await client.syncContext.initialize(store: store, tables: models)
        return (client, store, path)
    }

    /// Returns a device with this number of rows from a server.
    static func filled(_ rows: Int, in directory: String) async throws -> Device {
        let device = try await open(in: directory, transport: CannedTable(rows: rows, .v7))
        try await device.todos.pull(queryID: "all")
        return device
    }

    /// Removes the store and its files.
    func remove() async throws { try await Self.remove(store, path) }

    static func remove(_ store: SQLiteStore, _ path: String) async throws {
        try await store.close()
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
        }
    }
}
