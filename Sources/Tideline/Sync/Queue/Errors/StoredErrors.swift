// StoredErrors: the errors in MS_TableOperationErrors, and the errors of operations that have no
// row there.

import TidelineCore

extension QueueReader {
    /// The errors of operations.
    var errors: StoredErrors { StoredErrors(reader: self) }
}

/// A reader of the errors of operations.
struct StoredErrors {
    let reader: QueueReader

    /// Returns the errors of the operations that wait for the app, in the order of the queue.
    ///
    /// A parked operation without a stored error gets an error that is not stored, and so does an
    /// operation on a table that the app does not declare. In this way, every operation that waits
    /// is reported.
    func all() throws -> [(StoredError, QueuedOperation)] {
        var stored: [Int64: Row] = [:]
        for row in try reader.store.rows(TableQuery(), in: SystemTables.errors) {
            if case .integer(let id) = row["operationId"] { stored[id] = row }
        }
        let ids = try Set(stored.keys).union(reader.parkedIDs()).union(reader.idsOfUnnamedTables())
        return try ids.sorted().compactMap { id in
            guard let operation = try reader.operation(id), reader.account.owns(operation),
                operation.state == .parked || !reader.catalog.names(tableOf: operation)
            else { return nil }
            let schema = reader.catalog.schema(operation.table)
            var error =
                stored[id].map { StoredError(row: $0, operation: operation, schema: schema) }
                ?? derivedError(operation)
            // The operation could not be sent, or its error cannot be read.
            if error.item == nil, operation.kind != .delete {
                error.item = try reader.localRow(of: operation)
            }
            try addLocalColumns(to: &error, operation)
            return (error, operation)
        }
    }

    /// Sets the local columns of the error's rows to their current values.
    ///
    /// The values may have changed since the rejection, and the server's row has none. If the app
    /// makes a record from one of the rows to resolve the error, the record must not reset them.
    private func addLocalColumns(
        to error: inout StoredError,
        _ operation: QueuedOperation
    ) throws {
        let table = operation.table
        guard reader.catalog.schema(table)?.localColumns.isEmpty == false else { return }
        let local = try reader.localRow(of: operation) ?? error.item
        error.item = error.item.map { reader.catalog.row($0, of: table, withLocalColumnsOf: local) }
        error.serverItem = error.serverItem.map {
            reader.catalog.row($0, of: table, withLocalColumnsOf: local)
        }
    }

    /// Returns the error of an operation that waits for the app but has no stored error.
    private func derivedError(_ operation: QueuedOperation) -> StoredError {
        StoredError(
            id: Self.derivedErrorID(operation),
            operation: operation,
            statusCode: nil,
            message: SyncError.waiting(
                operation,
                isNamed: reader.catalog.names(tableOf: operation)
            ),
            item: nil,
            serverItem: operation.basis.latest?.row
        )
    }

    private static func derivedErrorID(_ operation: QueuedOperation) -> String {
        "operation-\(operation.id)"
    }

    /// Returns whether the operation is still parked with this error.
    func contains(_ id: String, of operation: QueuedOperation) throws -> Bool {
        let isReleased = operation.group != nil && operation.state == .pending
        let isParked = operation.state == .parked || isReleased
        guard id == Self.derivedErrorID(operation) else {
            return try isParked && reader.store.row(id: .string(id), in: SystemTables.errors) != nil
        }
        return isParked || !reader.catalog.names(tableOf: operation)
    }

    /// Returns the status of the response that rejected a parked operation.
    func status(of operation: QueuedOperation) throws -> Int? {
        let query = TableQuery(filter: .equal("operationId", .integer(operation.id)))
        return try reader.store.rows(query, in: SystemTables.errors).first.flatMap {
            StoredError(row: $0, operation: operation, schema: nil).statusCode
        }
    }

    // MARK: - Errors that may pass

    /// Returns whether the server may later accept a parked operation of this account.
    func hasOneThatMayPass() throws -> Bool { try !thatMayPass().isEmpty }

    /// Returns the operations that were rejected because of a missing parent that the queue now
    /// inserts.
    func childrenWithParents() throws -> [QueuedOperation] {
        try parked { $0.reference?.reason == .parentNotFound }.compactMap { error in
            guard var operation = try reader.operation(error.operationID) else { return nil }
            operation.frozen = nil
            let parent = try reader.unsentParents.parent(
                of: operation,
                local: try reader.localRow(after: operation)
            )
            return parent.map { $0.state == .parked } == false ? operation : nil
        }
    }

    /// Returns the errors of this account's parked operations that the server may later accept, in
    /// the order of the queue.
    func thatMayPass() throws -> [StoredError] {
        try parked { $0.conditions != nil || $0.isOfEarlierVersion }
    }

    private func parked(where isWanted: (StoredError) -> Bool) throws -> [StoredError] {
        var found: [StoredError] = []
        for row in try reader.store.rows(TableQuery(), in: SystemTables.errors) {
            guard case .integer(let id) = row["operationId"],
                let operation = try reader.operation(id),
                operation.state == .parked, operation.damage == nil,
                reader.catalog.names(tableOf: operation), reader.account.owns(operation)
            else { continue }
            let error = StoredError(row: row, operation: operation, schema: nil)
            if isWanted(error) { found.append(error) }
        }
        return found.sorted { $0.operationID < $1.operationID }
    }

    /// Returns the first operation that was rejected by a server with `Tideline-Schema`.
    func firstRejectedBySchema() throws -> QueuedOperation? {
        try thatMayPass().first { $0.conditions?.schema != nil }
            .flatMap { try reader.operation($0.operationID) }
    }
}
