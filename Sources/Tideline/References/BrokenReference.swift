// BrokenReference: the reference that prevents an operation, and the app's actions for it.

import TidelineCore

/// A reference that prevents an operation on the server, or the delete of a record on this device.
///
/// ```swift
/// for error in try await client.syncContext.operationErrors() {
///     guard let reference = error.brokenReference, reference.reason == .parentNotFound else { continue }
///     print("The \(reference.table) of this \(error.table) was deleted on another device.")
///     try await error.restoreParent()
/// }
/// ```
public struct BrokenReference: Sendable, Hashable {
    /// The reason why the operation is rejected.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// The parent that the row names does not exist on the server, is deleted, or cannot be seen by the account.
        case parentNotFound
        /// The row cannot be deleted, because other rows refer to it by a reference with the rule `restrict`.
        case rowIsReferenced
    }

    /// The reason why the operation is rejected.
    public var reason: Reason
    /// The column of the reference.
    public var column: String
    /// The table of the parent for `parentNotFound`, and the table of the referring rows for `rowIsReferenced`.
    public var table: String

    /// Creates a reference, for an app's tests.
    public init(reason: Reason, column: String, table: String) {
        (self.reason, self.column, self.table) = (reason, column, table)
    }

    /// Creates the reference that a problem body names; nil if it names none.
    init?(_ response: TransportResponse) {
        guard response.status == 409, let body = RowText.row(response.body, nil),
            let reason = body["code"]?.text.flatMap(Reason.init),
            let column = body["column"]?.text, let table = body["table"]?.text
        else { return nil }
        self.init(reason: reason, column: column, table: table)
    }

    /// The name of the member of a stored error that holds the reference.
    private static let member = "reference"

    /// Creates the reference of a stored error; nil if it has none.
    init?(properties: Row) {
        let parts = properties[Self.member]?.text?.split(separator: "\n").map(String.init) ?? []
        guard parts.count == 3, let reason = Reason(rawValue: parts[0]) else { return nil }
        self.init(reason: reason, column: parts[1], table: parts[2])
    }

    /// Adds the reference to the properties of a stored error.
    func store(in properties: inout Row) {
        properties[Self.member] = .string("\(reason.rawValue)\n\(column)\n\(table)")
    }

    /// Returns the error text of an operation that the server rejected.
    func message(of operation: QueuedOperation) -> String {
        let what =
            "The \(operation.kind) of row '\(operation.itemID)' in table '\(operation.table)'"
        switch reason {
        case .parentNotFound:
            return """
                \(what) was rejected by the server (409): '\(column)' names a row of table '\(table)' that does not \
                exist there. Restore the parent, move the row to another parent, or discard the operation.
                """
        case .rowIsReferenced:
            return """
                \(what) was rejected by the server (409): rows of table '\(table)' refer to the row by \
                '\(column)'. Delete or change them and retry, or discard the operation to keep the row.
                """
        }
    }
}

extension TableOperationError {
    /// Restores the parent whose absence made the server reject the operation, and then retries the operation.
    ///
    /// The parent gets the values that it has on this device or, if the device no longer has it, the values that the
    /// server has kept of the deleted row. The parent's insert is queued, and restores the deleted row on the server.
    /// Rows that were deleted with the parent stay deleted.
    ///
    /// A server table with `"tombstones": "bare"` keeps no values of deleted rows.
    ///
    /// If the server already has the parent again, the operation is retried without an insert. A parked update of the
    /// parent is also retried, and restores the row that it changes.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved, if it has no ``brokenReference``
    ///   with the reason `parentNotFound`, or if neither side has the values of the parent (in that case, use
    ///   ``restoreParent(with:)``); `unknownTable` if the store was opened without the parent's table; `ruleBroken` if
    ///   the parent's values break a rule of its model; `otherAccount`; and the errors of a read from the server.
    public func restoreParent() async throws {
        try await errors().restoreParent(of: self, with: nil, in: nil)
    }

    /// Inserts the parent whose absence made the server reject the operation, and then retries the operation.
    ///
    /// - Parameter parent: The record of the parent; its id is replaced with the id that the row refers to.
    /// - Throws: The errors of ``restoreParent()``, or ``SyncError`` with code `rowDoesNotFit`, including for a record
    ///   of another table, or `ruleBroken`.
    public func restoreParent<Parent: SyncRecord>(with parent: Parent) async throws {
        try await errors().restoreParent(of: self, with: Row(parent), in: Parent.tableName)
    }

    /// Gives the row a different parent, and retries the operation.
    ///
    /// - Parameter id: The id of the new parent; nil for none, if the property is optional.
    /// - Throws: ``SyncError`` with code `notFound` if the error is already resolved or has no ``brokenReference`` with
    ///   the reason `parentNotFound`; `rowDoesNotFit`, `ruleBroken` or `otherAccount`. On an error, nothing is changed.
    public func moveToParent(_ id: String?) async throws {
        guard let reference = brokenReference, reference.reason == .parentNotFound else {
            throw SyncError.noParentMissing()
        }
        try await errors().moveToParent(of: self, id, reference)
    }
}

extension OperationErrors {
    fileprivate func moveToParent(
        of error: TableOperationError,
        _ id: String?,
        _ reference: BrokenReference
    ) async throws {
        let column = engine.catalog.schema(error.table)?.column(named: reference.column)
        guard id != nil || column?.isNullable != false else {
            throw SyncError.parentRequired(error, column: reference.column)
        }
        var row: Row = ["id": .string(error.itemID)]
        row[reference.column] = id.map(Value.string) ?? .null
        try await retry(error, row)
    }

    fileprivate func restoreParent(
        of error: TableOperationError,
        with given: Row?,
        in givenTable: String?
    ) async throws {
        guard let reference = error.brokenReference, reference.reason == .parentNotFound else {
            throw SyncError.noParentMissing()
        }
        guard let schema = engine.catalog.schema(reference.table) else {
            throw SyncError.unknownTable(
                reference.table,
                known: Array(engine.catalog.schemas.keys)
            )
        }
        let table = schema.name
        guard engine.catalog.schema(givenTable ?? table)?.name == table else {
            throw SyncError.noParent(inTable: table, givenTable ?? "")
        }
        let child = try await engine.read {
            try $0.store.row(id: .string(error.itemID), in: error.table)
        }
        // By now, the row may have another parent, or none.
        guard let id = (child ?? error.item)?[reference.column]?.text else {
            return try await retry(error)
        }
        guard ItemID.fault(in: id) == nil else {
            throw SyncError.noParentNamed(error, column: reference.column)
        }
        if try await restoreUpdated(RowKey(table, id), with: given) {
            return try await retry(error)
        }
        let (stored, isPending) = try await engine.read {
            (
                try $0.store.row(id: .string(id), in: table),
                try !$0.operations(table, id).isEmpty
            )
        }
        var values = given ?? stored
        let isKnown = stored?.isFromServer == true && !isPending
        // The server may already have a known parent again. An insert would discard the parent's known state, and
        // without that state a later delete of the parent would not be sent.
        if values == nil || isKnown {
            let answer = try await serverRow(RowKey(table, id), schema)
            let row = answer.item
            if answer.status == 200, let row, row[SystemColumn.deleted] != true {
                return try await retry(error)
            }
            // A tombstone without values would restore an empty row for all devices.
            if values == nil, answer.status == 200, !answer.isBareTombstone { values = row }
            guard values != nil, [200, 404, 410].contains(answer.status) else {
                throw SyncError.noParentKept(RowKey(table, id), status: answer.status)
            }
        }
        var parent = RowMerge.payload(values ?? Row())
        parent[SystemColumn.id] = .string(id)
        let new = try NewRow(parent, table: table, engine.environment)
        try await resolve(error) { queue, operation in
            let operations = try queue.reader.operations(table, id)
            try queue.checkAccount(operations)
            let current = try queue.store.row(id: .string(id), in: table)
            // False if an operation in the queue or a pull has already restored or changed the parent.
            let isMissing = operations.isEmpty && current?.version == stored?.version
            if isMissing || operations.last?.kind == .delete {
                try queue.store.delete(ids: [.string(id)], in: table)
                _ = try LocalChanges(queue: queue, table: table).insert(new)
            }
            try queue.retry(operation)
        }
    }

    /// Retries a parked update of a row on top of the row that the server has deleted, which restores the row.
    ///
    /// - Returns: Whether there is such an update.
    private func restoreUpdated(_ parent: RowKey, with given: Row?) async throws -> Bool {
        let parked = try await all().first {
            $0.table == parent.table && $0.itemID == parent.itemID && $0.kind == .update
        }
        guard let parked else { return false }
        var row = given.map(RowMerge.payload) ?? Row()
        row[SystemColumn.id] = .string(parent.itemID)
        try await retry(parked, row, keepsUnknownChanges: true)
        return true
    }

    /// Reads a row from the server, deleted or not.
    private func serverRow(_ key: RowKey, _ schema: TableSchema) async throws -> PushAnswer {
        do {
            return try await engine.remote.get().row(key.itemID, in: key.table, schema)
        } catch let error as TransportError {
            throw SyncError.offline(error)
        }
    }
}

extension SyncError {
    fileprivate static func noParentMissing() -> SyncError {
        SyncError(
            .notFound,
            """
            The operation was not rejected because of a missing parent. Use the other actions of the error.
            """
        )
    }

    fileprivate static func noParent(inTable table: String, _ given: String) -> SyncError {
        SyncError(
            .rowDoesNotFit,
            """
            The missing parent is a row of table '\(table)', but the given record belongs to table '\(given)'. \
            Nothing was changed. Pass a record of '\(table)'.
            """
        )
    }

    fileprivate static func noParentNamed(
        _ error: TableOperationError,
        column: String
    ) -> SyncError {
        SyncError(
            .rowDoesNotFit,
            """
            Row '\(error.itemID)' of table '\(error.table)' names no parent that can be restored: the value of column \
            '\(column)' is not a valid id. Call moveToParent(_:) with the id of a parent, or discard the row.
            """
        )
    }

    fileprivate static func noParentKept(_ row: RowKey, status: Int) -> SyncError {
        let isGone = [200, 404, 410].contains(status)
        return SyncError(
            isGone ? .notFound : Code(answer: status),
            """
            Row '\(row.itemID)' of table '\(row.table)' cannot be restored: this device does not have it, and the \
            server sent no values of it (\(status)). Use restoreParent(with:), or move the row to another parent.
            """,
            statusCode: status
        )
    }
}
