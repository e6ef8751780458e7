// SQLiteStore: the SDK's store: a single SQLite file in WAL mode with synchronous=FULL.
//
// One writer connection runs on its own thread. Reads borrow pooled connections on the caller's
// thread, because a lookup takes 2 microseconds and a thread switch 25. In a store opened with
// `inline`, for tests and in-memory databases, reads share the writer's connection.

import Foundation
import Synchronization
public import TidelineCore
import TidelineSQLite

/// The default store: one SQLite file on the device.
///
/// Each transaction is atomic and, once `write` returns, survives a loss of power. The file has a
/// format version; a file from a newer version is rejected and left untouched. The tables are
/// ordinary tables with typed columns, so an app may read them with SQL and add indexes.
///
/// ```swift
/// let store = try SQLiteStore(path: "todo.sqlite")
/// ```
public final class SQLiteStore: LocalStore {
    let path: String
    let isEncrypted: Bool
    let writer: DatabaseThreads
    let connection: WriterConnection
    let readers: DatabasePool?
    let log: StoreLog?
    /// The detector of commits by other processes; nil if no other process can use the file.
    let externalChanges: ExternalChangeDetector?
    let turn: SyncTurn?
    let checks = CheckListeners()
    private let hub = ChangeHub<Set<String>>()
    private let rowHub = ChangeHub<StoreChange>()
    /// The rows that recent transactions changed, for observations.
    private let commits = CommitLog()
    private let tables = Mutex(OpenedTables())
    /// Whether the disk had too little space for a checkpoint, possibly during an earlier launch of
    /// the app.
    private let isLogStuck: Mutex<Bool>
    /// Whether the log may still contain deleted values and must be truncated.
    private let needsCheckpoint = Mutex(false)

    /// The size to which a longer log is truncated when it is reset.
    static let logBytesKept = 8 << 20

    /// The page cache of a reading connection: at most 8 MiB.
    ///
    /// The rows of many keys are found with an index, in an order that visits each page several
    /// times. With SQLite's default of 2 MiB, the pages of a larger table would be read from the
    /// file again and again.
    private static let readerCache = "PRAGMA cache_size = -8192"

    /// Limits the log to half a megabyte if the disk is short of space, because a long log would
    /// take the space that the database needs to grow during the checkpoint.
    static let foldsOften = "PRAGMA wal_autocheckpoint = 128"

    private static func isShortOfSpace(_ path: String) -> Bool {
        freeBytes(at: path).map { $0 < 64 << 20 } ?? false
    }

    /// Opens a file, or creates one.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` if the file cannot be opened, is not a
    ///   database, or belongs to another program; `newerStore` if a newer version of this library
    ///   wrote the file. A rejected file is left untouched.
    public convenience init(path: String) throws {
        try self.init(path: path, inline: false)
    }

    /// `inline` runs every call on the caller's thread, one at a time.
    package convenience init(path: String, inline: Bool) throws {
        try self.init(path: path, inline: inline, key: nil)
    }

    init(path: String, inline: Bool, key: DatabaseKey?) throws {
        self.path = path
        isEncrypted = key != nil
        do {
            try SQLiteStoreSchema.check(path, key)
            let isInline = inline || path == ":memory:"
            let isShortOfSpace = Self.isShortOfSpace(path)
            isLogStuck = Mutex(isShortOfSpace)
            log = isInline || isShortOfSpace ? nil : StoreLog(path: path, key)
            let connection = WriterConnection(path, key, log, foldsOften: isShortOfSpace)
            self.connection = connection
            let database = try connection.open(.readWrite)
            externalChanges =
                isInline
                ? nil : try ExternalChangeDetector(of: database, opens: connection.opens)
            turn = isInline ? nil : SyncTurn(of: path)
            writer =
                isInline
                ? DatabaseThreads(inline: database)
                : DatabaseThreads([database], name: "tideline.store") {
                    try connection.open(.writer)
                }
            readers =
                isInline
                ? nil
                : DatabasePool {
                    let database = try Database(path: path, key: key, mode: .readOnly)
                    try database.execute(Self.readerCache)
                    return database
                }
        } catch let error as SQLiteError where error.isNotADatabase && key != nil {
            throw SyncError.wrongKey(path, error)
        } catch let error as SQLiteError {
            throw SyncError.store(error, at: path, isOpening: true)
        }
    }

    deinit {
        externalChanges?.end()
        writer.stop()
    }

    /// Closes the file, after moving the contents of the write-ahead log into it.
    ///
    /// Running changes finish first. Later calls throw ``SyncError`` with code `storeFailure`, and
    /// every stream of ``changes()`` ends. A second call does nothing. Close the store before you
    /// copy, move, or remove its file.
    ///
    /// - Throws: No error that an app could handle. If the log cannot be moved, it stays next to
    ///   the file and is read when the file is opened again.
    public func close() async throws {
        readers?.close()
        externalChanges?.end()
        await log?.close()
        do {
            try await writer.run { try? $0.foldLog() }
        } catch let error as SQLiteError where error.isClosed {
            return
        }
        await writer.finish()
        hub.finish()
        rowHub.finish()
    }

    /// Creates missing tables and columns.
    ///
    /// If the model has new columns, or columns with a new type, rows are converted. If the task is
    /// cancelled in the meantime, nothing changes.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` if the disk is full, the file is damaged,
    ///   another program has locked the file, or the store is closed; the message says which.
    ///   `cancelled` if the task is cancelled while rows are converted. On an error, the file is
    ///   unchanged.
    public func open(tables schemas: [TableSchema]) async throws {
        let built: (tables: [SQLiteTable], version: Int64)
        do {
            built = try await TransactionWatch.during("initialize") { watch in
                try await writer.run { [checks] database in
                    try database.transaction {
                        let tables = try SQLiteStoreSchema.makeTables(schemas, in: database) {
                            checks.send(.rowsMoved(table: $0, applied: $1))
                            try watch.check()
                        }
                        return (tables, try database.schemaVersion())
                    }
                }
            }
        } catch let error as SQLiteError {
            throw failure(error)
        }
        tables.withLock { known in
            for table in built.tables { known.add(table) }
            known.opens += 1
            // If other tables were opened before, the next transaction reads the columns of all
            // tables.
            known.version = known.byName.count == built.tables.count ? built.version : nil
        }
    }

    /// Returns the current tables of the file, in the open transaction.
    ///
    /// Another program, or another store for the same file, may have added columns in the meantime.
    private func current(_ database: Database) throws -> [String: SQLiteTable] {
        let opened = tables.withLock { $0 }
        let version = try database.schemaVersion()
        guard version != opened.version else { return opened.byName }
        var now = opened
        now.version = version
        for (_, table) in opened.byName {
            now.replace(try SQLiteStoreSchema.table(table.schema, in: database))
        }
        return tables.withLock { known in
            // Tables that were opened in the meantime are kept, and the next transaction reads
            // their columns again.
            if known.version == opened.version, known.opens == opened.opens { known = now }
            return now.byName
        }
    }

    /// Runs `body` on a consistent state, on a separate connection.
    ///
    /// - Throws: The errors of `body`, and ``SyncError`` with code `storeFailure` if the file is
    ///   damaged, the store is closed, or another program changed the type of a column.
    public func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try await retryingSearch { try await readOnce(body) }
    }

    private func readOnce<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        do {
            guard let readers else {
                return try await writer.run { [self] in
                    // Only a database in memory cannot change during the read.
                    let state = connection.isInMemory ? connection.state(of: $0) : nil
                    let snapshot = state.map { StateOfReader(state: $0.state, log: commits) }
                    return try body(SQLiteTransaction($0, try current($0), snapshot: snapshot))
                }
            }
            return try readers.lend(isUnusable: Self.isUnavailable) { database in
                let before = rowHub.isWatched ? connection.state(of: database) : nil
                return try database.snapshot {
                    // The first read begins the snapshot.
                    let tables = try current(database)
                    let snapshot = before.flatMap { before in
                        // If the states differ, there was a commit in between, and the snapshot may
                        // or may not include it.
                        connection.state(of: database) == before
                            ? StateOfReader(state: before.state, log: commits) : nil
                    }
                    return try body(
                        SQLiteTransaction(
                            database,
                            tables,
                            end: connection.end,
                            snapshot: snapshot
                        )
                    )
                }
            }
        } catch let error as SQLiteError {
            throw failure(error)
        }
    }

    /// Runs `body` in one transaction on the writer's thread.
    ///
    /// - Throws: The errors of `body`, and ``SyncError`` with code `storeFailure` if the disk is
    ///   full, the file is read-only or damaged, or the store is closed. On an error, nothing
    ///   changes.
    public func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result { try await write(isRepeatable: false, body) }

    /// Runs `body` in one transaction on the writer's thread, without waiting for the disk.
    ///
    /// The next ``write(_:)`` waits until all earlier changes are on the disk too.
    ///
    /// - Throws: The errors of ``write(_:)``.
    public func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result { try await write(isRepeatable: true, body) }

    private func write<Result: Sendable>(
        isRepeatable: Bool,
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let opened = tables.withLock { $0 }
        typealias Written = (result: Result, tables: Set<String>, change: StoreChange?)
        let written: Written
        do {
            written = try await writer.run { [self] database in
                defer {
                    log?.committed(database)
                    _ = tryCheckpoint(database)
                }
                func attempt() throws -> Written {
                    _ = connection.takeWritten()
                    let rows = rowHub.isWatched ? RowRecorder() : nil
                    var before: FileState?
                    let result = try database.transaction(isFlushed: !isRepeatable) {
                        let tables = try current(database)
                        if rows != nil { before = connection.state(of: database) }
                        let writer = SQLiteTransaction(
                            database,
                            tables,
                            rows,
                            isWriter: true,
                            end: connection.end
                        )
                        let result = try body(writer)
                        try writer.updateIndexes()
                        return result
                    }
                    let change = rows.map { opened.change($0.tables) }
                    keep(change, since: before, database)
                    return (result, connection.takeWritten(), change)
                }
                func transaction() throws -> Written {
                    do {
                        return try attempt()
                    } catch let behind as IndexBehind {
                        try database.transaction { try updateIndexes(behind, database) }
                        return try attempt()
                    }
                }
                // Without this, the log would take up the space that has become free in the
                // meantime.
                if isLogStuck.withLock({ $0 }) { _ = foldFullLog(database) }
                do {
                    return try transaction()
                } catch let error as SQLiteError where error.isFull {
                    guard foldFullLog(database) else { throw error }
                }
                do {
                    return try transaction()
                } catch let error as SQLiteError where error.isFull {
                    // Frees the space that the transaction used in the log.
                    _ = foldFullLog(database)
                    throw error
                }
            }
        } catch let error as SQLiteError {
            throw failure(error)
        }
        if !written.tables.isEmpty {
            let names = opened.names(ofWritten: written.tables)
            hub.publish(names)
            // If a listener registered during the transaction, the transaction's rows were not
            // recorded.
            rowHub.publish(written.change ?? StoreChange(all: names))
        }
        return written.result
    }

    /// Remembers the rows of a transaction that was just committed, if its state is known.
    private func keep(_ change: StoreChange?, since before: FileState?, _ database: Database) {
        guard let change else { return commits.clear() }
        guard let before, let after = connection.state(of: database), after.follows(before) else {
            return
        }
        commits.append(from: before.state, to: after.state, change)
    }

    /// Checkpoints the log when the disk is full, and checkpoints often from then on; returns false
    /// if there is not enough space.
    ///
    /// The log contains several copies of the same page. As soon as some space is free, a
    /// checkpoint succeeds and frees the rest.
    private func foldFullLog(_ database: Database) -> Bool {
        try? database.execute(Self.foldsOften)
        let isFolded = (try? database.foldLog()) != nil
        isLogStuck.withLock { $0 = !isFolded }
        return isFolded
    }

    /// Returns a stream with the names of the tables that each transaction of this store changed.
    ///
    /// After another process changes the same file, the stream emits all tables within a quarter of
    /// a second.
    public func changes() -> AsyncStream<Set<String>> {
        defer { watchExternalChanges() }
        return hub.stream()
    }

    private func watchExternalChanges() {
        externalChanges?.watch(writer, connection) { [hub, rowHub] in
            hub.isWatched || rowHub.isWatched
        } notify: { [weak self] in
            guard let self else { return }
            let names = Set(tables.withLock { $0.byName.keys })
            hub.publish(names)
            rowHub.publish(StoreChange(all: names))
        }
    }
}

extension SQLiteStore {
    /// Truncates the write-ahead log if no connection is using it; otherwise, later commits retry
    /// the truncation.
    ///
    /// - Returns: Whether the log is empty.
    public func checkpoint() async -> Bool {
        needsCheckpoint.withLock { $0 = true }
        // A closed store has already truncated its log.
        return (try? await writer.run { [self] in tryCheckpoint($0) }) ?? true
    }

    /// Truncates the log without waiting for other connections, because local changes would have to
    /// wait too.
    private func tryCheckpoint(_ database: Database) -> Bool {
        guard needsCheckpoint.withLock({ $0 }) else { return true }
        // While the store is suspended, this would take time and locks; the next commit after the
        // suspension retries it.
        if connection.isSuspended { return false }
        let isEmpty = (try? database.checkpoint()) ?? false
        if isEmpty { needsCheckpoint.withLock { $0 = false } }
        return isEmpty
    }
}

extension SQLiteStore {
    /// The number of free bytes on the file's disk; nil if it is not known.
    public var freeBytes: Int64? { Self.freeBytes(at: path) }

    private static func freeBytes(at path: String) -> Int64? {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: path)
        return (attributes?[.systemFreeSize] as? NSNumber)?.int64Value
    }
}

extension SQLiteStore {
    /// Returns a stream with the rows that each transaction changed.
    public func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable {
        defer { watchExternalChanges() }
        return rowHub.stream()
    }
}

extension SQLiteStore {
    /// Runs a read; if an index is outdated because another program changed rows, updates the index
    /// and repeats the read.
    ///
    /// The index is either a search index or a localized index.
    func retryingSearch<Result>(_ read: () async throws -> Result) async throws -> Result {
        for _ in 0..<Self.searchTries {
            do {
                return try await read()
            } catch let behind as IndexBehind {
                try await updateIndexes(behind)
            }
        }
        do {
            return try await read()
        } catch is IndexBehind {
            throw SyncError.unsupportedQuery(
                "another program keeps changing the rows during a search. Search again."
            )
        }
    }

    private static var searchTries: Int { 3 }

    private func updateIndexes(_ behind: IndexBehind) async throws {
        try await write { [self] writer in
            guard let transaction = writer as? SQLiteTransaction else { return }
            try updateIndexes(behind, transaction.database)
        }
    }

    private func updateIndexes(_ behind: IndexBehind, _ database: Database) throws {
        let tables = try current(database)
        for table in behind.tables.compactMap({ tables[$0] }) {
            if behind.isDamaged {
                try table.search?.remake(in: database)
                try table.order?.remake(in: database)
            }
            try table.search?.update(in: database)
            try table.order?.update(in: database)
        }
    }
}

/// The tables that were opened, by name.
private struct OpenedTables: Sendable {
    /// The file's schema version at the time when the tables were read.
    var version: Int64?
    /// The number of times that tables were opened.
    var opens = 0
    private(set) var byName: [String: SQLiteTable] = [:]
    /// The names by lowercase name, because the file keeps the letter case of the first definition.
    private var names: [String: Set<String>] = [:]

    mutating func add(_ table: SQLiteTable) {
        let name = table.schema.name
        byName[name] = table
        names[name.lowercased(), default: []].insert(name)
    }

    /// Replaces the table with the same name.
    mutating func replace(_ table: SQLiteTable) { byName[table.schema.name] = table }

    /// Returns the written rows, listed under each name with which their table was opened.
    func change(_ written: [String: StoreChange.Rows]) -> StoreChange {
        var all: [String: StoreChange.Rows] = [:]
        for (table, rows) in written {
            for name in names(ofWritten: [table]) {
                all[name] = all[name].map { StoreChange.joined($0, rows) } ?? rows
            }
        }
        return StoreChange(all)
    }

    /// Returns the names with which the written tables were opened.
    func names(ofWritten written: Set<String>) -> Set<String> {
        var result: Set<String> = []
        for name in written { result.formUnion(names[name.lowercased()] ?? [name]) }
        return result
    }
}
