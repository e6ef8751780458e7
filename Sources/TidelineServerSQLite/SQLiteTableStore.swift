// SQLiteTableStore: tables in one SQLite file: a writer thread and a few readers.
//
// A small read is tried on the caller's thread first, which is that of its connection's event loop,
// with a bound of about a millisecond of SQLite's work: most end far below it, and the change to a
// reader's thread and back costs as much as they do. What passes the bound starts anew on a reader.

import Foundation
import Synchronization
package import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// Tables in an SQLite file.
package final class SQLiteTableStore: TableStore {
    package struct Options: Sendable {
        /// One connection that works on the caller's thread, for tests that need one order.
        package var inline = false
        package var limits = ServerLimits()
        package var readers = min(ProcessInfo.processInfo.activeProcessorCount, 4)
        package var now = ServerEnvironment.live.now
        package var log = ServerLog.silent

        package init() {}
    }

    /// Whether the database could be written when it was last tried.
    private struct Look {
        /// Microseconds since 1970.
        var time = Int64.min / 2
        var refusal: ServerError?
    }

    /// How many microseconds a look counts.
    private static let lookLasts: Int64 = 1_000_000

    private let writer: GroupWriter
    /// Nil in inline mode, which reads on the writing connection.
    private let readers: DatabaseThreads?
    /// Those of `readers`, to interrupt them.
    private let connections: [Database]
    /// The connections of small reads; nil in inline mode.
    private let brief: LentDatabases?
    private let tables = Mutex<[String: SQLiteTable]>([:])
    private let heads = Mutex<[String: TableHead]>([:])
    private let isStopped = Mutex(false)
    private let limits: ServerLimits
    private let lastLook = Mutex(Look())
    private let queryTime: Duration
    private let log: ServerLog
    private let path: String
    private let now: @Sendable () -> Int64
    /// Nil in inline mode, which is for databases that nobody else has.
    private let lock: FileLock?

    /// Opens the file at `path`, or makes it.
    ///
    /// - Throws: ``DatabaseError``.
    package init(path: String, options: Options = Options()) throws {
        self.path = path
        now = options.now
        lock = options.inline ? nil : try ServerFile(path: path).lock(mayBeNew: true)
        let database = try DatabaseError.naming(path) { try Database(path: path) }
        limits = options.limits
        queryTime = options.limits.queryTime
        log = options.log
        writer = GroupWriter(
            database,
            inline: options.inline,
            limits: options.limits,
            now: options.now,
            log: options.log
        )
        guard !options.inline else {
            readers = nil
            connections = []
            brief = nil
            return
        }
        let open: @Sendable () throws -> Database = {
            let database = try Database(path: path, mode: .readOnly)
            // Opens its files now: later there may be no descriptor left.
            _ = try database.integer("SELECT count(*) FROM sqlite_schema")
            return database
        }
        let count = max(1, options.readers)
        connections = try DatabaseError.naming(path) { try (0..<count).map { _ in try open() } }
        readers = DatabaseThreads(connections, name: "tideline-reader")
        let ready = try DatabaseError.naming(path) { try (0..<count).map { _ in try open() } }
        brief = LentDatabases(ready: ready, open: open)
    }

    package func prepare(
        _ definitions: [TableDefinition],
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        let (stored, steps) = try await writer.run { [now, path] database in
            try DatabaseError.naming(path) {
                try SchemaChange(database: database, now: now)
                    .prepare(definitions, isComplete: isComplete)
            }
        }
        for step in steps {
            log.write(step.isNotable ? .info : .debug, "tables", ["change": step.description])
        }
        writer.purge(tombstonesOf: definitions) { head(of: $0).ties }
        return stored
    }

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        let read = ListRead(request, derived(table))
        let isSmall = request.rowsMax <= Self.smallRowsMax && !request.wantsCount
        return try await self.read(isSmall: isSmall) { try read.run($0) }
    }

    /// The most rows of a page that is tried on the caller's thread.
    private static let smallRowsMax = 100

    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> StoredRow? {
        let table = derived(table)
        guard let view else {
            return try await read(isSmall: true) { try RowWrites.row(id, table, $0) }
        }
        return try await read(isSmall: true) { try RowView(table, view).row(id, $0) }
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        let derived = derived(table)
        let image = try await read(isSmall: true) { try RowWrites.image(id, derived, $0) }
        return image.flatMap { $0.isVisible(in: view, of: table) ? $0 : nil }
    }

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        let groups = batch.groups.map { group in
            group.writes.map { write in
                BatchJob.Write(operation: write.operation, table: derived(write.table))
            }
        }
        let outcomes = try await writer.write(batch, groups)
        for case .done(let writes) in outcomes {
            for case let grown? in writes.map(\.grown) {
                let columns = "\(grown.schema.columns.count) columns"
                log.write(.debug, "tables", ["change": "Table '\(grown.name)' has \(columns)."])
            }
        }
        return outcomes
    }

    /// Removes some of the tombstones that are older than their tables keep them.
    package func purgeTombstones() async throws {
        _ = try await writer.run { [writer] in try writer.purgeTombstones($0) }
    }

    package func epoch() async throws -> String {
        try await writer.run { database in
            let statement = try database.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return try statement.step() ? statement.text(0) : ""
        }
    }

    package func watch(_ report: @escaping @Sendable ([TableStamp]) -> Void) async throws {
        try await writer.run { [writer] database in
            var stamps: [TableStamp] = []
            let statement = try database.prepare(ServerSchema.readStamps)
            defer { statement.reset() }
            while try statement.step() {
                stamps.append(TableStamp(table: statement.text(0), stamp: statement.integer(1)))
            }
            report(stamps)
            writer.report = report
        }
    }

    package func checkWritable() async throws {
        guard !isStopped.withLock({ $0 }) else { throw ServerError.stopping }
        guard writer.queueLength < limits.writeQueue else { throw ServerError.tooManyWrites }
        let time = now()
        // Anybody may ask, and each look is a flush of the disk.
        let isNew = lastLook.withLock { look in
            guard time >= look.time, time - look.time < Self.lookLasts else {
                look.time = time
                return false
            }
            return true
        }
        if !isNew { await lookWhetherWritable() }
        if let refusal = lastLook.withLock({ $0.refusal }) { throw refusal }
    }

    /// Writes, and remembers how it went.
    private func lookWhetherWritable() async {
        var refusal: ServerError?
        do {
            try await writer.run { try $0.execute(ServerSchema.touchState) }
        } catch let error as ServerError {
            refusal = error
        } catch {
            log.write(.error, "the database cannot be written", ["cause": "\(error)"])
            refusal = .notWritable
        }
        lastLook.withLock { $0.refusal = refusal }
    }

    package var writeQueueLength: Int { writer.queueLength }

    package func stop() async {
        let wasStopped = isStopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return }
        readers?.stop()
        // Whoever asked has been answered, or is gone.
        for database in connections { database.interrupt() }
        do {
            try await writer.run { try $0.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        } catch {
            log.write(.warning, "checkpoint at the end failed", ["cause": "\(error)"])
        }
        writer.stop()
        lock?.release()
    }

    /// One for all forms of a table, however its name is written.
    ///
    /// Not for any number of tables that a caller of a dynamic schema thinks of.
    private func head(of table: String, isWanting: Bool = false) -> TableHead {
        heads.withLock { heads in
            let name = table.lowercased()
            if let known = heads[name] { return known }
            let made = TableHead()
            if !isWanting || heads.count < 10_000 { heads[name] = made }
            return made
        }
    }

    /// What is derived from a table, kept for as long as the table has this form.
    private func derived(_ table: Table) -> SQLiteTable {
        tables.withLock { tables in
            if let known = tables[table.name], known.table === table { return known }
            let made = SQLiteTable(table, head: head(of: table.name, isWanting: table.isWanting))
            // A form that a write may make may never be there.
            if !table.isWanting { tables[table.name] = made }
            return made
        }
    }

    /// Reads for `limits.queryTime` at most.
    private func read<Result: Sendable>(
        isSmall: Bool,
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        guard !isStopped.withLock({ $0 }) else { throw ServerError.stopping }
        let queryTime = queryTime
        do {
            if isSmall, let result = try readBriefly(body) { return result }
            guard let readers else { return try await writer.run(body) }
            let start = QueryStart()
            return try await untilCancelled { stop in
                try await readers.run { [self] database in
                    guard !isStopped.withLock({ $0 }) else { throw ServerError.stopping }
                    try stop.check()
                    do {
                        return try database.limitTime(queryTime, since: start, stop: stop) {
                            try body(database)
                        }
                    } catch let error as SQLiteError where error.isInterrupt {
                        try stop.check()
                        throw database.workedPastItsTime
                            ? ServerError.queryTooExpensive : ServerError.queryTooSlow
                    }
                }
            }
        } catch let error as SQLiteError where error.isTooComplex {
            throw ServerError.queryTooComplex
        } catch let error as SQLiteError where error.isCannotOpen {
            // Connections have taken all descriptors, and a sort wants a file.
            log.write(.error, "the database cannot open a file", ["cause": "\(error)"])
            throw ServerError.noFiles
        }
    }

    /// Nil when the read takes longer than the caller's thread may be held up.
    private func readBriefly<Result>(_ body: (Database) throws -> Result) throws -> Result? {
        guard let brief else { return nil }
        do {
            // The first look at the clock ends it, after about a millisecond.
            return try brief.lend { database in
                try database.limitTime(.zero) { try body(database) }
            }
        } catch let error as SQLiteError where error.isInterrupt {
            return nil
        }
    }
}
