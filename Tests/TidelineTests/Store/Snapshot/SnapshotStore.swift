// SnapshotStore: the example store of an article (WritingAStore.md), which the conformance suite checks.

import Foundation
import Synchronization
import Tideline

// README begins
final class SnapshotStore: LocalStore {
    private struct State {
        var tables: [String: StoredTable] = [:]
        /// The rows in the file whose tables were not opened yet.
        var saved: [String: [[String: SavedValue]]]
        var listeners: [UUID: AsyncStream<Set<String>>.Continuation] = [:]
    }

    private let file: URL
    private let state: Mutex<State>

    init(file: URL) throws {
        self.file = file
        var saved: [String: [[String: SavedValue]]] = [:]
        if FileManager.default.fileExists(atPath: file.path) {
            let data = try Data(contentsOf: file)
            saved = try PropertyListDecoder().decode(
                [String: [[String: SavedValue]]].self,
                from: data
            )
        }
        state = Mutex(State(saved: saved))
    }

    func open(tables schemas: [TableSchema]) async throws {
        try state.withLock { state in
            for schema in schemas {
                var table = StoredTable(schema: schema)
                var rows = state.tables[schema.name].map { Array($0.rows.values) } ?? []
                for members in state.saved.removeValue(forKey: schema.name) ?? [] {
                    rows.append(Row(try members.mapValues { try $0.value() }))
                }
                for row in rows { table.rows[row["id"] ?? .null] = table.filled(row) }
                state.tables[schema.name] = table
            }
        }
    }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try body(SnapshotTransaction(state.withLock { $0.tables }))
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        try state.withLock { state in
            let transaction = SnapshotTransaction(state.tables)
            let result = try body(transaction)
            guard !transaction.changed.isEmpty else { return result }
            try save(transaction.tables, and: state.saved)
            state.tables = transaction.tables
            for listener in state.listeners.values { listener.yield(transaction.changed) }
            return result
        }
    }

    /// The names of changed tables; none is dropped if a listener is slow.
    func changes() -> AsyncStream<Set<String>> {
        AsyncStream { continuation in
            let id = UUID()
            state.withLock { $0.listeners[id] = continuation }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: id) }
            }
        }
    }

    /// The new file is on the disk before it takes the name of the old one.
    private func save(
        _ tables: [String: StoredTable],
        and rest: [String: [[String: SavedValue]]]
    ) throws {
        var all = rest
        for (name, table) in tables {
            all[name] = table.rows.values.map { row in
                var members: [String: SavedValue] = [:]
                for (name, value) in row { members[name] = SavedValue(value) }
                return members
            }
        }
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        let next = file.appendingPathExtension("next")
        try encoder.encode(all).write(to: next)
        for place in [next, file.deletingLastPathComponent()] {
            if place != next, rename(next.path, file.path) != 0 {
                throw SyncError(.storeFailure, "\(file.path) cannot be replaced.")
            }
            let handle = try FileHandle(forReadingFrom: place)
            try handle.synchronize()
            try handle.close()
        }
    }
}
// README ends
