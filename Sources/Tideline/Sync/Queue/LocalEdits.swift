// LocalEdits: inserts, updates and deletes of single rows and lists of rows, outside the app's
// transactions.

import TidelineCore

/// The local changes to a table, each in one transaction that also queues its operations.
struct LocalEdits {
    let engine: SyncEngine

    /// Inserts a row; `declared` has the columns of a row without a model.
    func insert(
        _ row: Row,
        in table: String,
        declared: TableSchema? = nil
    ) async throws -> Row {
        let row = try NewRow(row, table: table, declared: declared, engine.environment)
        return try await engine.transaction {
            try LocalChanges(queue: $0, table: table).insert(row)
        }
    }

    func insert(
        _ rows: [Row],
        in table: String,
        declared: TableSchema? = nil
    ) async throws -> [Row] {
        guard !rows.isEmpty else { return [] }
        return try await TransactionWatch.during("insert", telling: engine.events) { watch in
            let rows = try rows.map { row in
                try watch.check()
                return try NewRow(row, table: table, declared: declared, engine.environment)
            }
            return try await engine.transaction { queue in
                try watch.begin()
                var queue = queue
                queue.watch = watch
                let new = try LocalChanges(queue: queue, table: table).insert(rows)
                try watch.check()
                return new
            }
        }
    }

    /// Updates a row; `normalized` encodes a stored row as its record type does, or returns nil if
    /// it does not decode.
    func update(
        _ row: Row,
        in table: String,
        identity: RecordIdentity,
        declared: TableSchema? = nil,
        projection: Projection? = nil,
        normalized: @escaping @Sendable (Row) -> Row?
    ) async throws -> Row {
        try await engine.transaction {
            try LocalChanges(queue: $0, table: table, declared: declared).update(
                row,
                identity: identity,
                projection: projection,
                normalized: normalized
            )
        }
    }

    /// Stores a change that was made to `stored`; returns nil if the row has changed since then.
    func replace(
        _ stored: Row,
        with row: Row,
        in table: String,
        declared: TableSchema? = nil
    ) async throws -> Row? {
        try await engine.transaction { queue in
            guard try queue.store.row(id: .string(stored.id), in: table) == stored else {
                return nil
            }
            return try LocalChanges(queue: queue, table: table, declared: declared)
                .change(stored, to: row)
        }
    }

    func delete(_ id: String, in table: String) async throws {
        try await engine.transaction { try LocalChanges(queue: $0, table: table).delete(id) }
    }

    /// Deletes the row of a record, which may have been read in an older state.
    func delete(_ record: Row, in table: String, identity: RecordIdentity) async throws {
        try await engine.transaction {
            try LocalChanges(queue: $0, table: table).delete(record, identity: identity)
        }
    }
}
