// The durable errors of rejected operations, and what the app can do about them.

import TidelineCore

extension SyncEngine {
    func operationErrors() async throws -> [TableOperationError] {
        let catalog = catalog
        let stored = try await read { reader in
            var query = TableQuery()
            query.order = [SortKey(column: "operationId")]
            return try reader.store.rows(query, in: SystemTables.errors).compactMap {
                row -> (StoredError, ServerState?)? in
                guard case .integer(let id) = row["operationId"],
                    let operation = try reader.operation(id)
                else { return nil }
                let schema = catalog.schema(operation.table)
                let error = StoredError(row: row, operation: operation, schema: schema)
                return (error, operation.basis.lastKnown)
            }
        }
        return stored.map { TableOperationError($0, known: $1, engine: self) }
    }

    func discard(_ error: TableOperationError) async throws {
        try await resolve(error) { queue, operation in
            try queue.remove(operation)
            // Of an entry that cannot be read nothing is known: the row stays as it is.
            if operation.damage != nil { return }
            switch operation.basis.lastKnown {
            case .row(let row):
                // While it was not here nothing kept what queries told of it: they read anew.
                let id = Value.string(operation.itemID)
                if try queue.store.row(id: id, in: operation.table) == nil {
                    try queue.resetCursors(operation.table)
                }
                try queue.store.put([JSONRowReader.withoutDeleted(row)], in: operation.table)
                try queue.confirmHolders(of: row, operation.table)
                try queue.removeUnheld(operation.itemID, operation.table)
            default:
                try queue.store.delete(ids: [.string(operation.itemID)], in: operation.table)
            }
        }
    }

    func cancel(_ error: TableOperationError, _ item: Row) async throws {
        try await resolve(error) { queue, operation in
            try queue.remove(operation)
            let row = Self.item(item, operation, known: operation.basis.lastKnown?.row)
            try queue.store.put([row], in: operation.table)
        }
    }

    func retry(_ error: TableOperationError, _ item: Row) async throws {
        try await resolve(error) { queue, operation in
            guard operation.damage == nil else { throw SyncError.unsendable(operation) }
            var again = operation
            if let latest = operation.basis.latest {
                again = ConflictRules.onTop(operation, latest)
                again.conflicts = 0
            } else {
                again.thaw()
            }
            try queue.put(again)
            try queue.removeErrors(of: operation.id)
            guard operation.kind != .delete else { return }
            let row = Self.item(item, operation, known: operation.basis.lastKnown?.row)
            try queue.store.put([row], in: operation.table)
        }
    }

    /// The app's item as a local row: with the operation's id and the server's system columns.
    private static func item(_ item: Row, _ operation: QueuedOperation, known: Row?) -> Row {
        var row = known.map(JSONRowReader.withoutDeleted) ?? Row()
        for (name, value) in RowMerge.payload(item) { row[name] = value }
        row["id"] = .string(operation.itemID)
        return row
    }

    /// Runs one of the three actions, unless the error was settled before.
    private func resolve(
        _ error: TableOperationError,
        _ body: @escaping @Sendable (QueueTransaction, QueuedOperation) throws -> Void
    ) async throws {
        let (id, operationID) = (error.id, error.operationID)
        try await transaction { queue in
            guard try queue.store.row(id: .string(id), in: SystemTables.errors) != nil,
                let operation = try queue.reader.operation(operationID),
                operation.state == .parked
            else { throw SyncError.errorSettled() }
            try body(queue, operation)
        }
    }
}

extension TableOperationError {
    init(_ stored: StoredError, known: ServerState?, engine: SyncEngine) {
        id = stored.id
        table = stored.table
        itemID = stored.itemID
        kind = stored.kind
        statusCode = stored.statusCode
        item = stored.item
        serverItem = stored.serverItem
        message = stored.message
        operationID = stored.operationID
        switch known {
        case .row(let row): serverCopy = .row(JSONRowReader.withoutDeleted(row))
        case .deleted: serverCopy = .deleted
        case nil: serverCopy = .neverSeen
        }
        self.engine = engine
    }
}
