// SyncTable: a table on the device. Reads and changes work without a network.

public import Foundation
import TidelineCore

/// A synchronized table on the device.
///
/// Reads and changes go to the local store. A change and its queued operation are stored in one transaction. Only
/// ``pull(queryID:_:)``, its overloads and the other sync methods use the network. ``ReadableTable`` provides the reads
/// with closures and predicates.
public struct SyncTable<Record: Sendable>: ReadableTable {
    let engine: SyncEngine
    let coder: RecordCoder<Record>

    var name: String { coder.table.name }

    /// Stores a new record and queues its insert.
    ///
    /// An empty id is replaced by a new lowercase UUID. Dates are rounded to milliseconds.
    ///
    /// ```swift
    /// let milk = try await todos.insert(TodoItem(text: "Buy milk"))
    /// ```
    ///
    /// - Returns: The record as stored.
    /// - Throws: ``SyncError`` with code `alreadyExists`, `invalidID`, `rowDoesNotFit` or
    ///   `storeFailure`. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func insert(_ record: Record) async throws -> Record {
        let row = try coder.encode(record)
        try projection(of: row)?.check(insert: row)
        return try hand(try await engine.localEdits.insert(row, in: name, declared: coder.declared))
    }

    /// Stores new records and queues their inserts, in order: all of them or none.
    ///
    /// All inserts share one transaction, which is much faster than one call for each record.
    ///
    /// ```swift
    /// try await todos.insert(lines.map { TodoItem(text: $0) })
    /// ```
    ///
    /// - Returns: The records as stored.
    /// - Throws: The errors of ``insert(_:)-(Record)`` for the first record that cannot be stored, or ``SyncError``
    ///   with code `cancelled` if the task is cancelled before all are stored. On an error, nothing is changed.
    @discardableResult
    @concurrent
    public func insert(_ records: [Record]) async throws -> [Record] {
        let rows = try records.map { record in
            if Task.isCancelled { throw SyncError.cancelledChange("insert", CancellationError()) }
            let row = try coder.encode(record)
            try projection(of: row)?.check(insert: row)
            return row
        }
        return try hand(
            try await engine.localEdits.insert(rows, in: name, declared: coder.declared),
            .throw
        )
    }

    /// Changes a record and queues the update.
    ///
    /// Only the columns that the app changed are written. The record's `version`, or else its `updatedAt`, identifies
    /// the state that the app read. If only pushes from this device have replaced that state, it still counts as the
    /// current state. If another device has replaced it, the update is based on the older version, and the push reports
    /// a conflict. A record that was just inserted has neither value; it identifies the inserted row even after the
    /// insert was pushed.
    ///
    /// A record that was read with ``Query/selecting(_:)`` has nil or defaults in the properties that were not read. If
    /// the row has different values there, the update throws ``SyncError`` with code `partialRecord`: use
    /// ``update(id:_:)`` instead.
    ///
    /// ```swift
    /// var item = milk
    /// item.text = "Buy oat milk"
    /// item = try await todos.update(item)
    /// ```
    ///
    /// - Returns: The record as stored.
    /// - Throws: ``SyncError`` with code `versionRequired` if the record type has neither `version` nor
    ///   `updatedAt`, `notFound` if the device does not have the record, `partialRecord` or `rowDoesNotFit`.
    @discardableResult
    @concurrent
    public func update(_ record: Record) async throws -> Record {
        let coder = coder
        try coder.checkIdentity()
        let row = try coder.encode(record)
        try RowCheck.checkIsLive(row, table: name)
        return try hand(
            try await engine.localEdits.update(
                row,
                in: name,
                identity: coder.identity,
                declared: coder.declared,
                projection: projection(of: row)
            ) {
                try? coder.encode(try coder.decode($0))
            }
        )
    }

    /// Reads a record, changes it and stores it, in one step.
    ///
    /// This is the recommended way to update.
    ///
    /// A change that a pull or another task stores in the meantime is never overwritten: `change` is called
    /// again with the newer record.
    ///
    /// ```swift
    /// try await todos.update(id: milk.id) { $0.complete = true }
    /// ```
    ///
    /// - Returns: The record as stored.
    /// - Throws: ``SyncError`` with code `notFound` if the device does not have the record, `invalidID` if
    ///   `change` gives it another id, `rowDoesNotFit`, `otherAccount` or `cancelled`, and the errors of `change`.
    ///   On an error, nothing is changed.
    @discardableResult
    public func update(
        id: String,
        _ change: (inout Record) throws -> Void
    ) async throws -> Record {
        while true {
            let (stored, read, before) = try await decoded(id)
            let edit = try RecordEdit(of: stored, read, before: before, coder, change)
            if let result = try await engine.localEdits.replace(
                stored,
                with: edit.row,
                in: name,
                declared: coder.declared
            ) {
                return try await handed(result)
            }
            if Task.isCancelled { throw SyncError.cancelled("update", CancellationError()) }
        }
    }

    /// Returns a stored row, its record, and the encoded form of that record.
    @concurrent
    private func decoded(_ id: String) async throws -> (stored: Row, read: Record, before: Row) {
        let table = name
        let row = try await engine.read { try $0.store.row(id: .string(id), in: table) }
        guard let row else { throw SyncError.notFound(table: table, id: id) }
        let record = try coder.decode(row)
        return (row, record, try coder.encode(record))
    }

    /// Removes a record, applies the delete rules of the references to it, and queues all resulting operations.
    ///
    /// Does nothing if the device does not have the record. See <doc:Relations>.
    ///
    /// The record identifies the state that the app read: the push reports a conflict if another device has changed the
    /// row since then.
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, `transactionTooLarge` if more than
    ///   ``SyncLimits/cascadeRowsMax`` other records would change, `otherAccount` or `storeFailure`.
    @concurrent
    public func delete(_ record: Record) async throws {
        let row = try coder.encode(record)
        try await engine.localEdits.delete(row, in: name, identity: coder.identity)
    }

    /// Removes the record with an id, applies the delete rules of the references to it, and queues all resulting
    /// operations.
    ///
    /// Does nothing if the id is unknown. See <doc:Relations>.
    ///
    /// ```swift
    /// try await todos.delete(id: milk.id)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `rowIsReferenced`, `transactionTooLarge` if more than
    ///   ``SyncLimits/cascadeRowsMax`` other records would change, `otherAccount` or `storeFailure`.
    @concurrent
    public func delete(id: String) async throws {
        try await engine.localEdits.delete(id, in: name)
    }

    /// Returns the record with an id, or nil if the device does not have it.
    ///
    /// ```swift
    /// let item = try await todos.read(id: milk.id)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit` or `storeFailure`.
    @concurrent
    public func read(id: String) async throws -> Record? {
        let table = name
        let row = try await engine.read { try $0.store.row(id: .string(id), in: table) }
        return try row.map(hand)
    }

    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// Runs off the caller's actor, so that a long list does not block the main actor.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have or a negative limit or offset; `rowDoesNotFit`, unless `onDecodingFailure` skips such rows; or
    ///   `storeFailure`.
    @concurrent
    public func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) async throws -> Page<Record> {
        let (table, coder) = (name, coder)
        let query = coder.applyingDefaults(query.table.bound(now: engine.environment.now()))
        try query.checkWindow()
        let (rows, count) = try await engine.read { reader in
            (
                try coder.rows(query, of: reader.store),
                query.includesTotalCount ? try reader.store.count(query.filter, in: table) : nil
            )
        }
        return Page(
            items: try hand(rows, onDecodingFailure, selecting: query.select),
            totalCount: count
        )
    }

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `storeFailure`.
    @concurrent
    public func count(_ query: Query<Record>) async throws -> Int {
        let (table, filter) = (
            name, coder.applyingDefaults(query.filter?.bound(now: engine.environment.now()))
        )
        return try await engine.read { try $0.store.count(filter, in: table) }
    }

    @concurrent
    private func handed(_ row: Row) async throws -> Record { try hand(row) }

    private func hand(_ row: Row) throws -> Record {
        try coder.decode(row)
    }

    func hand(
        _ rows: [Row],
        _ onDecodingFailure: DecodingFailurePolicy,
        selecting names: [String]? = nil
    ) throws -> [Record] {
        let records = try coder.decode(rows, onDecodingFailure: onDecodingFailure)
        engine.projected.handOut(rows, selecting: names, coder)
        return records
    }

    private func projection(of row: Row) -> Projection? {
        engine.projected.projection(of: row, coder, engine.catalog)
    }
}

extension SyncTable {
    /// Returns the records that contain all words of a search text, the best matches first.
    ///
    /// ```swift
    /// for hit in try await todos.search("oat mil*") { show(hit.snippet(\.text)) }
    /// ```
    ///
    /// ``Columns/matching(_:)`` describes the syntax of the search text. If the search text has no words, the result is
    /// the first records by id, without matches.
    ///
    /// - Parameters:
    ///   - text: The words to search for.
    ///   - condition: A condition that the records also satisfy.
    ///   - limit: The maximum number of records; a value above 1,000 counts as 1,000.
    /// - Returns: The records, each with its matches.
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the model declares no ``SyncRecord/search``, if the
    ///   store is not a ``SQLiteStore``, or for a text of more than 1,000 bytes or 32 words; `rowDoesNotFit`;
    ///   `storeFailure`. Errors of the closure are rethrown.
    public func search(
        _ text: String,
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        limit: Int = 50
    ) async throws -> [SearchHit<Record>] {
        try await found(try searchQuery(text, Query(where: condition), limit))
    }

    @concurrent
    private func found(_ query: TableQuery) async throws -> [SearchHit<Record>] {
        try hits(try await searchedRows(query), .throw)
    }

    /// Emits the records that contain all words of a search text, now and after every change to the table.
    ///
    /// ```swift
    /// for try await hits in todos.observeSearch("oat mil*") { show(hits) }
    /// ```
    ///
    /// A change that does not affect the result emits no value. A row that does not decode is skipped. The iteration
    /// throws the errors of a search.
    public func observeSearch(
        _ text: String,
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        limit: Int = 50
    ) -> some AsyncSequence<[SearchHit<Record>], any Error> & Sendable {
        let query = Result { try searchQuery(text, Query(where: condition), limit) }
        return QueryObservation(engine: engine).observe { ObservedHits(self, try query.get()) }
    }

    private func searchQuery(
        _ text: String,
        _ query: Query<Record>,
        _ limit: Int
    ) throws -> TableQuery {
        var query = query.matching(text).table
        query.limit = Swift.min(limit, Self.hitsMax)
        try query.checkWindow()
        return query
    }

    /// The maximum number of records that a search returns; each record needs two excerpts for each column.
    private static var hitsMax: Int { 1000 }

    func searchedRows(_ query: TableQuery) async throws -> [SearchedRow] {
        let table = name
        let query = coder.applyingDefaults(query.bound(now: engine.environment.now()))
        return try await engine.read { try $0.store.search(query, in: table) }
    }

    func hits(
        _ rows: [SearchedRow],
        _ onDecodingFailure: DecodingFailurePolicy
    ) throws -> [SearchHit<Record>] {
        let coder = coder
        return try rows.compactMap { found in
            guard let record = try hand([found.row], onDecodingFailure).first else { return nil }
            return SearchHit(record, found) { try coder.column(for: $0) }
        }
    }
}

extension SyncTable where Record: SyncRecord {
    /// Returns the records that contain all words of a search text and match a predicate, the best matches first.
    ///
    /// - Throws: The errors of the search with a closure.
    public func search(
        _ text: String,
        where predicate: Predicate<Record>,
        limit: Int = 50
    ) async throws -> [SearchHit<Record>] {
        try await found(try searchQuery(text, Query(where: predicate), limit))
    }

    /// Emits the records that contain all words of a search text and match a predicate, now and after every change to
    /// the table.
    ///
    /// The iteration throws the errors of a search with a predicate.
    public func observeSearch(
        _ text: String,
        where predicate: Predicate<Record>,
        limit: Int = 50
    ) -> some AsyncSequence<[SearchHit<Record>], any Error> & Sendable {
        let query = Result { try searchQuery(text, Query(where: predicate), limit) }
        return QueryObservation(engine: engine).observe { ObservedHits(self, try query.get()) }
    }
}
