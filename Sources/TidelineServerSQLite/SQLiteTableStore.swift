// SQLiteTableStore: tables in one SQLite file: a writer thread and readers.

import Dispatch
import Foundation
import Synchronization
package import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// Tables in an SQLite file.
package final class SQLiteTableStore: TableStore {
    package struct Options: Sendable {
        /// Whether one connection runs on the caller's thread, for tests that need a fixed order.
        package var inline = false
        package var limits = ServerLimits()
        /// The number of reader threads in addition to the event loops, at least two.
        package var readers = max(ProcessInfo.processInfo.activeProcessorCount, 2)
        /// How often the writer purges data that exceeds its retention time.
        package var purgeInterval: Duration = .seconds(600)
        package var now = ServerEnvironment.live.now
        /// A clock that is never set, in microseconds.
        package var steady = ServerEnvironment.live.steady
        package var log = ServerLog.silent
        package var metrics = StoreMetrics()
        /// The time to wait for another server that is using the file.
        package var lockPatience: Duration = .zero

        package init() {}
    }

    private let writer: SQLiteWriter
    private let reports = CommitReports()
    private let reads: StoreReads
    private let tables = DerivedTables()
    private let limits: ServerLimits
    private let writeProbe: WriteProbe
    private let log: ServerLog
    private let path: String
    private let now: @Sendable () -> Int64
    /// The lock of the file; nil in inline mode, which is for databases that no other process uses.
    private let lock: FileLock?
    private let file: FileWatch?

    /// Releases the file for other servers if the store was never stopped, because its tables did not fit.
    deinit {
        file?.end()
        lock?.release()
    }

    /// Opens the file at `path`, or creates it.
    ///
    /// - Throws: ``DatabaseError``.
    package init(path: String, options: Options = Options()) throws {
        self.path = path
        now = options.now
        let lock = options.inline ? nil : try Self.lock(path, options)
        self.lock = lock
        let (database, file) = try DatabaseError.naming(path) {
            let database = try Database(path: path)
            let file = try lock.map {
                try FileWatch(path: path, lock: $0, database: database, log: options.log)
            }
            return (database, file)
        }
        self.file = file
        limits = options.limits
        log = options.log
        writeProbe = WriteProbe(now: options.now, log: options.log)
        let steps = RetentionPurge(limits: options.limits, now: options.now, heads: tables.heads)
        writer = SQLiteWriter(
            limits: options.limits,
            retention: RetentionRun(
                steps,
                steady: options.steady,
                log: options.log,
                metrics: options.metrics
            ),
            purgeInterval: options.purgeInterval,
            log: options.log,
            metrics: options.metrics,
            inline: options.inline
        ) { [reports, tables] in
            SQLiteWriteSession(
                database,
                tables,
                file: file,
                limits: options.limits,
                now: options.now,
                reports: reports,
                log: options.log
            )
        }
        reads = try StoreReads(
            of: database,
            path: path,
            writer: writer,
            reports: reports,
            file: file,
            options: options
        )
    }

    /// Waits until the file is free, and returns its lock.
    private static func lock(_ path: String, _ options: Options) throws -> FileLock {
        let end = QueryStart().adding(options.lockPatience)
        let pause = DispatchSemaphore(value: 0)
        var isLogged = false
        while true {
            do {
                return try ServerFile(path: path).lock(mayBeNew: true)
            } catch let error as DatabaseError where error.code == .inUse {
                let now = QueryStart()
                guard now.nanoseconds < end else { throw error }
                if !isLogged {
                    options.log.write(.info, "waiting for another server to release the database")
                }
                isLogged = true
                let next = DispatchTime(uptimeNanoseconds: now.adding(lockPause))
                _ = pause.wait(timeout: next)
            }
        }
    }

    /// The pause between two attempts to acquire the lock.
    private static let lockPause: Duration = .milliseconds(5)

    package func prepare(
        _ definitions: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        let (stored, steps, clocks) = try await writer.run {
            [now, path, writer, file, log] database in
            try DatabaseError.naming(path) {
                if file != nil { try FileCheck.run(database, path: path, log: log) }
                let newest = try ReceiptTimes.newest(database)
                let (stored, steps) = try SchemaChange(database: database, now: now)
                    .prepare(definitions, filtered: filtered, isComplete: isComplete)
                try file?.begin(on: database)
                try writer.retention.begin(newest, database)
                let clocks = try stored.map { try KnownClock.read($0.name, database) }
                // A file that loses its log must still be recognized as a server's, and not as a blank one.
                if stored.isEmpty || steps.contains(where: { $0.kind == .createTable }) {
                    try? database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                }
                return (stored, steps, clocks)
            }
        }
        for (table, clock) in zip(stored, clocks) {
            let head = tables.heads.head(of: table.name)
            head.ties.begin(after: clock.timestamp)
            head.clock.raiseHorizon(to: clock.horizon)
        }
        for step in steps {
            log.write(step.isNotable ? .info : .debug, "tables", ["change": step.description])
        }
        writer.queue.watch(stored, beginsAtOnce: true)
        return stored
    }

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        let read = ListRead(request, derived(table))
        let isSmall = request.rowsMax <= Self.smallRowsMax && !request.wantsCount
        let begin = ReadBegin(
            isSmall ? .loop : .brief,
            of: request.caller,
            statement: read.knownText
        )
        var small = read
        small.loopBytesMax = StoreReads.loopBytesMax
        return try await reads.read(
            begin,
            onLoop: { [small] in try small.run($0) },
            { try read.run($0) }
        )
    }

    /// The maximum number of rows of a page that is first tried on the caller's thread.
    private static let smallRowsMax = 100

    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow? {
        let table = derived(table)
        let small = RowBounds(loopBytesMax: StoreReads.loopBytesMax)
        let whole = RowBounds(reservation: reservation)
        guard let view else {
            return try await reads.read(
                ReadBegin(),
                onLoop: { try SQLiteWriteTransaction.row(id, table, $0, small) },
                { try SQLiteWriteTransaction.row(id, table, $0, whole) }
            )
        }
        return try await reads.read(
            ReadBegin(),
            onLoop: { try RowView(table, view).row(id, $0, small) },
            { try RowView(table, view).row(id, $0, whole) }
        )
    }

    package func clock(of table: Table) async throws -> TableClock {
        let table = derived(table)
        if let known = table.head.clock.known { return known }
        let read = try await reads.read(ReadBegin()) { try KnownClock.read(table.name, $0) }
        return table.head.clock.learn(read)
    }

    package func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        let read = ChangesRead(request, derived(table))
        let isSmall = request.rowsMax <= Self.smallRowsMax && !request.wantsCount
        let begin = ReadBegin(
            isSmall ? .loop : .brief,
            of: request.caller,
            statement: read.knownText
        )
        var small = read
        small.loopBytesMax = StoreReads.loopBytesMax
        return try await reads.read(
            begin,
            onLoop: { [small] in try small.run($0) },
            { try read.run($0) }
        )
    }

    package func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        let read = DigestRead(request, derived(table))
        let begin = ReadBegin(.brief, of: request.caller, statement: read.knownText)
        return try await reads.read(begin) { try read.run($0) }
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        let derived = derived(table)
        let image = try await reads.read(ReadBegin()) {
            try SQLiteWriteTransaction.image(id, derived, $0)
        }
        return image.flatMap { $0.isVisible(in: view, of: table) ? $0 : nil }
    }

    package func isNew(_ key: RepeatKey) async throws -> Bool {
        let (limits, now) = (limits, now())
        return try await reads.read(ReadBegin()) { database in
            var ledger = Ledger(database: database, limits: limits)
            return try ledger.find(key, at: now).isNew
        }
    }

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        let tables = batch.groups.map { $0.writes.map { derived($0.table) } }
        let related = batch.relatedTables.map(derived)
        return try await writer.write(batch, tables, related: related)
    }

    package func continueCascades(in graph: @escaping @Sendable () -> ReferenceGraph?) async {
        writer.continueCascades(in: graph)
    }

    /// Removes some of each kind of expired data.
    package func purge() async throws { try await writer.purge() }

    package func epoch() async throws -> String {
        try await writer.run { database in
            let statement = try database.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return try statement.step() ? statement.text(0) : ""
        }
    }

    package func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws {
        try await writer.run { [reports] database in
            report(try ReceiptTimes.timestamps(database))
            reports.listener.withLock { $0 = CommitListener(report: report) }
        }
    }

    /// Reports nothing, because a file is not restored while a server has it open.
    package func watchEpoch(_ report: @escaping @Sendable (String) -> Void) {}

    package func checkWritable() async throws {
        guard !reads.isStopped else { throw ServerError.stopping }
        if let rejection = file?.check() { throw rejection }
        guard writer.queue.length < limits.writeQueue else { throw ServerError.tooManyWrites }
        try await writeProbe.check { [writer] in
            try await writer.run { try $0.execute(ServerSchema.touchState) }
        }
    }

    /// The number of statements that begin in a higher lane because of their recorded costs.
    package var statementsKnownLong: Int { reads.costsKnown }

    package var writeQueueLength: Int { writer.queue.length }

    package var logBytes: Int { Int(clamping: ServerFile.size(of: path + "-wal") ?? 0) }

    package var warnings: [StoreWarning] {
        guard let lock else {
            return [
                StoreWarning(
                    "fileWatchOff",
                    "The database is in memory, so no file is watched and the data is lost when the server stops."
                )
            ]
        }
        return lock.isWritable ? [] : [FileWatch.unwritableLock(lock.path)]
    }

    package func sizes() async throws -> [StoreSize] {
        let ledger = try await reads.read(ReadBegin()) { try Ledger.measure($0).bytes }
        let files = [("database", path), ("log", path + "-wal")].compactMap { part, path in
            ServerFile.size(of: path).map { StoreSize(part, Int64($0)) }
        }
        return files + [StoreSize("ledger", ledger)]
    }

    package func stop() async {
        guard await reads.stop() else { return }
        do {
            try await writer.run { [file] database in
                guard file?.check() == nil else {
                    // The log belongs to a file that was replaced or removed.
                    database.keepLog()
                    return
                }
                file?.stop()
                try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            }
        } catch {
            log.write(.warning, "the final checkpoint failed", ["cause": "\(error)"])
        }
        await writer.stop()
        file?.end()
        lock?.release()
    }

    private func derived(_ table: Table) -> SQLiteTable { tables.derived(table) }
}
