// SQLiteStore: the store of the SDK: one SQLite file, WAL, synchronous=FULL.
//
// One writer connection on a thread of its own; readers are lent connections, used on the caller's
// thread (a look-up costs 2 microseconds, a change of thread 25). A read in a file opened `inline`
// shares the writer's connection; that serves tests and databases in memory.

import Foundation
import Synchronization
public import TidelineCore
import TidelineSQLite

/// The default store: one SQLite file on the device.
///
/// Guarantees: each transaction is atomic and, once `write` returned, survives a loss of power. The
/// file has a format version; a file of a newer version is refused and left untouched. The tables
/// are ordinary tables with typed columns: an app may read them with SQL and add indexes.
///
/// ```swift
/// let store = try SQLiteStore(path: "todo.sqlite")
/// ```
public final class SQLiteStore: LocalStore {
    let path: String
    let isEncrypted: Bool
    let writer: DatabaseThreads
    let connection: WriterConnection
    let readers: LentDatabases?
    let log: StoreLog?
    /// Nil where no other process can have the file.
    let foreign: ForeignChanges?
    let turn: SyncTurn?
    let checks = CheckListeners()
    private let hub = ChangeHub<Set<String>>()
    private let rowHub = ChangeHub<StoreChange>()
    private let tables = Mutex(OpenedTables())
    /// Whether the disk had no room for what the log holds, or may have had none in an earlier run.
    private let isLogStuck: Mutex<Bool>
    /// Whether the log has what was purged.
    private let isLogToEmpty = Mutex(false)

    /// The log that stays on the disk when it was longer for a while.
    static let logBytesKept = 8 << 20

    /// A log of half a megabyte, where the disk is short of space: a long one would take what the
    /// database needs to grow when the log is folded.
    static let foldsOften = "PRAGMA wal_autocheckpoint = 128"

    private static func isShortOfSpace(_ path: String) -> Bool {
        room(at: path).map { $0 < 64 << 20 } ?? false
    }

    /// Opens a file, or makes it.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` when the file cannot be opened, is no
    ///   database or is that of another program, `newerStore` when it was written by a newer
    ///   version of this library. A file that is refused is left untouched.
    public convenience init(path: String) throws {
        try self.init(path: path, inline: false)
    }

    /// `inline`: everything runs on the caller's thread, one call at a time.
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
            foreign = isInline ? nil : try ForeignChanges(of: database)
            turn = isInline ? nil : SyncTurn(of: path)
            writer =
                isInline
                ? DatabaseThreads(inline: database)
                : DatabaseThreads([database], name: "tideline.store") {
                    try connection.open(.writer)
                }
            readers =
                isInline
                ? nil : LentDatabases { try Database(path: path, key: key, mode: .readOnly) }
        } catch let error as SQLiteError where error.isNotADatabase && key != nil {
            throw SyncError.wrongKey(path, error)
        } catch let error as SQLiteError {
            throw SyncError.store(error, at: path, isOpening: true)
        }
    }

    deinit {
        foreign?.end()
        writer.stop()
    }

    /// Ends the use of the file: what the log holds is moved into it, and nothing holds it open.
    ///
    /// Changes that were begun come to their end first. Later calls throw ``SyncError`` with code
    /// `storeFailure`, and every stream of ``changes()`` ends. A second call does nothing. A file
    /// that may be copied, moved or removed is closed before.
    ///
    /// - Throws: Nothing that an app could handle: a log that cannot be moved stays beside the
    ///   file, and is read when that is opened again.
    public func close() async throws {
        readers?.close()
        foreign?.end()
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

    /// Makes the tables and columns that are missing.
    ///
    /// Rows are brought into the columns of a model that is another than before; where the task is
    /// cancelled meanwhile, nothing has happened.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure`: a disk that is full, a damaged file, one
    ///   that is locked by another program, or a closed store; the message says which. `cancelled` when
    ///   the task is cancelled while rows are brought into other columns. The file is as it was.
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
            // Where others were opened before, the next transaction looks at all of them.
            known.version = known.byName.count == built.tables.count ? built.version : nil
        }
    }

    /// The tables as the file has them in the open transaction.
    ///
    /// Another program, or another store on the file, may have added columns since.
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
            // Tables that were opened meanwhile stay: the next transaction looks at them again.
            if known.version == opened.version, known.opens == opened.opens { known = now }
            return now.byName
        }
    }

    /// Runs `body` on a consistent state, on a connection of its own.
    ///
    /// - Throws: What `body` throws, and ``SyncError`` with code `storeFailure` for a damaged file,
    ///   a closed store, and a column to which another program gave another type.
    public func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        do {
            guard let readers else {
                return try await writer.run { [self] in
                    try body(SQLiteTransaction($0, try current($0)))
                }
            }
            return try readers.lend(isUnusable: Self.isUnavailable) { database in
                try database.snapshot {
                    let tables = try current(database)
                    return try body(SQLiteTransaction(database, tables, end: connection.end))
                }
            }
        } catch let error as SQLiteError {
            throw failure(error)
        }
    }

    /// Runs `body` in one transaction on the writer's thread.
    ///
    /// - Throws: What `body` throws, and ``SyncError`` with code `storeFailure` for a full disk, a
    ///   read-only or damaged file, or a closed store. Nothing is changed then.
    public func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result { try await write(isRepeatable: false, body) }

    /// Runs `body` in one transaction on the writer's thread, without waiting for the disk.
    ///
    /// The next ``write(_:)`` waits for the disk, and for what was written before it.
    ///
    /// - Throws: As ``write(_:)``.
    public func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result { try await write(isRepeatable: true, body) }

    private func write<Result: Sendable>(
        isRepeatable: Bool,
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let opened = tables.withLock { $0 }
        typealias Written = (result: Result, tables: Set<String>, rows: [String: StoreChange.Rows]?)
        let written: Written
        do {
            written = try await writer.run { [self] database in
                defer {
                    log?.committed(database)
                    _ = tryToEmptyLog(database)
                }
                func transaction() throws -> Written {
                    _ = connection.takeWritten()
                    let rows = rowHub.isWatched ? RowRecorder() : nil
                    let result = try database.transaction(isFlushed: !isRepeatable) {
                        let tables = try current(database)
                        let writer = SQLiteTransaction(database, tables, rows, end: connection.end)
                        return try body(writer)
                    }
                    return (result, connection.takeWritten(), rows?.tables)
                }
                // Else the log would take what was freed since.
                if isLogStuck.withLock({ $0 }) { _ = foldFullLog(database) }
                do {
                    return try transaction()
                } catch let error as SQLiteError where error.isFull {
                    guard foldFullLog(database) else { throw error }
                }
                do {
                    return try transaction()
                } catch let error as SQLiteError where error.isFull {
                    // What the transaction took of the disk is given back.
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
            // Where somebody began to watch meanwhile, nobody noted the rows.
            rowHub.publish(written.rows.map(opened.change) ?? StoreChange(all: names))
        }
        return written.result
    }

    /// Folds the log on a disk that is full, from now on often; false where there is no room for it.
    ///
    /// The log holds pages many times over: what was freed elsewhere lets it be folded, and that
    /// frees the rest.
    private func foldFullLog(_ database: Database) -> Bool {
        try? database.execute(Self.foldsOften)
        let isFolded = (try? database.foldLog()) != nil
        isLogStuck.withLock { $0 = !isFolded }
        return isFolded
    }

    /// The tables that each transaction of this store changed.
    ///
    /// After a change by another process on the same file, within a quarter of a second, all tables.
    public func changes() -> AsyncStream<Set<String>> {
        defer { watchOthers() }
        return hub.stream()
    }

    private func watchOthers() {
        foreign?.watch(writer) { [hub, rowHub] in
            hub.isWatched || rowHub.isWatched
        } tell: { [weak self] in
            guard let self else { return }
            let names = Set(tables.withLock { $0.byName.keys })
            hub.publish(names)
            rowHub.publish(StoreChange(all: names))
        }
    }
}

/// A store with a log beside its rows, which has what was deleted for a while.
protocol LogEmptier: LocalStore {
    /// Empties the log where nobody uses it at this moment; if not, each later commit tries it.
    ///
    /// - Returns: Whether it is empty.
    func emptyLog() async -> Bool
}

extension SQLiteStore: LogEmptier {
    func emptyLog() async -> Bool {
        isLogToEmpty.withLock { $0 = true }
        // A store that is closed has emptied it.
        return (try? await writer.run { [self] in tryToEmptyLog($0) }) ?? true
    }

    /// Nobody is waited for: local changes would wait, too.
    private func tryToEmptyLog(_ database: Database) -> Bool {
        guard isLogToEmpty.withLock({ $0 }) else { return true }
        // It would take time and locks; the next commit after that tries.
        if connection.isSuspended { return false }
        let isEmpty = (try? database.emptyLog()) ?? false
        if isEmpty { isLogToEmpty.withLock { $0 = false } }
        return isEmpty
    }
}

/// A store that knows the room on its disk.
protocol RoomTeller: LocalStore {
    /// How many bytes are free; nil where that is not known.
    var room: Int64? { get }
}

extension SQLiteStore: RoomTeller {
    var room: Int64? { Self.room(at: path) }

    private static func room(at path: String) -> Int64? {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: path)
        return (attributes?[.systemFreeSize] as? NSNumber)?.int64Value
    }
}

extension SQLiteStore: RowChangeStore {
    package func rowChanges() -> AsyncStream<StoreChange> {
        defer { watchOthers() }
        return rowHub.stream()
    }
}

/// The tables that were opened, by name.
private struct OpenedTables: Sendable {
    /// The version of the file that they are of.
    var version: Int64?
    /// How often tables were opened.
    var opens = 0
    private(set) var byName: [String: SQLiteTable] = [:]
    /// The names by their lower case: a file tells a name in the letters that it was made with.
    private var names: [String: Set<String>] = [:]

    mutating func add(_ table: SQLiteTable) {
        let name = table.schema.name
        byName[name] = table
        names[name.lowercased(), default: []].insert(name)
    }

    /// Puts a table in the place of the one with its name.
    mutating func replace(_ table: SQLiteTable) { byName[table.schema.name] = table }

    /// What was written, under each name of its table.
    func change(_ written: [String: StoreChange.Rows]) -> StoreChange {
        var all: [String: StoreChange.Rows] = [:]
        for (table, rows) in written {
            for name in names(ofWritten: [table]) {
                all[name] = all[name].map { StoreChange.joined($0, rows) } ?? rows
            }
        }
        return StoreChange(all)
    }

    /// The names by which the tables were opened that the file calls so.
    func names(ofWritten written: Set<String>) -> Set<String> {
        var result: Set<String> = []
        for name in written { result.formUnion(names[name.lowercased()] ?? [name]) }
        return result
    }
}
