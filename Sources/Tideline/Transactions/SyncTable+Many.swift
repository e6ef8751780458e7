// SyncTable+Many: changes of many records of a table in one transaction.

public import Foundation
import TidelineCore

extension SyncTable {
    /// Changes records and queues their updates, in order: all of them or none.
    ///
    /// - Returns: The records as stored.
    /// - Throws: The errors of ``update(_:)-(Record)`` for the first record that cannot be stored, or ``SyncError``
    ///   with code `cancelled`. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func update(_ records: [Record]) async throws -> [Record] {
        try await inTransaction { table in try records.map { try table.update($0) } }
    }

    /// Removes records and queues their deletes, in order: all of them or none.
    ///
    /// Records that the device does not have are ignored.
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, `otherAccount`, `storeFailure`, or `cancelled` if the
    ///   task is cancelled before all are removed. On an error, nothing is changed.
    @concurrent
    public func delete(_ records: [Record]) async throws {
        try await inTransaction { table in for record in records { try table.delete(record) } }
    }

    /// Removes the records with these ids and queues their deletes, in order: all of them or none.
    ///
    /// Unknown ids are ignored.
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, `otherAccount`, `storeFailure`, or `cancelled` if the
    ///   task is cancelled before all are removed. On an error, nothing is changed.
    @concurrent
    public func delete(ids: [String]) async throws {
        try await inTransaction { table in for id in ids { try table.delete(id: id) } }
    }

    /// Changes the records of a query and queues their updates, one operation for each record: all of them or none.
    ///
    /// `change` may run more than once for a record, and must only change that record.
    ///
    /// - Returns: The number of records.
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `cancelled`, the errors of ``update(id:_:)`` for the
    ///   first record that cannot be stored, or the errors of `change`. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func update(
        _ query: Query<Record>,
        _ change: @escaping @Sendable (inout Record) throws -> Void
    ) async throws -> Int {
        try await inTransaction { try $0.update(query, change) }
    }

    /// Changes the records that match a closure over the columns and queues their updates: all of them or none.
    ///
    /// ```swift
    /// try await jobs.update(where: { $0.customerID == id }) { $0.status = .cancelled }
    /// ```
    ///
    /// - Returns: The number of records.
    /// - Throws: The errors of `update(_:_:)`, and the errors of both closures.
    @discardableResult
    public func update(
        where condition: (Columns<Record>) throws -> Condition,
        _ change: @escaping @Sendable (inout Record) throws -> Void
    ) async throws -> Int {
        try await update(Query(where: condition), change)
    }

    /// Removes the records of a query and queues their deletes, one operation for each record: all of them or none.
    ///
    /// - Returns: The number of records.
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, `rowIsReferenced`, `otherAccount`, `storeFailure`, or
    ///   `cancelled` if the task is cancelled before all are removed. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func delete(_ query: Query<Record>) async throws -> Int {
        try await inTransaction { try $0.delete(query) }
    }

    /// Removes the records that match a closure over the columns and queues their deletes: all of them or none.
    ///
    /// - Returns: The number of records.
    /// - Throws: The errors of the overload for a query. Errors of the closure are rethrown.
    @discardableResult
    public func delete(
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Int {
        try await delete(Query(where: condition))
    }

    /// Stores a record, whether it exists or not: queues its insert, or an update that sets all of its properties.
    ///
    /// If the record has a `version` or `updatedAt`, it is updated as described for ``update(_:)-(Record)``. Without
    /// either, its values replace the values that the row has on the device now; an untyped row replaces only the
    /// columns that it contains.
    ///
    /// - Returns: The record as stored.
    /// - Throws: ``SyncError`` with code `invalidID`, `rowDoesNotFit`, `partialRecord`, `otherAccount` or
    ///   `storeFailure`. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func upsert(_ record: Record) async throws -> Record {
        try await inTransaction { try $0.upsert(record) }
    }

    /// Stores records, whether they exist or not, in order: all of them or none.
    ///
    /// - Returns: The records as stored.
    /// - Throws: The errors of ``upsert(_:)-(Record)`` for the first record that cannot be stored, or ``SyncError``
    ///   with code `cancelled`. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func upsert(_ records: [Record]) async throws -> [Record] {
        try await inTransaction { try $0.upsert(records) }
    }

    private func inTransaction<Result: Sendable>(
        _ body: @escaping @Sendable (TransactionTable<Record>) throws -> Result
    ) async throws -> Result {
        let coder = coder
        return try await engine.transactions.run(of: { transaction in
            try body(TransactionTable(transaction: transaction, coder: coder))
        })
    }
}

extension SyncTable where Record: SyncRecord {
    /// Changes the records that match a predicate and queues their updates: all of them or none.
    ///
    /// - Returns: The number of records.
    /// - Throws: The errors of `update(_:_:)`.
    @discardableResult
    public func update(
        where predicate: Predicate<Record>,
        _ change: @escaping @Sendable (inout Record) throws -> Void
    ) async throws -> Int {
        try await update(Query(where: predicate), change)
    }

    /// Removes the records that match a predicate and queues their deletes: all of them or none.
    ///
    /// - Returns: The number of records.
    /// - Throws: The errors of the overload for a query.
    @discardableResult
    public func delete(
        where predicate: Predicate<Record>
    ) async throws -> Int {
        try await delete(Query(where: predicate))
    }
}
