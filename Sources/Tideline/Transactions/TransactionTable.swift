// TransactionTable: the verbs of a table inside a transaction. Nothing in it waits.

public import Foundation
import TidelineCore

/// A table inside ``SyncContext/transaction(_:)``: the verbs of ``SyncTable``, without waiting.
///
/// Reads see what the transaction has done so far.
public struct TransactionTable<Record: Sendable> {
    let transaction: SyncTransaction
    let coder: RecordCoder<Record>

    private var name: String { coder.table.name }

    private func changes() throws -> (changes: LocalChanges, seen: SeenNotes) {
        let work = try transaction.work()
        return (LocalChanges(queue: work.queue, table: name, declared: coder.declared), work.seen)
    }

    /// Stores a new record and queues its insert, as ``SyncTable/insert(_:)-(Record)``.
    @discardableResult
    public func insert(_ record: Record) throws -> Record {
        let (changes, seen) = try changes()
        let new = try NewRow(
            coder.encode(record),
            table: name,
            declared: coder.declared,
            transaction.engine.environment
        )
        return try stored([try changes.insert(new, seen: seen)])[0]
    }

    /// Stores new records and queues their inserts, in order.
    @discardableResult
    public func insert(_ records: [Record]) throws -> [Record] {
        guard !records.isEmpty else { return [] }
        let (changes, seen) = try changes()
        let environment = transaction.engine.environment
        let rows = try records.map {
            try changes.queue.watch?.check()
            return try NewRow(
                coder.encode($0),
                table: name,
                declared: coder.declared,
                environment
            )
        }
        return try stored(try changes.insert(rows, seen: seen))
    }

    /// Changes a record and queues the update, as ``SyncTable/update(_:)-(Record)``.
    @discardableResult
    public func update(_ record: Record) throws -> Record {
        let (changes, seen) = try changes()
        let row = try coder.encode(record)
        try RowCheck.checkIsLive(row, table: name)
        let stored = try changes.update(row, identity: coder.identity, seen: seen) {
            try? coder.encode(try coder.decode($0))
        }
        return try self.stored([stored])[0]
    }

    /// Reads a record, changes it and stores it.
    ///
    /// - Throws: ``SyncError`` with code `notFound` when the record is not here.
    @discardableResult
    public func update(
        id: String,
        _ change: (inout Record) throws -> Void
    ) throws -> Record {
        let (changes, seen) = try changes()
        let found = try changes.queue.store.row(id: .string(id), in: name)
        guard let stored = found else { throw SyncError.notFound(table: name, id: id) }
        let edit = try RecordEdit(of: stored, coder, change)
        return try self.stored([try changes.change(stored, to: edit.row, seen: seen)])[0]
    }

    /// Removes a record and queues the delete; one that is not here is left alone.
    public func delete(_ record: Record) throws {
        let (changes, seen) = try changes()
        let row = try coder.encode(record)
        changes.queue.size?.add(id: row.id)
        try changes.delete(row, identity: coder.identity, seen: seen)
    }

    /// Removes the record with an id and queues the delete; an unknown id is left alone.
    public func delete(id: String) throws {
        let (changes, _) = try changes()
        changes.queue.size?.add(id: id)
        try changes.delete(id)
    }

    /// Changes records and queues their updates, in order.
    @discardableResult
    public func update(_ records: [Record]) throws -> [Record] {
        try records.map { try update($0) }
    }

    /// Removes records and queues their deletes, in order.
    public func delete(_ records: [Record]) throws {
        for record in records { try delete(record) }
    }

    /// Removes the records with these ids and queues their deletes, in order.
    public func delete(ids: [String]) throws {
        for id in ids { try delete(id: id) }
    }

    /// The record with an id; nil when it is not here.
    public func read(id: String) throws -> Record? {
        let row = try transaction.work().queue.store.row(id: .string(id), in: name)
        return try row.map { try hand([$0], .fail)[0] }
    }

    /// The records of a query, and their total count when the query asks for it.
    public func read(
        _ query: Query<Record> = Query(),
        misfits: Misfits = .fail
    ) throws -> Page<Record> {
        let store = try transaction.work().queue.store
        let query = coder.meant(query.table.bound(now: transaction.engine.environment.now()))
        try query.checkWindow()
        let count = query.includesTotalCount ? try store.count(query.filter, in: name) : nil
        return Page(items: try hand(try store.rows(query, in: name), misfits), totalCount: count)
    }

    /// How many records a query has, without its window.
    public func count(_ query: Query<Record> = Query()) throws -> Int {
        let filter = coder.meant(query.filter?.bound(now: transaction.engine.environment.now()))
        return try transaction.work().queue.store.count(filter, in: name)
    }

    /// Hands out what was stored.
    private func stored(_ rows: [Row]) throws -> [Record] {
        let size = try transaction.work().queue.size
        for row in rows { size?.add(row) }
        return try hand(rows, .fail)
    }

    private func hand(_ rows: [Row], _ misfits: Misfits) throws -> [Record] {
        let records = try coder.decode(rows, misfits: misfits)
        transaction.remember(coder.silent(records, among: rows), table: name)
        return records
    }
}

extension TransactionTable where Record: SyncRecord {
    /// The records for which a closure over the columns holds.
    public func read(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        misfits: Misfits = .fail
    ) throws -> [Record] {
        let keys = try order.map { try $0.sortKey() }
        return try read(Query(where: condition).window(keys, limit, offset), misfits: misfits).items
    }

    /// How many records a closure over the columns describes.
    public func count(where condition: (Columns<Record>) throws -> Condition) throws -> Int {
        try count(Query(where: condition))
    }

    /// The records for which a predicate holds.
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        misfits: Misfits = .fail
    ) throws -> [Record] {
        let keys = try order.map { try $0.sortKey() }
        return try read(Query(where: predicate).window(keys, limit, offset), misfits: misfits).items
    }

    /// How many records a predicate describes.
    public func count(where predicate: Predicate<Record>) throws -> Int {
        try count(Query(where: predicate))
    }
}

extension TransactionTable where Record == Row {
    /// The rows for which a closure over columns by name holds.
    public func read(
        where condition: (Columns<Row>) throws -> Condition,
        sortedBy order: [SortTerm<Row>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        misfits: Misfits = .fail
    ) throws -> [Row] {
        let keys = try order.map { try $0.sortKey() }
        return try read(Query(where: condition).window(keys, limit, offset), misfits: misfits).items
    }

    /// How many rows a closure over columns by name describes.
    public func count(where condition: (Columns<Row>) throws -> Condition) throws -> Int {
        try count(Query(where: condition))
    }
}
