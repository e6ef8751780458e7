// TransactionTable: the methods of a table inside a transaction. All of them are synchronous.

public import Foundation
import TidelineCore

/// A table inside ``SyncContext/transaction(_:)``, with synchronous versions of the methods of ``SyncTable``.
///
/// Its reads are those of ``RecordReading``, and they see the transaction's earlier changes.
///
/// Every method throws ``SyncError`` with code `transactionEnded` after the end of the closure, `cancelled`
/// if the task that waits for the transaction was cancelled, and `storeFailure` if the store fails. An error
/// that the closure throws ends the transaction, and none of its changes are stored.
public struct TransactionTable<Record: Sendable>: RecordReading {
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

    /// Stores a new record and queues its insert, like ``SyncTable/insert(_:)-(Record)``.
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
    /// - Throws: The errors of the overload for one record. The records before the failed record are stored, and are
    ///   rolled back if the transaction ends with the error.
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

    /// Changes a record and queues the update, like ``SyncTable/update(_:)-(Record)``.
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
    /// If `change` also changes the row by calling other methods, those changes are kept, except in columns that it
    /// sets in the record.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the device does not have the record, `rowDoesNotFit`,
    ///   `invalidID` if `change` gives it another id, `otherAccount`, the errors of `change`, or an error that
    ///   every method can throw.
    @discardableResult
    public func update(
        id: String,
        _ change: (inout Record) throws -> Void
    ) throws -> Record {
        guard let row = try changed(id, change) else {
            throw SyncError.notFound(table: name, id: id)
        }
        return try stored([row])[0]
    }

    /// Changes the records of a query and queues their updates, one operation for each record.
    ///
    /// The records are those that match before the first change, in the order of the query. `change` receives each
    /// record in its current state, and may leave it unchanged. A record that `change` has already removed by calling
    /// another method is skipped.
    ///
    /// ```swift
    /// let jobs = try transaction.table(Job.self)
    /// try jobs.update(where: { $0.customerID == id }) { $0.status = .cancelled }
    /// ```
    ///
    /// - Returns: The number of records.
    /// - Throws: The errors of ``update(id:_:)``, for the first record that cannot be stored, and ``SyncError`` with
    ///   code `unsupportedQuery`. If the closure of the transaction catches the error, the records before the failed
    ///   record remain changed.
    @discardableResult
    public func update(
        _ query: Query<Record>,
        _ change: (inout Record) throws -> Void
    ) throws -> Int {
        var count = 0
        for id in try ids(query) {
            guard let row = try changed(id, change) else { continue }
            try transaction.queue().size?.add(row)
            count += 1
        }
        return count
    }

    /// Changes the records that match a closure over the columns, like ``update(_:_:)``.
    ///
    /// - Throws: The errors of ``update(_:_:)``. Errors of both closures are rethrown.
    @discardableResult
    public func update(
        where condition: (Columns<Record>) throws -> Condition,
        _ change: (inout Record) throws -> Void
    ) throws -> Int {
        try update(Query(where: condition), change)
    }

    /// Stores a record, whether it exists or not: queues its insert, or an update that sets all of its properties.
    ///
    /// If the record has a `version` or `updatedAt`, it is updated as described for ``update(_:)-(Record)``. Without
    /// either, its values replace the values that the row has on the device now; an untyped row replaces only the
    /// columns that it contains.
    ///
    /// - Throws: The errors of ``insert(_:)-(Record)`` and ``update(_:)-(Record)``, except the codes `alreadyExists`,
    ///   `notFound` and `versionRequired`.
    @discardableResult
    public func upsert(_ record: Record) throws -> Record {
        let row = try coder.encode(record)
        guard !row.id.isEmpty, let present = try self.row(row.id) else { return try insert(record) }
        if RowState(row, coder.identity) != nil { return try update(record) }
        try RowCheck.checkIsLive(row, table: name)
        let before = try coder.encode(try coder.decode(present))
        try projection(of: row)?.check(update: row, of: before)
        var after = before
        for (name, value) in row { after[name] = value }
        let edited = RowMerge.applying(from: before, to: after, onto: present, ofModel: true)
        return try stored([changing { try $0.change(present, to: edited) }])[0]
    }

    /// Stores records, whether they exist or not, in order, like ``upsert(_:)-(Record)``.
    ///
    /// - Throws: The errors of the overload for one record, for the first record that cannot be stored.
    @discardableResult
    public func upsert(_ records: [Record]) throws -> [Record] {
        try records.map { try upsert($0) }
    }

    /// Removes a record, applies the delete rules of the references to it, and queues all resulting operations.
    ///
    /// Does nothing if the device does not have the record.
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, `otherAccount`, or an error that every method can throw.
    public func delete(_ record: Record) throws {
        let row = try coder.encode(record)
        try changing {
            $0.queue.size?.add(id: row.id)
            try $0.delete(row, identity: coder.identity)
        }
    }

    /// Removes the record with an id, applies the delete rules of the references to it, and queues all resulting
    /// operations.
    ///
    /// Does nothing if the id is unknown.
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, `otherAccount`, or an error that every method can throw.
    public func delete(id: String) throws {
        try changing { changes in
            changes.queue.size?.add(id: id)
            try changes.delete(id)
        }
    }

    /// Changes records and queues their updates, in order.
    ///
    /// - Throws: The errors of the overload for one record, for the first record that cannot be stored.
    @discardableResult
    public func update(_ records: [Record]) throws -> [Record] {
        try records.map { try update($0) }
    }

    /// Removes records and queues their deletes, in order.
    ///
    /// - Throws: The errors of the overload for one record, for the first record that cannot be removed.
    public func delete(_ records: [Record]) throws {
        for record in records { try delete(record) }
    }

    /// Removes the records of a query and queues their deletes, one operation for each record.
    ///
    /// - Returns: The number of records.
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, `rowIsReferenced`, `otherAccount`, or an error that every
    ///   method can throw.
    @discardableResult
    public func delete(_ query: Query<Record>) throws -> Int {
        let ids = try ids(query)
        try delete(ids: ids)
        return ids.count
    }

    /// Removes the records that match a closure over the columns, like ``delete(_:)-(Query<Record>)``.
    ///
    /// ```swift
    /// try transaction.table(Job.self).delete(where: { $0.status == .cancelled })
    /// ```
    ///
    /// - Throws: The errors of ``delete(_:)-(Query<Record>)``. Errors of the closure are rethrown.
    @discardableResult
    public func delete(where condition: (Columns<Record>) throws -> Condition) throws -> Int {
        try delete(Query(where: condition))
    }

    /// Removes the records with these ids and queues their deletes, in order.
    ///
    /// - Throws: The errors of ``delete(id:)``, for the first record that cannot be removed.
    public func delete(ids: [String]) throws {
        for id in ids { try delete(id: id) }
    }

    /// Returns the record with an id, or nil if the device does not have it.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, or an error that every method can throw.
    public func read(id: String) throws -> Record? { try reader.read(id: id) }

    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have or a negative limit or offset; `rowDoesNotFit`, unless `onDecodingFailure` skips such rows; or an
    ///   error that every method can throw.
    public func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) throws -> Page<Record> {
        try reader.read(query, onDecodingFailure: onDecodingFailure)
    }

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func count(_ query: Query<Record>) throws -> Int { try reader.count(query) }

    /// Returns whether a record matches a query, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func exists(_ query: Query<Record>) throws -> Bool { try reader.exists(query) }

    /// Returns the number of rows and the sum of a column, for all rows of a query or for each value of a column.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not have or that cannot
    ///   be added or grouped, or an error that every method can throw.
    public func totals(
        of column: String?,
        by group: String?,
        _ query: Query<Record>
    ) throws -> [RowTotals] {
        try reader.totals(of: column, by: group, query)
    }

    /// The reads of the table.
    private var reader: ReaderTable<Record> {
        ReaderTable(reader: transaction.reader, coder: coder)
    }

    private func row(_ id: String) throws -> Row? {
        try transaction.working { try $0.store.row(id: .string(id), in: name) }
    }

    /// Returns the ids of the rows of a query, in order.
    private func ids(_ query: Query<Record>) throws -> [String] {
        let now = transaction.engine.environment.now()
        var query = coder.applyingDefaults(query.table.bound(now: now))
        try query.checkWindow()
        query.select = [SystemColumn.id]
        return try transaction.working { [query] in
            try coder.rows(query, of: $0.store).map(\.id)
        }
    }

    /// Changes a row and queues the update; returns nil if there is no such row.
    private func changed(
        _ id: String,
        _ change: (inout Record) throws -> Void
    ) throws -> Row? {
        guard let stored = try row(id) else { return nil }
        let edited = try RecordEdit(of: stored, coder, change).row
        // The closure may have changed the same row by other methods.
        guard let now = try row(id) else { return nil }
        let row = RowMerge.applying(from: stored, to: edited, onto: now)
        return try changing { try $0.change(now, to: row) }
    }

    /// Returns the stored rows as records.
    private func stored(_ rows: [Row]) throws -> [Record] {
        let size = try transaction.queue().size
        for row in rows { size?.add(row) }
        return try coder.decode(rows, onDecodingFailure: .throw)
    }

    private func projection(of row: Row) -> Projection? {
        transaction.engine.projected.projection(of: row, coder, transaction.engine.catalog)
    }
}

extension TransactionTable where Record: SyncRecord {
    /// Changes the records that match a predicate, like ``update(_:_:)``.
    ///
    /// - Throws: The errors of ``update(_:_:)``. Errors of the closure are rethrown.
    @discardableResult
    public func update(
        where predicate: Predicate<Record>,
        _ change: (inout Record) throws -> Void
    ) throws -> Int {
        try update(Query(where: predicate), change)
    }

    /// Removes the records that match a predicate, like ``delete(_:)-(Query<Record>)``.
    ///
    /// - Throws: The errors of ``delete(_:)-(Query<Record>)``.
    @discardableResult
    public func delete(where predicate: Predicate<Record>) throws -> Int {
        try delete(Query(where: predicate))
    }
}
