// SyncTable+Many: changes of many records of a table in one transaction.

import TidelineCore

extension SyncTable {
    /// Changes records and queues their updates, in order: all of them or none.
    ///
    /// - Returns: The records as stored.
    /// - Throws: ``SyncError`` as ``update(_:)-(Record)`` for the first record that cannot be stored,
    ///   or with code `cancelled`. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func update(_ records: [Record]) async throws -> [Record] {
        try await inTransaction { table in try records.map { try table.update($0) } }
    }

    /// Removes records and queues their deletes, in order: all of them or none.
    ///
    /// Records that the device does not have are ignored.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount`, `storeFailure`, or `cancelled` if the
    ///   task is cancelled before all are removed. On an error, nothing is changed.
    @concurrent
    public func delete(_ records: [Record]) async throws {
        try await inTransaction { table in for record in records { try table.delete(record) } }
    }

    /// Removes the records with these ids and queues their deletes, in order: all of them or none.
    ///
    /// Unknown ids are ignored.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount`, `storeFailure`, or `cancelled` if the
    ///   task is cancelled before all are removed. On an error, nothing is changed.
    @concurrent
    public func delete(ids: [String]) async throws {
        try await inTransaction { table in for id in ids { try table.delete(id: id) } }
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
