// SyncTable: a table on the device: every verb works with no network.

public import Foundation
import TidelineCore

/// A synchronised table on the device.
///
/// Reads and changes go to the local store; each change and its entry in the operation queue are
/// one transaction. Only ``pull(queryID:)`` and its forms use the network.
public struct SyncTable<Record: Sendable>: ReadableTable {
    let engine: SyncEngine
    let coder: RecordCoder<Record>

    var name: String { coder.table.name }

    /// Stores a new record and queues its insert.
    ///
    /// An empty id is replaced by a new lower-case UUID. Dates are rounded to milliseconds.
    ///
    /// - Returns: The record as stored.
    /// - Throws: ``SyncError`` with code `alreadyExists`, `invalidID`, `rowDoesNotFit` or
    ///   `storeFailure`; nothing is changed then.
    @discardableResult
    public func insert(_ record: Record) async throws -> Record {
        try hand(try await engine.insert(try coder.encode(record), in: name))
    }

    /// Changes a record and queues the update.
    ///
    /// A record whose `version` is older than the stored one is based on that older version: the
    /// push meets it as a conflict. A record type without a `version` changes only the fields that
    /// differ from what this table last handed out.
    ///
    /// - Returns: The record as stored.
    /// - Throws: ``SyncError`` with code `notFound` when the record is not here.
    @discardableResult
    public func update(_ record: Record) async throws -> Record {
        let coder = coder
        let row = try coder.encode(record)
        return try hand(
            try await engine.update(row, in: name) { try? coder.encode(try coder.decode($0)) }
        )
    }

    /// Reads a record, changes it and stores it, in one step: what the documentation recommends.
    ///
    /// Nothing that a pull or another task stored in between is overwritten: then `change` is
    /// called again with the newer record.
    ///
    /// ```swift
    /// try await todos.update(id: milk.id) { $0.complete = true }
    /// ```
    @discardableResult
    public func update(
        id: String,
        _ change: (inout Record) throws -> Void
    ) async throws -> Record {
        while true {
            let table = name
            guard
                let stored = try await engine.read({
                    try $0.store.row(id: .string(id), in: table)
                })
            else { throw SyncError.notFound(table: name, id: id) }
            var record = try coder.decode(stored)
            let before = try coder.encode(record)
            try change(&record)
            let after = try coder.encode(record)
            guard ItemKey(after.id) == ItemKey(id) else {
                throw SyncError(.invalidID, "An update cannot change the id of a record.")
            }
            var row = stored
            for (name, value) in RowMerge.changes(from: before, to: after) { row[name] = value }
            if let result = try await engine.replace(stored, with: row, in: table) {
                return try hand(result)
            }
            try Task.checkCancellation()
        }
    }

    /// Removes a record and queues the delete; one that is not here is left alone.
    public func delete(_ record: Record) async throws {
        let row = try coder.encode(record)
        try await engine.delete(row.id, version: row.version, in: name)
    }

    /// Removes the record with an id and queues the delete; an unknown id is left alone.
    public func delete(id: String) async throws {
        try await engine.delete(id, in: name)
    }

    /// The record with an id; nil when it is not here.
    public func read(id: String) async throws -> Record? {
        let table = name
        let row = try await engine.read { try $0.store.row(id: .string(id), in: table) }
        return try row.map(hand)
    }

    /// The records of a query, and their total count when the query asks for it.
    ///
    /// Runs beside the caller: a long list must not hold up the main actor.
    @concurrent
    public func read(_ query: Query<Record>, misfits: Misfits) async throws -> Page<Record> {
        let (table, query) = (name, query.table)
        let (rows, count) = try await engine.read { reader in
            (
                try reader.store.rows(query, in: table),
                query.includesTotalCount ? try reader.store.count(query.filter, in: table) : nil
            )
        }
        return Page(items: try hand(rows, misfits), totalCount: count)
    }

    /// How many records a query has, without its window.
    public func count(_ query: Query<Record>) async throws -> Int {
        let (table, filter) = (name, query.filter)
        return try await engine.read { try $0.store.count(filter, in: table) }
    }

    private func hand(_ row: Row) throws -> Record {
        let record = try coder.decode(row)
        remember([record], among: [row])
        return record
    }

    private func hand(_ rows: [Row], _ misfits: Misfits) throws -> [Record] {
        let records = try coder.decode(rows, misfits: misfits)
        remember(records, among: rows)
        return records
    }

    /// Remembers what goes out without a version, which an update is measured against.
    ///
    /// A type with a version has none before the first push, and in a selection of other fields.
    private func remember(_ records: [Record], among rows: [Row]) {
        let declares = coder.declares(SystemColumn.version)
        if declares, rows.allSatisfy({ $0.version != nil }) { return }
        let encoded = records.compactMap { try? coder.encode($0) }
        engine.handedOut.remember(encoded.filter { $0.version == nil }, name)
    }
}

// MARK: - Observing

extension SyncTable {
    func observe(_ query: Result<TableQuery, any Error>) -> AsyncThrowingStream<[Record], any Error>
    {
        let (table, current) = (name, self)
        return AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            // Listening begins before the first read, so that no change falls between them.
            let changes = engine.store.changes()
            let task = Task {
                do {
                    let query = try query.get()
                    var last: (rows: [Row], shown: [Row])?
                    func send() async throws {
                        let rows = try await current.engine.read {
                            try $0.store.rows(query, in: table)
                        }
                        guard rows != last?.rows else { return }
                        let records = try current.hand(rows, .fail)
                        // A push changes the version of a row, which the record may not show.
                        let shown = try records.map(current.coder.encode)
                        let isNews = shown != last?.shown
                        last = (rows, shown)
                        if isNews { continuation.yield(records) }
                    }
                    try await send()
                    for await changed in changes where changed.contains(table) {
                        try await send()
                    }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// All records, now and after every change.
    ///
    /// A change that leaves the result as it was gives no value; a listener that does not keep up
    /// gets the newest result only.
    public func observe(
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query<Record>().window(order.map { try $0.sortKey() }, limit, 0).table }
        )
    }
}

extension SyncTable where Record: SyncRecord {
    /// The records for which a closure over the columns holds, now and after every change.
    ///
    /// ```swift
    /// for try await items in todos.observe(where: { !$0.complete }) { show(items) }
    /// ```
    public func observe(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result {
                try Query(where: condition).window(order.map { try $0.sortKey() }, limit, 0).table
            }
        )
    }

    /// The records for which a closure over the columns holds, in the order of descriptors.
    public func observe(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0).table }
        )
    }

    /// The records for which a predicate holds, now and after every change.
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result {
                try Query(where: predicate).window(order.map { try $0.sortKey() }, limit, 0).table
            }
        )
    }

    /// The records for which a predicate holds, in the order of descriptors.
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0).table }
        )
    }
}
