// WriterConnection: the writing connection of a store, which can be closed and reopened.

import Synchronization
import TidelineSQLite

/// A manager of a store's writing connection, which opens the connection and interrupts its work.
final class WriterConnection: Sendable {
    private struct State {
        weak var database: Database?
        var opens = 0
        var isSuspended = false
    }

    /// The flag that ends the store's transactions.
    let end = TransactionEnd()
    private let path: String
    private let key: DatabaseKey?
    private let log: StoreLog?
    private let foldsOften: Bool
    private let observer = WriterObserver()
    private let state = Mutex(State())

    init(_ path: String, _ key: DatabaseKey?, _ log: StoreLog?, foldsOften: Bool) {
        self.path = path
        self.key = key
        self.log = log
        self.foldsOften = foldsOften
    }

    /// Opens the file; only the mode `readWrite` creates it.
    func open(_ mode: Database.Mode) throws -> Database {
        let database = try Database(path: path, key: key, mode: mode, isIncremental: true)
        try database.execute("PRAGMA journal_size_limit = \(SQLiteStore.logBytesKept)")
        // Overwrites deleted data, which not every build of SQLite does by default.
        try database.execute("PRAGMA secure_delete = ON")
        if foldsOften { try database.execute(SQLiteStore.foldsOften) }
        try SQLiteStoreSchema.prepare(database, path: path)
        observer.attach(database)
        log?.attach(database)
        state.withLock { state in
            state.database = database
            state.opens += 1
        }
        return database
    }

    /// Returns the tables that were written since the last call.
    ///
    /// Call this method only on the writer's thread.
    func takeWritten() -> Set<String> { observer.take() }

    /// The number of times that the connection was opened.
    var opens: Int { state.withLock { $0.opens } }

    /// Whether the database is in memory, so that no other connection uses it.
    var isInMemory: Bool { path == ":memory:" }

    /// Whether the store is suspended.
    var isSuspended: Bool { state.withLock { $0.isSuspended } }

    func setSuspended(_ isSuspended: Bool) { state.withLock { $0.isSuspended = isSuspended } }

    /// Interrupts the running statement, if there is one.
    func interrupt() { state.withLock { $0.database }?.interrupt() }
}

/// The tables that the writer's connection has written.
///
/// `@unchecked Sendable`: the observer is used only on the writer's thread.
private struct WriterObserver: @unchecked Sendable {
    private let observer = TableWriteObserver(ignoringPrefix: "tideline.")

    func attach(_ database: Database) { database.observeWrites(observer) }

    func take() -> Set<String> { observer.take() }
}

/// A flag that ends a store's transactions before their next statement.
final class TransactionEnd: Sendable {
    private let isSet = Atomic<Bool>(false)

    func set() { isSet.store(true, ordering: .relaxed) }

    func clear() { isSet.store(false, ordering: .relaxed) }

    func check() throws {
        if isSet.load(ordering: .relaxed) { throw SQLiteError.interrupted }
    }
}
