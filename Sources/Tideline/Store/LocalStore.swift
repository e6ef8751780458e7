// LocalStore: the database that the client needs on the device.
//
// A store is a set of tables of rows with transactions. The queue, the errors and the cursors are
// rows of system tables (SystemTables.swift), so that a row and its queued operation, or a page and its
// cursor, share one transaction in any store. Three stores exist: SQLiteStore, and MemoryStore and
// AppendFileStore of the test kit. `LocalStoreConformance` in the test kit checks another one.

public import Foundation
public import TidelineCore

/// A database on the device.
///
/// The client relies on these guarantees: a transaction is applied completely or not at all, even if the
/// process is killed; after ``write(_:)`` returns, its changes survive a loss of power; a read sees the state
/// between two transactions. <doc:WritingAStore> has an example and explains how to check a store.
public protocol LocalStore: Sendable {
    /// Creates the tables and columns that are missing.
    ///
    /// Called once, before any other method.
    ///
    /// Existing rows are kept, and so are columns that a schema no longer names.
    ///
    /// - Throws: The error that prevents the use of the store. An error other than ``SyncError`` is
    ///   passed on as one with code `storeFailure`.
    func open(tables: [TableSchema]) async throws

    /// Runs `body` on a consistent state.
    ///
    /// - Throws: The errors of `body`, unchanged, and those of the store. A store error other than
    ///   ``SyncError`` is passed on as one with code `storeFailure`.
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result

    /// Runs `body` in one exclusive transaction.
    ///
    /// - Throws: The errors of `body`, unchanged, and the store's errors that ``read(_:)`` throws. On any error, the
    ///   transaction is rolled back.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Runs `body` in a transaction that need not survive a loss of power, for changes that can be repeated.
    ///
    /// After a loss of power, the last of these transactions may be missing, each as a whole, but none that
    /// preceded a ``write(_:)`` that changed something and returned. By default, this calls ``write(_:)``.
    ///
    /// - Throws: The errors of ``write(_:)``.
    func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Returns the names of the tables that each transaction changed, after it was committed.
    ///
    /// Every call returns a separate stream. Bursts may be merged.
    func changes() -> AsyncStream<Set<String>>

    /// Returns the rows that each transaction changed, if the store knows them, after it was committed.
    ///
    /// An observed query runs again only if a changed row may belong to its result. By default, every row of a table
    /// that ``changes()`` names counts as changed.
    func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable

    /// An identifier of the store's file, which a copy does not share; nil if the store has none.
    ///
    /// It does not change when the file is written to, renamed or moved within its volume. ``SyncContext``
    /// saves it in the store: if the saved identifier differs, the store is a copy, and the original may still
    /// be in use.
    var fileIdentity: String? { get }

    /// Closes the store. Later calls throw.
    ///
    /// Running calls finish first. A store that keeps no file open need not implement this.
    ///
    /// - Throws: The error that prevents the store from finishing its work.
    func close() async throws

    /// Ends all work and releases files and locks, because the app is about to be suspended.
    ///
    /// Running transactions finish first; the client calls ``interruptTransactions()`` if that takes too long. Reads
    /// and changes still work until ``resume()``, but keep no file or lock after they are done. A store that keeps no
    /// file open need not implement it.
    func suspend() async

    /// Rolls back the running transactions, because the app is about to be suspended.
    ///
    /// Called from another thread while a transaction runs, and does not wait for its end. The transaction throws, or
    /// is committed if it can no longer be rolled back.
    func interruptTransactions()

    /// Resumes the normal work after ``suspend()``.
    func resume()

    // MARK: - Stores that several processes use

    /// Acquires the turn to push, pull, purge or verify, which only one process has at a time.
    ///
    /// A process may acquire it several times, and must release it as often with ``releaseSyncLease(_:)``. By
    /// default, every call gets a turn, because no other process uses the store.
    ///
    /// - Parameters:
    ///   - now: The wall clock.
    ///   - lease: The time without a transaction after which another process may take the turn.
    ///   - isForced: Whether to take it from a process that still has it.
    /// - Returns: The number of the turn; nil while another process has it.
    func acquireSyncLease(at now: Date, duration lease: Duration, isForced: Bool) -> Int?

    /// Renews the lease of a turn.
    ///
    /// Called within each transaction of a push or pull.
    ///
    /// - Returns: Whether the process still has the turn; by default true.
    func renewSyncLease(_ turn: Int, at now: Date, duration lease: Duration) -> Bool

    /// Releases a turn.
    func releaseSyncLease(_ turn: Int)

    // MARK: - Stores with files

    /// The number of free bytes on the disk, to which a push limits the requests that it prepares.
    ///
    /// Nil, the default, sets no limit.
    var freeBytes: Int64? { get }

    /// Removes deleted values from the store's log.
    ///
    /// Called after a purge.
    ///
    /// - Returns: Whether the log is free of them; by default true. If not, the client repeats the call for up to a
    ///   second.
    func checkpoint() async -> Bool

    /// Returns the space of removed rows to the disk if that is at least half of the file; by default, nothing happens.
    ///
    /// Called after a purge. Ends by the deadline.
    func compactIfHalfFree(deadline: Duration) async

    /// The contexts that report the checks of this store as events; by default nil, because the store has no check.
    ///
    /// Every call returns the same object, to which the contexts are added.
    var checkListeners: CheckListeners? { get }
}

extension LocalStore {
    /// Nil, because the store cannot distinguish a copy from its original.
    public var fileIdentity: String? { nil }

    /// Returns changes of all rows of the tables that ``changes()`` names.
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

    /// Nil, because the free space is not known.
    public var freeBytes: Int64? { nil }

    /// Returns true, because nothing is left in a log.
    public func checkpoint() async -> Bool { true }

    /// Does nothing.
    public func compactIfHalfFree(deadline: Duration) async {}

    /// Nil, because the store has no check.
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
/// Valid only during the call that receives it.
public protocol LocalStoreReader {
    /// Returns the rows of a query: filtered, ordered with ties broken by `id`, and limited to its window.
    ///
    /// A row has every member that was stored, and `.null` for columns of the schema without a value.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a query that the store cannot run,
    ///   `unknownTable` for a table that was not opened, and the errors of the store.
    func rows(_ query: TableQuery, in table: String) throws -> [Row]

    /// Returns the row with this key, or nil if there is none.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func row(id: Value, in table: String) throws -> Row?

    /// Returns the number of rows that a filter matches.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func count(_ filter: Filter?, in table: String) throws -> Int

    /// Returns the number of rows and the sum of a column, for all rows or for each value of another column.
    ///
    /// Without a group, the result has one element, even if no row matches. By default, the rows are read and added
    /// in memory. A database adds faster, and its result must be the same.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func totals(_ query: TotalsQuery, in table: String) throws -> [RowTotals]

    /// Returns the rows of SQL that an app wrote.
    ///
    /// The statement may only read the tables of the request. By default, it is rejected, because only
    /// ``SQLiteStore`` has SQL. A store that wraps another one passes the call on.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a statement that is not valid or not allowed, and the
    ///   errors of the store.
    func sql(_ request: SQLRequest) throws -> SQLRows

    /// Returns complete rows of a query, except for one column.
    ///
    /// By default, the column is removed from the rows of ``rows(_:in:)``. Not reading it is faster.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func rows(_ query: TableQuery, in table: String, omitting column: String) throws -> [Row]

    /// Returns the rows of a query that are about to be decoded as records, except for one column.
    ///
    /// A store may return the members that are not in the schema as one JSON object, in the member `__extra`. The
    /// decoder reads it if the record type asks for such a member. By default, these are the rows of
    /// ``rows(_:in:omitting:)``.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func recordRows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row]

    /// Returns the rows whose value of a column is one of several keys, without another column, as
    /// ``recordRows(_:in:omitting:)`` does.
    ///
    /// Related records are read with it. By default, the matching rows are read and divided in memory.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func keyedRows(_ query: KeyedQuery, in table: String, omitting column: String) throws -> [Row]

    /// The committed state that this reader sees; nil, the default, if the store does not identify its states.
    ///
    /// Within a transaction that writes, it is nil.
    var state: StoreState? { get }

    /// Returns the changes between an earlier state and the state of this reader; nil, the default, if the store does
    /// not know all of them.
    ///
    /// With it, an observation reads only the rows that have changed. Otherwise it reads all rows of its queries again.
    func changes(since state: StoreState) -> StoreChange?

    /// Whether the store evaluates conditions on the rows of other tables.
    ///
    /// By default false: the client reads the other table first, and passes a condition with a list of keys.
    var evaluatesRelatedRows: Bool { get }

    /// Returns the matching rows whose values may differ from the stored ones.
    ///
    /// `verify` reads such rows again from the server. By default, there are none, because the store does not notice
    /// that another program changes its data.
    ///
    /// - Throws: The errors of ``rows(_:in:)``.
    func uncertainRows(_ filter: Filter?, in table: String) throws -> UncertainRows

    /// Returns the rows of a query with the ranges of the text that its searches match.
    ///
    /// By default, it throws, because only ``SQLiteStore`` has search indexes. A store that wraps another one passes
    /// the call on.
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
    /// Reads the matching rows of all keys, and divides them in memory.
    ///
    /// - Throws: The errors of ``LocalStoreReader/rows(_:in:)``.
    public func keyedRows(
        _ query: KeyedQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] {
        var all = query.query
        (all.limit, all.offset) = (nil, 0)
        // A row without a key belongs to none.
        let exists = Filter.differs(query.column, from: .null)
        all.filter = all.filter.map { $0 && exists } ?? exists
        return query.divided(try recordRows(all, in: table, omitting: column))
    }

    /// False, so that the client reads the other table first and passes a list of keys.
    public var evaluatesRelatedRows: Bool { false }

    /// Nil, because the store does not identify its states.
    public var state: StoreState? { nil }

    /// Returns nil, because the store does not remember changes.
    public func changes(since state: StoreState) -> StoreChange? { nil }
}

/// Rows whose values may differ from those that were stored, by their ids.
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

    /// The ids of both kinds.
    var ids: [String] { changed + unknown }
}

/// A writer within a transaction.
///
/// Valid only during the call that receives it.
public protocol LocalStoreWriter: LocalStoreReader {
    /// Stores whole rows, replacing those with the same `id`.
    ///
    /// Members that the schema does not know are stored, too.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable`, and the errors of the store, which end the
    ///   transaction.
    func put(_ rows: [Row], in table: String) throws

    /// Stores a row in a table whose keys are integers, under a new key, and ignores its `id`.
    ///
    /// The key is greater than any key that the table ever had, including those of removed rows. By default,
    /// the counter is a row of the configuration.
    ///
    /// - Returns: The key.
    /// - Throws: The errors of ``put(_:in:)``.
    func append(_ row: Row, in table: String) throws -> Int64

    /// Removes rows; returns how many existed.
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

    /// Stores the rows of a page of the server, replacing those with the same `id`.
    ///
    /// By default, they are stored as rows. ``SQLiteStore`` stores the values without creating rows.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func put(page: RowPage, in table: String) throws

    /// Records that a row differs from the one that the server sent with its version.
    ///
    /// ``LocalStoreReader/uncertainRows(_:in:)`` returns the row until it is stored again. By default, nothing
    /// happens. A store that implements this method also implements ``set(_:to:ofRow:in:)``, which must keep the
    /// record.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func noteUncertain(rowWith id: String, in table: String) throws

    /// Removes the words of removed rows from the pages of the table's search index.
    ///
    /// Called in the transaction of a purge, after the rows were removed. By default, nothing happens, because the
    /// store has no search index.
    ///
    /// - Throws: The errors of ``put(_:in:)``.
    func eraseRemovedWords(in table: String) throws
}

extension LocalStoreWriter {
    /// Does nothing, because the store has no search index.
    ///
    /// - Throws: Nothing.
    public func eraseRemovedWords(in table: String) throws {}

    /// Reads the row, and stores it as a whole.
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

/// The rows of a page that the server sent, in the form in which they are stored.
public struct RowPage: Sendable {
    /// The values, which point into the bytes of the response.
    let cells: PageCells
    /// The membership mask of all rows.
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
    /// Returns the query with the column names and types of a table, for stores that evaluate it with
    /// `apply(to:)`.
    ///
    /// Literals are converted to the types of their columns. An enumeration is ordered by position. `deleted`
    /// is false, because a store has no deleted rows.
    ///
    /// ```swift
    /// let found = try query.checked(for: schema).apply(to: all).rows
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have, and for an expression that is not valid for the type of its column.
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
    /// Stores a row under the key after the last one, which is kept in the configuration.
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
