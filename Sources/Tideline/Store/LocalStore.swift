// LocalStore: the database on the device, as the client requires it.
//
// A store is a set of tables with rows and transactions. The queue, the errors, and the cursors are
// rows of system tables (SystemTables.swift). A row and its queued operation, or a page and its
// cursor, therefore share one transaction in any store. There are three stores: SQLiteStore, and
// the test kit's MemoryStore and AppendFileStore. `LocalStoreConformance` in the test kit checks
// any other store.

public import Foundation
public import TidelineCore

/// A database on the device.
///
/// The client relies on these guarantees. A transaction is applied completely or not at all, even
/// if the process is killed. After ``write(_:)`` returns, its changes survive a loss of power. A
/// read sees a committed state, never a part of a transaction. <doc:WritingAStore> has an example
/// and explains how to check a store.
public protocol LocalStore: Sendable {
    /// Creates missing tables and columns.
    ///
    /// The client calls this method once, before any other method.
    ///
    /// Existing rows are kept, and so are columns that the schema no longer contains.
    ///
    /// - Throws: The error that prevents the use of the store. An error other than ``SyncError`` is
    ///   rethrown as a ``SyncError`` with code `storeFailure`.
    func open(tables: [TableSchema]) async throws

    /// Runs `body` on a consistent state of the store.
    ///
    /// - Throws: The errors of `body`, unchanged, and the store's errors. A store error other than
    ///   ``SyncError`` is rethrown as a ``SyncError`` with code `storeFailure`.
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result

    /// Runs `body` in one exclusive transaction.
    ///
    /// - Throws: The errors of `body`, unchanged, and the store's errors, as ``read(_:)`` throws
    ///   them. On any error, the transaction is rolled back.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Runs `body` in a transaction that may be missing after a loss of power, for changes that can
    /// be repeated.
    ///
    /// After a loss of power, the most recent of these transactions may be missing, each as a
    /// whole. A transaction is never missing if a later ``write(_:)`` that changed something has
    /// returned. By default, this method calls ``write(_:)``.
    ///
    /// - Throws: The errors of ``write(_:)``.
    func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Returns a stream with the names of the tables that each transaction changed, after its
    /// commit.
    ///
    /// Every call returns a separate stream. The changes of several transactions may be merged.
    func changes() -> AsyncStream<Set<String>>

    /// Returns a stream with the rows that each transaction changed, if the store knows them, after
    /// its commit.
    ///
    /// An observed query runs again only if a changed row may belong to its result. By default, all
    /// rows of the tables from ``changes()`` count as changed.
    func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable

    /// An identifier of the store's file, which is different for a copy; nil if the store has no
    /// identifier.
    ///
    /// Writing to the file, renaming it, or moving it within its volume does not change the
    /// identifier. ``SyncContext`` saves the identifier in the store. If the saved identifier
    /// differs, the store is a copy, and the original may still be in use.
    var fileIdentity: String? { get }

    /// Closes the store; later calls throw.
    ///
    /// Running calls finish first. A store that keeps no file open does not need to implement this
    /// method.
    ///
    /// - Throws: The error that prevents the store from completing its work.
    func close() async throws

    /// Finishes all work and releases files and locks, because the app is about to be suspended.
    ///
    /// Running transactions finish first; the client calls ``interruptTransactions()`` if that
    /// takes too long. Until ``resume()``, reads and changes still work, but they release every
    /// file and lock when they are done. A store that keeps no file open does not need to implement
    /// this method.
    func suspend() async

    /// Rolls back the running transactions, because the app is about to be suspended.
    ///
    /// The client calls this method from another thread while a transaction runs, and the method
    /// does not wait for the transaction to end. The transaction throws, or is committed if it can
    /// no longer be rolled back.
    func interruptTransactions()

    /// Resumes normal work after ``suspend()``.
    func resume()

    // MARK: - Stores that several processes use

    /// Acquires the turn to push, pull, purge, or verify, which only one process can have at a
    /// time.
    ///
    /// A process may acquire the turn several times, and must release it equally often with
    /// ``releaseSyncLease(_:)``. By default, every call gets a turn, because no other process uses
    /// the store.
    ///
    /// - Parameters:
    ///   - now: The wall clock.
    ///   - lease: The time without a transaction after which another process may take over the
    ///     turn.
    ///   - isForced: Whether to take the turn from a process that still has it.
    /// - Returns: The number of the turn; nil if another process has the turn.
    func acquireSyncLease(at now: Date, duration lease: Duration, isForced: Bool) -> Int?

    /// Renews the lease of a turn.
    ///
    /// The client calls this method within each transaction of a push or pull.
    ///
    /// - Returns: Whether the process still has the turn; by default true.
    func renewSyncLease(_ turn: Int, at now: Date, duration lease: Duration) -> Bool

    /// Releases a turn.
    func releaseSyncLease(_ turn: Int)

    // MARK: - Stores with files

    /// The number of free bytes on the disk; a push prepares only requests that fit.
    ///
    /// Nil, the default, means no limit.
    var freeBytes: Int64? { get }

    /// Removes deleted values from the store's log.
    ///
    /// The client calls this method after a purge.
    ///
    /// - Returns: Whether the log contains no deleted values; by default true. If false, the client
    ///   repeats the call for up to a second.
    func checkpoint() async -> Bool

    /// Returns the space of removed rows to the disk if at least half of the file is free; by
    /// default, does nothing.
    ///
    /// The client calls this method after a purge. The method stops at the deadline.
    func compactIfHalfFree(deadline: Duration) async

    /// The contexts that report this store's checks as events; nil, the default, if the store has
    /// no check.
    ///
    /// Every call returns the same object, to which the contexts add themselves.
    var checkListeners: CheckListeners? { get }
}

extension LocalStore {
    /// Returns nil, because the store cannot distinguish a copy from the original.
    public var fileIdentity: String? { nil }

    /// Reports that all rows changed in the tables from ``changes()``.
    public func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable {
        changes().map { StoreChange(all: $0) }
    }

    /// Gives every caller a turn.
    public func acquireSyncLease(at now: Date, duration lease: Duration, isForced: Bool) -> Int? {
        0
    }

    /// Returns true.
    public func renewSyncLease(_ turn: Int, at now: Date, duration lease: Duration) -> Bool { true }

    /// Does nothing.
    public func releaseSyncLease(_ turn: Int) {}

    /// Returns nil, because the free space is not known.
    public var freeBytes: Int64? { nil }

    /// Returns true, because the store has no log that could contain deleted values.
    public func checkpoint() async -> Bool { true }

    /// Does nothing.
    public func compactIfHalfFree(deadline: Duration) async {}

    /// Returns nil, because the store has no check.
    public var checkListeners: CheckListeners? { nil }

    /// Does nothing.
    public func suspend() async {}

    /// Does nothing.
    public func interruptTransactions() {}

    /// Does nothing.
    public func resume() {}

    /// Does nothing.
    ///
    /// - Throws: Nothing.
    public func close() async throws {}

    /// Runs `body` in a durable transaction.
    ///
    /// - Throws: The errors of ``write(_:)``.
    public func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result { try await write(body) }
}

/// A reader within a transaction.
///
/// A reader is valid only during the call that receives it.
public protocol LocalStoreReader {
    /// Returns the rows of a query: filtered, ordered with ties broken by `id`, and limited by
    /// `limit` and `offset`.
    ///
    /// A row has every value that was stored, and `.null` for schema columns without a value.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the store cannot run the query, or
    ///   `unknownTable` if the table was not opened, and the store's errors.
    func rows(_ query: TableQuery, in table: String) throws -> [Row]

    /// Returns the row with this key; nil if there is none.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func row(id: Value, in table: String) throws -> Row?

    /// Returns the number of rows that a filter matches.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func count(_ filter: Filter?, in table: String) throws -> Int

    /// Returns the number of rows and the sum of a column, for all rows or for each value of a
    /// group column.
    ///
    /// Without a group column, the result has one element, even if no row matches. By default, this
    /// method reads the rows and adds the values in memory. A database is faster, but its result
    /// must be the same.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func totals(_ query: TotalsQuery, in table: String) throws -> [RowTotals]

    /// Returns the rows of a SQL statement that an app wrote.
    ///
    /// The statement may only read the tables of the request. By default, this method rejects the
    /// statement, because only ``SQLiteStore`` supports SQL. A store that wraps another store
    /// forwards the call.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the statement is invalid or not
    ///   allowed, and the store's errors.
    func sql(_ request: SQLRequest) throws -> SQLRows

    /// Returns the rows of a query with all columns except one.
    ///
    /// By default, the column is removed from the result of ``rows(_:in:)``. It is faster not to
    /// read the column.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func rows(_ query: TableQuery, in table: String, omitting column: String) throws -> [Row]

    /// Returns the rows of a query for decoding as records, without one column.
    ///
    /// A store may return the members that are not in the schema as one JSON object in the member
    /// `__extra`. The decoder reads the object if the record type asks for such a member. By
    /// default, this method calls ``rows(_:in:omitting:)``.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func recordRows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row]

    /// Returns the rows that have one of several keys in a column, without another column, in the
    /// format of ``recordRows(_:in:omitting:)``.
    ///
    /// The client reads related records with this method. By default, it reads the matching rows of
    /// all keys together, and groups them by key in memory.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func keyedRows(_ query: KeyedQuery, in table: String, omitting column: String) throws -> [Row]

    /// The committed state that this reader sees; nil, the default, if the store does not identify
    /// its states.
    ///
    /// In a transaction that writes, the state is nil.
    var state: StoreState? { get }

    /// Returns the changes between an earlier state and this reader's state; nil, the default, if
    /// the store does not know all of them.
    ///
    /// With these changes, an observation reads only the changed rows. Otherwise, it reads all rows
    /// of its queries again.
    func changes(since state: StoreState) -> StoreChange?

    /// Whether the store can evaluate conditions on the rows of other tables.
    ///
    /// By default, this is false: the client reads the other table first, and passes a condition
    /// with a list of keys.
    var evaluatesRelatedRows: Bool { get }

    /// Returns the matching rows whose values may differ from the values that the store wrote.
    ///
    /// `verify` reads these rows from the server again. By default, there are none, because the
    /// store cannot detect that another program changed its data.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func uncertainRows(_ filter: Filter?, in table: String) throws -> UncertainRows

    /// Returns the rows of a query, with the text ranges that match its searches.
    ///
    /// By default, this method throws, because only ``SQLiteStore`` has search indexes. A store
    /// that wraps another store forwards the call.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func search(_ query: TableQuery, in table: String) throws -> [SearchedRow]
}

extension LocalStoreReader {
    /// Always throws, because the store has no search index.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`.
    public func search(_ query: TableQuery, in table: String) throws -> [SearchedRow] {
        throw SyncError.noSearch()
    }

    /// Removes the column from the rows of ``rows(_:in:)``.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    public func rows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] {
        var member = RowMember(column)
        return try rows(query, in: table).map { member.removed(from: $0) }
    }

    /// Calls ``rows(_:in:omitting:)``.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    public func recordRows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] { try rows(query, in: table, omitting: column) }

    /// Returns no rows.
    ///
    /// - Throws: Nothing.
    public func uncertainRows(_ filter: Filter?, in table: String) throws -> UncertainRows {
        UncertainRows()
    }
}

extension LocalStoreReader {
    /// Reads the matching rows of all keys and groups them in memory.
    ///
    /// - Throws: The errors of ``LocalStoreReader/rows(_:in:)``.
    public func keyedRows(
        _ query: KeyedQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] {
        var all = query.query
        (all.limit, all.offset) = (nil, 0)
        // A row without a key belongs to no group.
        let exists = Filter.differs(query.column, from: .null)
        all.filter = all.filter.map { $0 && exists } ?? exists
        return query.divided(try recordRows(all, in: table, omitting: column))
    }

    /// Returns false, so that the client reads the other table first and passes a list of keys.
    public var evaluatesRelatedRows: Bool { false }

    /// Returns nil, because the store does not identify its states.
    public var state: StoreState? { nil }

    /// Returns nil, because the store does not remember changes.
    public func changes(since state: StoreState) -> StoreChange? { nil }
}

/// The ids of rows whose values may differ from the values that the store wrote.
public struct UncertainRows: Sendable {
    /// The rows that another program changed.
    public var changed: [String]
    /// The rows without a checksum, which the store cannot check.
    public var unknown: [String]

    /// Creates a list of rows.
    public init(changed: [String] = [], unknown: [String] = []) {
        self.changed = changed
        self.unknown = unknown
    }

    /// The ids of the rows of both kinds.
    var ids: [String] { changed + unknown }
}

/// A writer within a transaction.
///
/// A writer is valid only during the call that receives it.
public protocol LocalStoreWriter: LocalStoreReader {
    /// Stores complete rows; replaces rows with the same `id`.
    ///
    /// Members that the schema does not contain are stored too.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable`, and the errors of the store, which end the
    ///   transaction.
    func put(_ rows: [Row], in table: String) throws

    /// Stores a row under a new key in a table with integer keys; ignores the row's `id`.
    ///
    /// The key is greater than any key that the table has ever had, including the keys of removed
    /// rows. By default, the counter is a row of the configuration.
    ///
    /// - Returns: The key.
    /// - Throws: The errors of ``put(_:in:)``.
    func append(_ row: Row, in table: String) throws -> Int64

    /// Removes rows and returns how many of them existed.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    @discardableResult
    func delete(ids: [Value], in table: String) throws -> Int

    /// Sets one column of an existing row.
    ///
    /// By default, the whole row is read and stored again.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func set(_ column: String, to value: Value, ofRow id: Value, in table: String) throws

    /// Stores the rows of a page from the server; replaces rows with the same `id`.
    ///
    /// By default, the page is converted to rows. ``SQLiteStore`` stores the values without
    /// creating rows.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func put(page: RowPage, in table: String) throws

    /// Records that a row differs from the row that the server sent with the same version.
    ///
    /// ``LocalStoreReader/uncertainRows(_:in:)`` returns the row until it is stored again. By
    /// default, this method does nothing. A store that implements this method also implements
    /// ``set(_:to:ofRow:in:)``, which must keep the record.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func noteUncertain(rowWith id: String, in table: String) throws

    /// Removes the words of removed rows from the pages of the table's search index.
    ///
    /// The client calls this method in the transaction of a purge, after the rows were removed. By
    /// default, the method does nothing, because the store has no search index.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func eraseRemovedWords(in table: String) throws
}

extension LocalStoreWriter {
    /// Does nothing, because the store has no search index.
    ///
    /// - Throws: Nothing.
    public func eraseRemovedWords(in table: String) throws {}

    /// Reads the row, sets the column, and stores the whole row.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    public func set(
        _ column: String,
        to value: Value,
        ofRow id: Value,
        in table: String
    ) throws {
        guard var row = try row(id: id, in: table) else { return }
        row[column] = value
        try put([row], in: table)
    }

    /// Stores the rows of the page.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    public func put(page: RowPage, in table: String) throws {
        try put(page.rows(), in: table)
    }

    /// Does nothing.
    ///
    /// - Throws: Nothing.
    public func noteUncertain(rowWith id: String, in table: String) throws {}
}

/// The rows of a page from the server, ready to be stored.
public struct RowPage: Sendable {
    /// The values, which point into the bytes of the response.
    let cells: PageCells
    /// The membership mask that all rows get.
    let bits: Int64
    private let schema: TableSchema?

    package init(_ cells: PageCells, bits: Int64, schema: TableSchema?) {
        self.cells = cells
        self.bits = bits
        self.schema = schema
    }

    /// Returns the rows.
    ///
    /// - Throws: ``SyncError`` if a value does not fit its column.
    public func rows() throws -> [Row] {
        var masks = MaskWriter()
        var deleted = RowMember(SystemColumn.deleted)
        return try PulledPage.rows(of: cells, schema: schema).map { row in
            masks.row(deleted.removed(from: row), bits: bits)
        }
    }
}

extension TableQuery {
    /// Returns the query with the column names and types of a table, for stores that evaluate it
    /// with `apply(to:)`.
    ///
    /// Literals are converted to the types of their columns. Enumerations are ordered by position.
    /// `deleted` is always false, because a store has no deleted rows.
    ///
    /// ```swift
    /// let found = try query.checked(for: schema).apply(to: all).rows
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the table does not have a column, or
    ///   if an expression is not valid for the type of its column.
    public func checked(for schema: TableSchema) throws -> TableQuery {
        guard !searches else { throw SyncError.noSearch() }
        do {
            return try FilterChecker(onDevice: schema).query(self)
        } catch {
            throw SyncError.unsupportedQuery(error.message)
        }
    }
}

extension LocalStoreWriter {
    /// Stores a row under the key after the last one; the last key is stored in the configuration.
    ///
    /// - Throws: The errors of reading and storing.
    public func append(_ row: Row, in table: String) throws -> Int64 {
        let counter = Value.string("operation|last")
        let text = try self.row(id: counter, in: SystemTables.config)?["value"]?.text
        let id = (text.flatMap { Int64($0) } ?? 0) + 1
        var row = row
        row["id"] = .integer(id)
        try put([row], in: table)
        let last: Row = [
            "id": counter, "key": "operation", "keyType": 2, "table": "",
            "value": .string(String(id)),
        ]
        try put([last], in: SystemTables.config)
        return id
    }
}
