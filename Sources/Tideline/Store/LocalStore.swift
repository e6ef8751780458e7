// LocalStore: the database that the client needs on the device.
//
// A store is a set of tables of rows with transactions. The queue, the errors and the cursors are
// rows of system tables (SystemTables.swift), so that a row and its queued operation, or a page and its
// cursor, share one transaction in any store. Two stores exist: SQLiteStore, and the store in
// memory of the test kit. `LocalStoreConformance` in the test kit checks another one.

public import TidelineCore

/// A database on the device.
///
/// The client relies on these guarantees: a transaction is applied completely or not at all, even if the
/// process is killed; after ``write(_:)`` returns, its changes survive a loss of power; a read sees one
/// state between two transactions. <doc:WritingAStore> has an example and explains how to check a store.
public protocol LocalStore: Sendable {
    /// Creates the tables and columns that are missing. Called once, before any other method.
    ///
    /// Existing rows stay. Columns that a schema no longer names stay, too.
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

    /// Runs `body` in one exclusive transaction. If it throws, nothing is changed.
    ///
    /// - Throws: The errors of `body`, unchanged, and those of the store, as ``read(_:)``.
    ///   On an error, nothing is changed.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Runs `body` as ``write(_:)`` does, for changes that can be repeated: a loss of power may undo them.
    ///
    /// A loss of power undoes the last transactions, each as a whole, and none before a ``write(_:)`` that
    /// changed something and returned. A store that makes no such distinction need not implement this.
    ///
    /// - Throws: As ``write(_:)``.
    func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Returns the names of the tables that each transaction changed, after it was committed.
    ///
    /// Every call returns a separate stream. Bursts may be merged.
    func changes() -> AsyncStream<Set<String>>

    /// An identifier of the store's file, which a copy does not share; nil if the store has none.
    ///
    /// It stays the same when the file is written to, renamed or moved within its volume, and differs
    /// for a copy. ``SyncContext`` keeps it in the store: if it finds another one there, the store is a copy,
    /// and the original may still be in use.
    var fileIdentity: String? { get }

    /// Closes the store. Later calls throw.
    ///
    /// Running calls finish first. A store that holds nothing open need not implement this.
    ///
    /// - Throws: The error that prevents the store from finishing its work.
    func close() async throws

    /// Ends all work and releases files and locks, because the app is about to be suspended.
    ///
    /// Running transactions finish first; the client calls ``interruptTransactions()`` if that takes
    /// too long. Reads and changes still work until ``resume()``, and hold nothing when they are done. A store
    /// that holds nothing open need not implement it.
    func suspend() async

    /// Rolls back the running transactions, because the time before the app is suspended is over.
    func interruptTransactions()

    /// Resumes the normal work after ``suspend()``.
    func resume()
}

extension LocalStore {
    /// Nil: the store cannot distinguish a copy from its original.
    public var fileIdentity: String? { nil }

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
    /// - Throws: As ``write(_:)``.
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
    /// - Throws: As ``rows(_:in:)``.
    func row(id: Value, in table: String) throws -> Row?

    /// Returns the number of rows that a filter matches.
    ///
    /// - Throws: As ``rows(_:in:)``.
    func count(_ filter: Filter?, in table: String) throws -> Int
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

    /// Stores a row without an `id` in a table whose keys are integers, under a new key.
    ///
    /// The key is greater than any that the table ever had, including those of removed rows. A store without a
    /// counter of its own counts in a row of the configuration.
    ///
    /// - Returns: The key.
    /// - Throws: As ``put(_:in:)``.
    func append(_ row: Row, in table: String) throws -> Int64

    /// Removes rows; returns how many existed.
    ///
    /// - Throws: As ``put(_:in:)``.
    @discardableResult
    func delete(ids: [Value], in table: String) throws -> Int
}

extension TableQuery {
    /// Returns the query with the names of a table, for stores that run it by `apply(to:)`.
    ///
    /// Names become those of the columns, and literals become values of their types. An enumeration is ordered
    /// by position. `deleted` is false, because a store has no deleted rows.
    ///
    /// ```swift
    /// let found = try query.checked(for: schema).apply(to: all).rows
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have, and for an expression that is not valid for the type of its column.
    public func checked(for schema: TableSchema) throws -> TableQuery {
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
