// LocalStore: what the client needs of a database on the device.
//
// A store is a set of tables of rows with transactions. The queue, the errors and the cursors are
// rows of system tables (SystemTables.swift), so that a row and its queue entry, a page and its
// cursor, are one transaction of any store. Two stores exist: SQLiteStore, and the store in
// memory of the test kit. `LocalStoreConformance` in the test kit checks another one.

public import TidelineCore

/// A database on the device.
///
/// Guarantees that the client builds on: a transaction happens whole or not at all, also when the
/// process is killed; when ``write(_:)`` has returned, it survives a loss of power; a read sees one
/// state between two transactions. <doc:WritingAStore> has an example, and how to check it.
public protocol LocalStore: Sendable {
    /// Makes the tables and columns that are missing; called once, before anything else.
    ///
    /// Rows that are there stay. Columns that a schema no longer names stay too.
    ///
    /// - Throws: What keeps the store from being used. Another error than ``SyncError`` is passed
    ///   on as one with code `storeFailure`.
    func open(tables: [TableSchema]) async throws

    /// Runs `body` on a consistent state.
    ///
    /// - Throws: What `body` throws, as it is, and what the store fails with: another error than
    ///   ``SyncError`` is passed on as one with code `storeFailure`.
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result

    /// Runs `body` in one transaction, alone; when it throws, nothing has happened.
    ///
    /// - Throws: What `body` throws, as it is, and what the store fails with, as ``read(_:)``.
    ///   Nothing has happened then.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// Runs `body` as ``write(_:)`` does, for what can be had again: a loss of power may undo it.
    ///
    /// It undoes the last transactions, each whole, and none from before a ``write(_:)`` that has
    /// changed something and returned. A store that makes no difference need not say it.
    ///
    /// - Throws: As ``write(_:)``.
    func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result

    /// The names of the tables that each transaction changed, after it was committed.
    ///
    /// Every call makes a stream of its own. Bursts may be merged.
    func changes() -> AsyncStream<Set<String>>

    /// An identifier of the store's file, which a copy does not share; nil if the store has none.
    ///
    /// It stays the same when the file is written to, renamed or moved within its volume, and is another one
    /// for a copy. ``SyncContext`` keeps it in the store: if it finds another one there, the store is a copy,
    /// and the original may still be in use.
    var fileIdentity: String? { get }

    /// Ends the use of the store; later calls throw.
    ///
    /// Calls that run come to their end first. A store that holds nothing open need not say it.
    ///
    /// - Throws: What keeps the store from ending what it began.
    func close() async throws

    /// Ends all work and releases files and locks, because the app is about to be suspended.
    ///
    /// Transactions that run come to their end first; the client calls ``interruptTransactions()`` if that takes
    /// too long. Reads and changes still work until ``resume()``, and hold nothing when they are done. A store
    /// that holds nothing open need not implement it.
    func suspend() async

    /// Undoes the transactions that run, because the time before the app is suspended is over.
    func interruptTransactions()

    /// Works as before ``suspend()`` again.
    func resume()
}

extension LocalStore {
    /// Nil: the store does not tell a copy from its original.
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

    /// Runs `body` in a transaction that lasts.
    ///
    /// - Throws: As ``write(_:)``.
    public func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result { try await write(body) }
}

/// Reading within a transaction.
///
/// Valid only during the call that lends it.
public protocol LocalStoreReader {
    /// The rows of a query: filtered, ordered with ties by `id`, cut to its window.
    ///
    /// A row has every member that was put, and `.null` for columns of the schema without a value.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what the store cannot be asked,
    ///   `unknownTable` for a table that was not opened, and what the store fails with.
    func rows(_ query: TableQuery, in table: String) throws -> [Row]

    /// The row with this key.
    ///
    /// - Throws: As ``rows(_:in:)``.
    func row(id: Value, in table: String) throws -> Row?

    /// How many rows a filter matches.
    ///
    /// - Throws: As ``rows(_:in:)``.
    func count(_ filter: Filter?, in table: String) throws -> Int
}

/// Writing within a transaction.
///
/// Valid only during the call that lends it.
public protocol LocalStoreWriter: LocalStoreReader {
    /// Stores rows whole, in place of rows with the same `id`.
    ///
    /// Members that the schema does not know are kept too.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable`, and what the store fails with: the
    ///   transaction ends with it.
    func put(_ rows: [Row], in table: String) throws

    /// Stores a row without an `id` in a table whose keys are integers, under a new key.
    ///
    /// The key is above all that the table ever had, also of rows that are gone. A store that has
    /// nothing of its own for it counts in a row of the configuration.
    ///
    /// - Returns: The key.
    /// - Throws: As ``put(_:in:)``.
    func append(_ row: Row, in table: String) throws -> Int64

    /// Removes rows; how many there were.
    ///
    /// - Throws: As ``put(_:in:)``.
    @discardableResult
    func delete(ids: [Value], in table: String) throws -> Int
}

extension TableQuery {
    /// The query in the words of a table: for stores that answer it by `apply(to:)`.
    ///
    /// Names become those of the columns, literals values of their types, an enumeration is ordered
    /// by position, and `deleted` is false: a store has no deleted rows.
    ///
    /// ```swift
    /// let found = try query.checked(for: schema).apply(to: all).rows
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have, and for what has no meaning for the type of one.
    public func checked(for schema: TableSchema) throws -> TableQuery {
        do {
            return try FilterChecker(onDevice: schema).query(self)
        } catch {
            throw SyncError.unsupportedQuery(error.message)
        }
    }
}

extension LocalStoreWriter {
    /// Stores a row under the key behind the last one, which is kept in the configuration.
    ///
    /// - Throws: What reading and putting throw.
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
