// MemoryStore: a local store in memory, which also serves as the disk of some simulated devices.

import Synchronization
public import Tideline
public import TidelineCore

/// A local store in memory.
///
/// The store meets every requirement of ``LocalStore``, except that its content is lost when the
/// process ends. A transaction works on a copy, which becomes the new state when the transaction is
/// committed.
public final class MemoryStore: LocalStore {
    private struct Table: Sendable {
        var schema: TableSchema
        var rows: [MemoryKey: Row] = [:]

        /// Returns the row with null in each missing column.
        func filled(_ row: Row) -> Row {
            var whole = row
            for column in schema.systemColumns + schema.columns where whole[column.name] == nil {
                if schema.hasSystemColumns, column.name == SystemColumn.deleted { continue }
                whole[column.name] = .null
            }
            return whole
        }
    }

    private struct State: Sendable {
        var tables: [String: Table] = [:]
        var listeners: [Int: AsyncStream<Set<String>>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    /// Creates an empty store.
    public init() {}

    /// Creates missing tables.
    public func open(tables: [TableSchema]) async throws {
        state.withLock { state in
            for schema in tables {
                var table = state.tables[schema.name] ?? Table(schema: schema)
                table.schema = schema
                table.rows = table.rows.mapValues(table.filled)
                state.tables[schema.name] = table
            }
        }
    }

    /// Runs `body` on the current state.
    public func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try body(Transaction(state.withLock { $0.tables }))
    }

    /// Runs `body` on a copy of the state; if `body` returns, the copy replaces the state.
    public func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let (result, changed, listeners) = try state.withLock { state in
            let transaction = Transaction(state.tables)
            let result = try body(transaction)
            state.tables = transaction.tables
            return (result, transaction.changed, Array(state.listeners.values))
        }
        if !changed.isEmpty {
            for listener in listeners { listener.join(changed) }
        }
        return result
    }

    /// Returns a stream with the tables that each transaction changed.
    public func changes() -> AsyncStream<Set<String>> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let id = state.withLock { state in
                state.next += 1
                state.listeners[state.next] = continuation
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: id) }
            }
        }
    }

    /// A transaction, which is used by a single call.
    private final class Transaction: LocalStoreWriter {
        var tables: [String: Table]
        var changed: Set<String> = []

        init(_ tables: [String: Table]) { self.tables = tables }

        private func table(_ name: String) throws -> Table {
            guard let table = tables[name] else {
                throw SyncError.unknownTable(name, known: Array(tables.keys))
            }
            return table
        }

        func rows(_ query: TableQuery, in table: String) throws -> [Row] {
            let table = try self.table(table)
            var checked = try query.checked(for: table.schema)
            if table.schema.hasSystemColumns { checked.includesDeleted = true }
            return checked.apply(to: Array(table.rows.values)).rows
        }

        func row(id: Value, in table: String) throws -> Row? {
            try self.table(table).rows[MemoryKey(id)]
        }

        func count(_ filter: Filter?, in table: String) throws -> Int {
            try rows(TableQuery(filter: filter), in: table).count
        }

        func put(_ rows: [Row], in table: String) throws {
            let known = try self.table(table)
            for row in rows {
                tables[table]?.rows[MemoryKey(row["id"] ?? .null)] = known.filled(row)
            }
            if !rows.isEmpty { changed.insert(table) }
        }

        func delete(ids: [Value], in table: String) throws -> Int {
            _ = try self.table(table)
            var count = 0
            for id in ids where tables[table]?.rows.removeValue(forKey: MemoryKey(id)) != nil {
                count += 1
            }
            if count > 0 { changed.insert(table) }
            return count
        }
    }
}

/// The key of a row; strings are equal if their bytes are equal, as in `Value`.
private struct MemoryKey: Hashable, Sendable {
    private let value: Value

    init(_ value: Value) { self.value = value }
}
