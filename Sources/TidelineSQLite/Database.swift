// Database: an SQLite connection with its prepared statements.
//
// A connection has one owner, which lends it to one thread at a time (DatabaseThreads, or a lock).
// The connection is opened without SQLite's own mutex.

import Foundation
import Synchronization
package import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// An SQLite connection.
///
/// `@unchecked Sendable`: the class wraps a C handle that may move between threads but must not be
/// used by two threads at once. Only `DatabaseThreads` and `DatabasePool` share connections between
/// threads. `DatabaseThreads` assigns each connection to one thread, and `DatabasePool` lends a
/// connection to one caller at a time.
package final class Database: @unchecked Sendable {
    package enum Mode: Sendable {
        /// Creates the file if it does not exist, and switches it to WAL mode.
        case readWrite
        /// Like `readWrite`, but does not create the file, because it has been opened before.
        case writer
        /// Neither creates the file nor changes its settings.
        case existing
        case readOnly
        /// Reads a file to which no process writes, without locks and without creating files next
        /// to it.
        case frozen
    }

    let handle: OpaquePointer
    private var statements = GenerationCache<String, Statement>(countMax: statementsMax)
    /// The statements that an app wrote.
    let confined = ConfinedReads()
    private var logObserver: LogObserver?
    private let deadline = QueryDeadline()
    /// Whether commits wait for the disk.
    private var flushes = true
    let transactionState = TransactionState()
    /// The time for which the connection waits for locks of other connections, in milliseconds.
    private let busyMilliseconds: Int32
    /// Whether the handle is closed; a lock is needed because another thread may interrupt the
    /// handle at any time.
    private let isClosed = Mutex(false)

    /// Opens a file, or creates one, in WAL mode with `synchronous=FULL`.
    ///
    /// Without a key, the file is read as an unencrypted file. If `isIncremental` is true, a new
    /// file can return free pages to the file system (`auto_vacuum`). An existing file can do so
    /// only after it has been rewritten.
    package init(
        path: String,
        key: DatabaseKey? = nil,
        mode: Mode = .readWrite,
        isIncremental: Bool = false,
        busyMilliseconds: Int32 = 5000
    ) throws {
        var pointer: OpaquePointer?
        let code = sqlite3_open_v2(mode.name(of: path), &pointer, mode.flags, nil)
        guard code == SQLITE_OK, let pointer else {
            let message = pointer.map { String(cString: sqlite3_errmsg($0)) } ?? "cannot open"
            sqlite3_close_v2(pointer)
            throw SQLiteError(code: code, message: "\(message): \(path)")
        }
        handle = pointer
        self.busyMilliseconds = busyMilliseconds
        sqlite3_extended_result_codes(pointer, 1)
        LockWait.set(busyMilliseconds, on: pointer)
        // Not every SQLite library has this setting, so code that relies on it performs its own
        // check.
        tl_refuse_quoted_texts(pointer)
        // All properties are now initialized, so an error that is thrown below runs `deinit`, which
        // closes the file.
        if let key {
            try key.apply(to: pointer)
            // Temporary files on disk, for sorts and rollbacks, would not be encrypted.
            try execute("PRAGMA temp_store = MEMORY")
        }
        try readFirstPage(key)
        // This must precede the first write, because the setting is stored in the first page.
        if isIncremental { try execute("PRAGMA auto_vacuum = INCREMENTAL") }
        if mode == .readWrite || mode == .writer {
            let journal = try turnIntoWAL(busyMilliseconds)
            guard journal == "wal" || journal == "memory" else {
                throw SQLiteError.unexpected(
                    "the file cannot have a write-ahead log; its journal mode stays \(journal)"
                )
            }
            try execute("PRAGMA synchronous = FULL")
            try execute("PRAGMA cache_size = -\(Self.writerCacheKibibytes)")
            try execute("PRAGMA wal_autocheckpoint = \(Self.checkpointPages)")
            try execute("PRAGMA journal_size_limit = \(Self.logBytesKept)")
        }
        try execute("PRAGMA foreign_keys = ON")
        let functions = registerTidelineFunctions(on: pointer, deadline: deadline)
        guard functions == SQLITE_OK else { throw failure(functions, nil) }
        sqlite3_progress_handler(
            pointer,
            QueryDeadline.stepsBetweenChecks,
            { context in
                guard let context else { return 0 }
                return Unmanaged<QueryDeadline>.fromOpaque(context).takeUnretainedValue().isOver
                    ? 1 : 0
            },
            Unmanaged.passUnretained(deadline).toOpaque()
        )
    }

    /// Reads the first page, which fails if the file is not a database or the key is wrong.
    ///
    /// SQLCipher 4 can read a file from SQLCipher 3 only with the settings of that version.
    private func readFirstPage(_ key: DatabaseKey?) throws {
        let read = "SELECT count(*) FROM sqlite_master"
        do {
            try execute(read)
        } catch let error as SQLiteError where error.isNotADatabase {
            guard let key else { throw error }
            try key.apply(to: handle)
            try execute("PRAGMA cipher_compatibility = 3")
            try execute(read)
        }
    }

    deinit { close() }

    /// Closes the connection; its owner must not use it afterward.
    package func close() {
        isClosed.withLock { isClosed in
            guard !isClosed else { return }
            isClosed = true
            statements.removeAll()
            confined.removeAll()
            sqlite3_close_v2(handle)
        }
    }

    /// Copies the log into the database, and truncates the log if no connection is reading it.
    package func foldLog() throws {
        try execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Truncates the log without waiting, if no connection is reading, writing, or checkpointing
    /// the log.
    ///
    /// - Returns: Whether the log is empty.
    /// - Throws: ``SQLiteError``
    package func checkpoint() throws -> Bool { try checkpoint(.truncate, waiting: 0) }

    /// Runs a checkpoint that waits up to `milliseconds` for other connections.
    ///
    /// - Returns: Whether the checkpoint was completed. A passive checkpoint also counts as
    ///   completed if readers kept it from copying all pages.
    /// - Throws: ``SQLiteError``
    package func checkpoint(_ mode: CheckpointMode, waiting milliseconds: Int32) throws -> Bool {
        LockWait.set(milliseconds, on: handle)
        defer { LockWait.set(busyMilliseconds, on: handle) }
        return try checkpoint(mode) != nil
    }

    /// Switches the file to WAL mode and returns the resulting journal mode.
    ///
    /// SQLite does not wait here for other processes, for example for one that opens the same file
    /// for the first time at the same moment (`sqlite3BtreeSetVersion` requests the lock while it
    /// already holds one). This method therefore retries.
    private func turnIntoWAL(_ busyMilliseconds: Int32) throws -> String {
        for _ in 0..<(busyMilliseconds / LockWait.step) {
            do {
                return try text("PRAGMA journal_mode = WAL")
            } catch let error as SQLiteError where error.isBusy {
                sqlite3_sleep(LockWait.step)
            }
        }
        return try text("PRAGMA journal_mode = WAL")
    }

    /// Returns the first column of the first row as a string.
    package func text(_ sql: String) throws -> String {
        let statement = try prepareOnce(sql)
        return try statement.step() ? statement.text(0) : ""
    }

    package func failure(_ code: Int32, _ sql: String?) -> SQLiteError {
        let error = SQLiteError(
            code: sqlite3_extended_errcode(handle) != SQLITE_OK
                ? sqlite3_extended_errcode(handle) : code,
            message: String(cString: sqlite3_errmsg(handle)),
            sql: sql
        )
        if !isInTransaction { transactionState.failed(error) }
        return error
    }

    /// Runs statements that have no parameters and no results.
    package func execute(_ sql: String) throws {
        try transactionState.check()
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw failure(code, sql) }
    }

    /// Returns a prepared statement, and caches it for the next use of the same SQL.
    package func prepare(_ sql: String) throws -> Statement {
        if let statement = statements.value(sql) {
            statement.prepareForReuse()
            return statement
        }
        let statement = try prepareOnce(sql)
        statements.put(statement, for: sql)
        return statement
    }

    /// The size of a writer's page cache, for the pages that a large transaction changes.
    ///
    /// An index of random ids touches many pages. With SQLite's default of 2 MiB, these pages would
    /// be written to the log and read again during the transaction.
    private static let writerCacheKibibytes = 8192

    /// The length of the log at which it is checkpointed, in pages (16 MiB).
    ///
    /// Many transactions change the same page, and a checkpoint copies that page only once.
    private static let checkpointPages = 4000

    /// The size to which a longer log is cut on the disk.
    private static let logBytesKept = 32 << 20

    /// The maximum number of statements in a generation of the cache; it is limited because the
    /// number of different filters is not.
    private static let statementsMax = 128

    /// Returns a prepared statement without caching it.
    package func prepareOnce(_ sql: String) throws -> Statement {
        var pointer: OpaquePointer?
        let code = sqlite3_prepare_v3(
            handle,
            sql,
            -1,
            UInt32(SQLITE_PREPARE_PERSISTENT),
            &pointer,
            nil
        )
        guard code == SQLITE_OK, let pointer else { throw failure(code, sql) }
        return Statement(pointer, self)
    }

    /// The number of rows that the last statement changed.
    package var changes: Int { Int(sqlite3_changes(handle)) }

    /// The number of rows that all statements of this connection have changed.
    package var totalChanges: Int { Int(sqlite3_total_changes(handle)) }

    /// The integer key of the most recently inserted row.
    package var lastID: Int64 { sqlite3_last_insert_rowid(handle) }

    /// Whether a transaction is open.
    package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Runs `body` in a transaction, which is committed when `body` returns and rolled back when it
    /// throws.
    ///
    /// If `isFlushed` is false, the commit does not wait for the disk. A flush includes all earlier
    /// transactions.
    ///
    /// On some errors, such as a full disk or a damaged search index, SQLite rolls back the whole
    /// transaction. All later statements of `body` then throw the same error, because otherwise
    /// each statement would commit a separate transaction.
    package func transaction<Result>(
        isFlushed: Bool = true,
        _ body: () throws -> Result
    ) throws -> Result {
        // The setting is changed only if necessary, and before the transaction that depends on it.
        if isFlushed != flushes {
            try execute("PRAGMA synchronous = \(isFlushed ? "FULL" : "NORMAL")")
            flushes = isFlushed
        }
        try prepare("BEGIN IMMEDIATE").run()
        transactionState.begin()
        defer { transactionState.end() }
        do {
            let result = try body()
            try prepare("COMMIT").run()
            return result
        } catch {
            if isInTransaction { try? prepare("ROLLBACK").run() }
            throw error
        }
    }

    /// Runs `body`, which may only read, on a single snapshot of the database.
    ///
    /// The snapshot is always released, because otherwise the connection would continue to read it.
    /// If an error ends the snapshot early, all later statements of `body` throw the same error.
    package func snapshot<Result>(_ body: () throws -> Result) throws -> Result {
        try prepare("BEGIN").run()
        transactionState.begin()
        defer {
            transactionState.end()
            // An expired time limit would also interrupt this statement.
            deadline.suspend { try? prepare("COMMIT").run() }
            if isInTransaction { deadline.suspend { try? execute("ROLLBACK") } }
        }
        return try body()
    }

    /// Runs `body` in a savepoint of an open transaction; if `body` throws, only its own writes are
    /// rolled back.
    package func savepoint<Result>(_ body: () throws -> Result) throws -> Result {
        try prepare("SAVEPOINT one").run()
        do {
            let result = try body()
            try prepare("RELEASE one").run()
            return result
        } catch {
            if isInTransaction {
                try? prepare("ROLLBACK TO one").run()
                try? prepare("RELEASE one").run()
            }
            throw error
        }
    }

    /// Returns the integer in the first column of the first row; nil if there is no row or the
    /// value is null.
    package func integer(_ sql: String, _ bindings: [SQLValue] = []) throws -> Int64? {
        let statement = try prepare(sql)
        defer { statement.reset() }
        try statement.bind(bindings)
        guard try statement.step(), !statement.isNull(0) else { return nil }
        return statement.integer(0)
    }

    /// Interrupts this connection's running statement; any thread may call this method.
    package func interrupt() {
        isClosed.withLock { if !$0 { sqlite3_interrupt(handle) } }
    }

    /// Runs `body`, and interrupts a statement that exceeds the time limit.
    ///
    /// The time starts at `start`, or now if `start` is nil. The statement is also interrupted when
    /// `stop` is set.
    package func limitTime<Result>(
        _ limit: Duration,
        since start: QueryStart? = nil,
        stop: QueryStop? = nil,
        _ body: () throws -> Result
    ) rethrows
        -> Result
    {
        deadline.set(limit, since: start, stop: stop)
        defer { deadline.clear() }
        return try body()
    }

    /// Whether the last statement that exceeded the time limit was actually running for most of the
    /// time.
    ///
    /// If not, the machine was busy, and a retry may finish in time.
    package var workedPastItsTime: Bool { deadline.wasWork }

    /// Runs `body`, and interrupts statements that have used up their time slice.
    ///
    /// The time slice is checked only inside ``limitTime(_:since:stop:_:)``.
    package func share<Result>(
        until hasHadShare: (() -> Bool)?,
        _ body: () throws -> Result
    ) rethrows -> Result {
        deadline.beginShare(hasHadShare)
        defer { deadline.endShare() }
        return try body()
    }

    /// Whether the last statement in ``share(until:_:)`` was interrupted because it had used up its
    /// time slice.
    package var hasYielded: Bool { deadline.hasYielded }

    /// Runs `body` with a statement that may read only certain tables.
    ///
    /// `sql` is a single statement, with a placeholder for each value. `allowed` contains the
    /// tables that the statement may read, in lower case. `body` steps through the statement, and
    /// must not use this connection for anything else. The statement is interrupted when `stop` is
    /// set.
    ///
    /// - Returns: The result of `body`, and the tables that the statement reads, in lower case.
    /// - Throws: ``ConfinementError`` if the statement is not allowed.
    package func readConfined<Result>(
        _ sql: String,
        _ values: [SQLValue],
        to allowed: Set<String>,
        stop: QueryStop?,
        _ body: (Statement) throws -> Result
    ) throws -> (result: Result, tables: Set<String>) {
        try confined.read(sql, values, to: allowed, stop: stop, on: self, body)
    }

    /// The number of cached statements.
    package var statementsKept: Int { statements.count }

    /// Keeps the log when the connection is closed, because the usual checkpoint would take time
    /// and locks.
    package func keepLog() { tl_keep_log(handle) }

    /// Leaves checkpoints of the write-ahead log to an observer.
    ///
    /// After each commit, the observer is called with the length of the log in pages. Commits no
    /// longer run checkpoints themselves.
    package func observeLog(_ observe: @escaping @Sendable (_ pages: Int) -> Void) {
        let observer = LogObserver(observe)
        sqlite3_wal_hook(
            handle,
            { context, _, _, pages in
                guard let context else { return SQLITE_OK }
                Unmanaged<LogObserver>.fromOpaque(context).takeUnretainedValue()
                    .observe(Int(pages))
                return SQLITE_OK
            },
            Unmanaged.passUnretained(observer).toOpaque()
        )
        logObserver = observer
    }

    /// Runs a checkpoint of the write-ahead log.
    ///
    /// - Returns: Nil if another reader or writer blocked the checkpoint for longer than this
    ///   connection waits; otherwise, the number of pages in the log and how many of them are in
    ///   the database.
    package func checkpoint(_ mode: CheckpointMode) throws -> (pages: Int, copied: Int)? {
        let statement = try prepare("PRAGMA wal_checkpoint(\(mode.rawValue))")
        defer { statement.reset() }
        guard try statement.step(), statement.integer(0) == 0 else { return nil }
        return (Int(statement.integer(1)), Int(statement.integer(2)))
    }

    /// Calls the observer for each row that is written through this connection.
    package func observeWrites(_ observer: TableWriteObserver) {
        sqlite3_update_hook(
            handle,
            { context, _, _, table, _ in
                guard let context, let table else { return }
                Unmanaged<TableWriteObserver>.fromOpaque(context).takeUnretainedValue()
                    .wrote(table)
            },
            Unmanaged.passUnretained(observer).toOpaque()
        )
    }
}
