// StoredTable, SnapshotTransaction: the tables of the article's example store, and a write transaction.

import Foundation
import Tideline

// README begins
struct StoredTable: Sendable {
    var schema: TableSchema
    var rows: [Value: Row] = [:]

    func filled(_ row: Row) -> Row {
        var row = row
        var names = schema.columns.map(\.name)
        if schema.hasSystemColumns {
            names += [SystemColumn.createdAt, SystemColumn.updatedAt, SystemColumn.version]
        }
        for name in names where row[name] == nil { row[name] = .null }
        return row
    }
}

final class SnapshotTransaction: LocalStoreWriter {
    private(set) var tables: [String: StoredTable]
    private(set) var changed: Set<String> = []

    init(_ tables: [String: StoredTable]) { self.tables = tables }

    private func table(_ name: String) throws -> StoredTable {
        guard let table = tables[name] else {
            throw SyncError(.unknownTable, "The store was not opened with table '\(name)'.")
        }
        return table
    }

    func rows(_ query: TableQuery, in name: String) throws -> [Row] {
        let table = try table(name)
        var query = try query.checked(for: table.schema)
        query.includesDeleted = true
        return query.apply(to: Array(table.rows.values)).rows
    }

    func row(id: Value, in name: String) throws -> Row? { try table(name).rows[id] }

    func count(_ filter: Filter?, in name: String) throws -> Int {
        try rows(TableQuery(filter: filter), in: name).count
    }

    func put(_ rows: [Row], in name: String) throws {
        let table = try table(name)
        for row in rows { tables[name]?.rows[row["id"] ?? .null] = table.filled(row) }
        if !rows.isEmpty { changed.insert(name) }
    }

    func delete(ids: [Value], in name: String) throws -> Int {
        _ = try table(name)
        let gone = ids.filter { tables[name]?.rows.removeValue(forKey: $0) != nil }
        if !gone.isEmpty { changed.insert(name) }
        return gone.count
    }
}
// README ends
