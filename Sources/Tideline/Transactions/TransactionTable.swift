// TransactionTable: the methods of a table inside a transaction. All of them are synchronous.

public import Foundation
import TidelineCore

/// A table inside ``SyncContext/transaction(_:)``, with synchronous versions of the methods of ``SyncTable``.
///
/// Reads include the transaction's earlier changes.
///
/// Every method throws ``SyncError`` with code `transactionEnded` after the end of the closure, `cancelled`
/// if the task that waits for the transaction was cancelled, and `storeFailure` if the store fails. An error
/// that the closure throws ends the transaction, and none of its changes are stored.
public struct TransactionTable<Record: Sendable> {
    let transaction: SyncTransaction
    let coder: RecordCoder<Record>

    private var name: String { coder.table.name }

    private func changing<Result>(
        _ body: (LocalChanges) throws -> Result
    ) throws -> Result {
        try transaction.working {
            try body(LocalChanges(queue: $0, table: name, declared: coder.declared))
        }
    }

    /// Stores a new record and queues its insert, as ``SyncTable/insert(_:)-(Record)``.
    ///
    /// - Throws: ``SyncError`` with code `alreadyExists`, `invalidID`, `rowDoesNotFit`,
    ///   `otherAccount`, or an error that every method can throw.
    @discardableResult
    public func insert(_ record: Record) throws -> Record {
        let row = try coder.encode(record)
        try projection(of: row)?.check(insert: row)
        let new = try NewRow(
            row,
            table: name,
            declared: coder.declared,
            transaction.engine.environment
        )
        return try stored([changing { try $0.insert(new) }])[0]
    }

    /// Stores new records and queues their inserts, in order.
    ///
    /// - Throws: As for one record. The records before it are stored, and are rolled back if the transaction
    ///   ends with the error.
    @discardableResult
    public func insert(_ records: [Record]) throws -> [Record] {
        guard !records.isEmpty else { return [] }
        let watch = try transaction.queue().watch
        let environment = transaction.engine.environment
        let rows = try records.map {
            try watch?.check()
            let row = try coder.encode($0)
            try projection(of: row)?.check(insert: row)
            return try NewRow(
                row,
                table: name,
                declared: coder.declared,
                environment
            )
        }
        return try stored(changing { try $0.insert(rows) })
    }

    /// Changes a record and queues the update, as ``SyncTable/update(_:)-(Record)``.
    ///
    /// - Throws: ``SyncError`` with code `versionRequired` if the record type has neither `version` nor
    ///   `updatedAt`, `notFound` if the device does not have the record, `invalidID`, `rowDoesNotFit`,
    ///   `otherAccount`, or an error that every method can throw.
    @discardableResult
    public func update(_ record: Record) throws -> Record {
        try coder.checkIdentity()
        let row = try coder.encode(record)
        try RowCheck.checkIsLive(row, table: name)
        let projection = projection(of: row)
        let stored = try changing {
            try $0.update(row, identity: coder.identity, projection: projection) {
                try? coder.encode(try coder.decode($0))
            }
        }
        return try self.stored([stored])[0]
    }

    /// Reads a record, changes it and stores it.
    ///
    /// If the closure also changes the row with other methods, those changes are kept, except in columns that
    /// `change` sets.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the device does not have the record, `rowDoesNotFit`,
    ///   `invalidID` if `change` gives it another id, `otherAccount`, the errors of `change`, or an error that
    ///   every method can throw.
    @discardableResult
    public func update(
        id: String,
        _ change: (inout Record) throws -> Void
    ) throws -> Record {
        guard let stored = try row(id) else { throw SyncError.notFound(table: name, id: id) }
        let edited = try RecordEdit(of: stored, coder, change).row
        // The closure may have changed the same row by other methods.
        guard let now = try row(id) else { throw SyncError.notFound(table: name, id: id) }
        let row = RowMerge.applying(from: stored, to: edited, onto: now)
        return try self.stored([changing { try $0.change(now, to: row) }])[0]
    }

    /// Removes a record and queues the delete.
    ///
    /// Does nothing if the device does not have the record.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount`, or an error that every method can throw.
    public func delete(_ record: Record) throws {
        let row = try coder.encode(record)
        try changing {
            $0.queue.size?.add(id: row.id)
            try $0.delete(row, identity: coder.identity)
        }
    }

    /// Removes the record with an id and queues the delete.
    ///
    /// Does nothing if the id is unknown.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount`, or an error that every method can throw.
    public func delete(id: String) throws {
        try changing { changes in
            changes.queue.size?.add(id: id)
            try changes.delete(id)
        }
    }

    /// Changes records and queues their updates, in order.
    ///
    /// - Throws: As for one record, at the first that cannot be stored.
    @discardableResult
    public func update(_ records: [Record]) throws -> [Record] {
        try records.map { try update($0) }
    }

    /// Removes records and queues their deletes, in order.
    ///
    /// - Throws: As for one record, at the first that cannot be removed.
    public func delete(_ records: [Record]) throws {
        for record in records { try delete(record) }
    }

    /// Removes the records with these ids and queues their deletes, in order.
    ///
    /// - Throws: As for one id, at the first that cannot be removed.
    public func delete(ids: [String]) throws {
        for id in ids { try delete(id: id) }
    }

    /// Returns the record with an id, or nil if the device does not have it.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, or an error that every method can throw.
    public func read(id: String) throws -> Record? {
        try row(id).map { try hand([$0], .throw)[0] }
    }

    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have or a negative limit or offset; `rowDoesNotFit`, unless `onDecodingFailure` skips such rows; or an
    ///   error that every method can throw.
    public func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> Page<Record> {
        let query = coder.meant(query.table.bound(now: transaction.engine.environment.now()))
        try query.checkWindow()
        let (rows, count) = try transaction.working { queue in
            let store = queue.store
            let count = query.includesTotalCount ? try store.count(query.filter, in: name) : nil
            return (try coder.rows(query, of: store), count)
        }
        return Page(
            items: try hand(rows, onDecodingFailure, selecting: query.select),
            totalCount: count
        )
    }

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func count(_ query: Query<Record> = Query()) throws -> Int {
        let filter = coder.meant(query.filter?.bound(now: transaction.engine.environment.now()))
        return try transaction.working { try $0.store.count(filter, in: name) }
    }

    /// Returns the records that match a closure over the columns; without a closure, all records.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that has no column form,
    ///   `rowDoesNotFit`, or an error that every method can throw. Errors of the closure are rethrown.
    public func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let keys = try order.map { try $0.sortKey() }
        return try read(
            Query(where: condition).window(keys, limit, offset),
            onDecodingFailure: onDecodingFailure
        ).items
    }

    /// Returns the number of records that match a closure over the columns.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that has no column form, or an error
    ///   that every method can throw. Errors of the closure are rethrown.
    public func count(where condition: (Columns<Record>) throws -> Condition) throws -> Int {
        try count(Query(where: condition))
    }

    private func row(_ id: String) throws -> Row? {
        try transaction.working { try $0.store.row(id: .string(id), in: name) }
    }

    /// Returns the stored rows as records.
    private func stored(_ rows: [Row]) throws -> [Record] {
        let size = try transaction.queue().size
        for row in rows { size?.add(row) }
        return try hand(rows, .throw)
    }

    private func projection(of row: Row) -> Projection? {
        transaction.engine.projected.projection(of: row, coder, transaction.engine.catalog)
    }

    private func hand(
        _ rows: [Row],
        _ onDecodingFailure: DecodingFailurePolicy,
        selecting names: [String]? = nil
    ) throws -> [Record] {
        let records = try coder.decode(rows, onDecodingFailure: onDecodingFailure)
        transaction.engine.projected.handOut(rows, selecting: names, coder)
        return records
    }
}

extension TransactionTable where Record: SyncRecord {
    /// Returns the records that match a closure over the columns, in the order of sort descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit` unless `onDecodingFailure` skips such rows, or an error that every method can throw.
    @_disfavoredOverload
    public func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let query = try Query(where: condition).sorted(by: order).window(nil, limit, offset)
        return try read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the records that match a predicate, in the order of sort descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit` unless `onDecodingFailure` skips such rows, or an error that every method can throw.
    @_disfavoredOverload
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let query = try Query(where: predicate).sorted(by: order).window(nil, limit, offset)
        return try read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit`, or an error that every method can throw.
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let keys = try order.map { try $0.sortKey() }
        return try read(
            Query(where: predicate).window(keys, limit, offset),
            onDecodingFailure: onDecodingFailure
        ).items
    }

    /// Returns the number of records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain, or an
    ///   error that every method can throw.
    public func count(where predicate: Predicate<Record>) throws -> Int {
        try count(Query(where: predicate))
    }
}
