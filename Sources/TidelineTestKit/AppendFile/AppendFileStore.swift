// AppendFileStore: a local store without SQL that uses an append-only file.
//
// Each line is a transaction with a checksum; the rows are in memory. The store is an example of a
// custom store. AppendFileRecord.swift defines the content of a line, and AppendFileLog.swift the
// file.

import Foundation
import Synchronization
public import Tideline

/// A local store in one append-only file, for a few thousand rows.
///
/// A transaction is a line that is on the disk before ``write(_:)`` returns. If the last line is
/// incomplete after a kill or a loss of power, opening the file removes the line. Any other damaged
/// line is an error. The file is rewritten when most of it is outdated. Only one process at a time
/// may use the file.
public final class AppendFileStore: LocalStore {
    private struct State: Sendable {
        var tables: [String: AppendFileTable]
        var log: AppendFileLog?
        var listeners: [Int: AsyncStream<Set<String>>.Continuation] = [:]
        var next = 0
    }

    private let state: Mutex<State>

    /// Opens the file, or creates one.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` if the file is damaged or is not such a
    ///   store; the file stays unchanged.
    public init(path: String) throws {
        var tables: [String: AppendFileTable] = [:]
        var changed = 0
        var log = try AppendFileLog(path: path) { record in
            for change in record.changes {
                changed += change.count
                try tables[change.table, default: AppendFileTable()].apply(change)
            }
        }
        let live = tables.values.reduce(0) { $0 + $1.rows.count }
        if changed > 1000 + 4 * live {
            try log.replace(
                by: AppendFileRecord(tables.map { .put(Array($1.rows.values), in: $0) })
            )
        }
        state = Mutex(State(tables: tables, log: log))
    }

    /// Creates missing tables.
    public func open(tables: [TableSchema]) async throws {
        state.withLock { state in
            for schema in tables {
                state.tables[schema.name, default: AppendFileTable()].open(schema)
            }
        }
    }

    /// Runs `body` on the current state.
    public func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        let tables = try state.withLock { state in
            guard state.log != nil else { throw Self.closed }
            return state.tables
        }
        return try body(AppendFileTransaction(tables))
    }

    /// Runs `body` on a copy of the state; the copy replaces the state when its line is on the
    /// disk.
    public func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let (result, changed, listeners) = try state.withLock { state in
            guard state.log != nil else { throw Self.closed }
            let transaction = AppendFileTransaction(state.tables)
            let result = try body(transaction)
            let record = AppendFileRecord(transaction.changes)
            if !record.changes.isEmpty { try state.log?.append(record) }
            state.tables = transaction.tables
            return (result, Set(record.changes.map(\.table)), Array(state.listeners.values))
        }
        if !changed.isEmpty {
            for listener in listeners { listener.yield(changed) }
        }
        return result
    }

    /// Returns a stream with the tables that each transaction changed; a slow listener misses
    /// nothing.
    public func changes() -> AsyncStream<Set<String>> {
        AsyncStream { continuation in
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

    /// Closes the file.
    public func close() async throws {
        state.withLock { $0.log = nil }
    }

    private static let closed = SyncError(.storeFailure, "The store is closed. Open it again.")
}

/// A table in memory.
struct AppendFileTable: Sendable {
    /// The schema; nil until the table is opened.
    var schema: TableSchema?
    var rows: [Value: Row] = [:]

    mutating func open(_ schema: TableSchema) {
        self.schema = schema
        rows = rows.mapValues(filled)
    }

    mutating func apply(_ change: AppendFileRecord.Change) throws {
        for row in try change.rows() { put(row) }
        for id in try change.ids() { rows[id] = nil }
    }

    mutating func put(_ row: Row) { rows[row["id"] ?? .null] = filled(row) }

    /// Returns the row with null in each missing column.
    private func filled(_ row: Row) -> Row {
        guard let schema else { return row }
        var whole = row
        var names = schema.columns.map(\.name)
        if schema.hasSystemColumns {
            names += [SystemColumn.createdAt, SystemColumn.updatedAt, SystemColumn.version]
        }
        for name in names where whole[name] == nil { whole[name] = .null }
        return whole
    }
}

/// A transaction, which is used by a single call.
final class AppendFileTransaction: LocalStoreWriter {
    private(set) var tables: [String: AppendFileTable]
    private(set) var changes: [AppendFileRecord.Change] = []

    init(_ tables: [String: AppendFileTable]) { self.tables = tables }

    private func table(_ name: String) throws -> (rows: [Value: Row], schema: TableSchema) {
        guard let table = tables[name], let schema = table.schema else {
            throw SyncError(.unknownTable, "The store was not opened with table '\(name)'.")
        }
        return (table.rows, schema)
    }

    func rows(_ query: TableQuery, in name: String) throws -> [Row] {
        let (rows, schema) = try table(name)
        var checked = try query.checked(for: schema)
        checked.includesDeleted = true
        return checked.apply(to: Array(rows.values)).rows
    }

    func row(id: Value, in name: String) throws -> Row? { try table(name).rows[id] }

    func count(_ filter: Filter?, in name: String) throws -> Int {
        try rows(TableQuery(filter: filter), in: name).count
    }

    func put(_ rows: [Row], in name: String) throws {
        _ = try table(name)
        guard !rows.isEmpty else { return }
        for row in rows { tables[name]?.put(row) }
        changes.append(.put(rows, in: name))
    }

    func delete(ids: [Value], in name: String) throws -> Int {
        _ = try table(name)
        let gone = ids.filter { tables[name]?.rows.removeValue(forKey: $0) != nil }
        if !gone.isEmpty { changes.append(.delete(gone, in: name)) }
        return gone.count
    }
}
