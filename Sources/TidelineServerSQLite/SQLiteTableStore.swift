// SQLiteTableStore: tables in one SQLite file: a writer thread and readers.
//
// A small read is tried on the caller's thread first, which is that of its connection's event loop,
// with a bound of about a millisecond of SQLite's work: most end far below it, and the change to a
// reader's thread and back costs as much as they do. What passes the bound starts anew on a reader,
// and for some seconds its statement begins there.

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
        /// How many reads run beside the event loops, at least two.
        package var readers = max(ProcessInfo.processInfo.activeProcessorCount, 2)
        /// How often the writer looks for what is older than it is kept.
        package var purgeInterval: Duration = .seconds(600)
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
    private let readers: ReadThreads?
    /// The connections of small reads on the threads of callers; nil in inline mode.
    private let brief: LentDatabases?
    /// Nil in inline mode, which has no log.
    private let writeAheadLog: WriteAheadLog?
    private let costs = Mutex(ReadCosts())
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
            purgeInterval: options.purgeInterval,
            now: options.now,
            log: options.log
        )
        guard !options.inline else {
            readers = nil
            brief = nil
            writeAheadLog = nil
            return
        }
        let open: @Sendable () throws -> Database = {
            let database = try Database(path: path, mode: .readOnly)
            // Opens its files now: later there may be no descriptor left.
            _ = try database.integer("SELECT count(*) FROM sqlite_schema")
            return database
        }
        let count = max(2, options.readers)
        let (connections, ready, copier) = try DatabaseError.naming(path) {
            (
                try (0..<count).map { _ in try open() },
                try (0..<count).map { _ in try open() },
                try Database(
                    path: path,
                    mode: .existing,
                    busyMilliseconds: WriteAheadLog.busyMilliseconds
                )
            )
        }
        let readers = ReadThreads(connections)
        self.readers = readers
        brief = LentDatabases(ready: ready, open: open)
        writeAheadLog = try DatabaseError.naming(path) {
            try WriteAheadLog(
                of: database,
                copiedBy: copier,
                bytesMax: options.limits.logBytes,
                log: options.log
            ) { readers.interrupt() }
        }
    }

    package func prepare(
        _ definitions: [TableDefinition],
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        let (stored, steps, stamps) = try await writer.run { [now, path] database in
            try DatabaseError.naming(path) {
                let (stored, steps) = try SchemaChange(database: database, now: now)
                    .prepare(definitions, isComplete: isComplete)
                let stamps = try stored.map {
                    try database.integer(ServerSchema.readStamp, [.text($0.name)]) ?? 0
                }
                return (stored, steps, stamps)
            }
        }
        for (table, stamp) in zip(stored, stamps) { head(of: table.name).ties.begin(after: stamp) }
        for step in steps {
            log.write(step.isNotable ? .info : .debug, "tables", ["change": step.description])
        }
        writer.watch(stored, beginsAtOnce: true) { head(of: $0) }
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
        return try await self.read(begin) { try read.run($0) }
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
            return try await read(ReadBegin()) { try RowWrites.row(id, table, $0) }
        }
        return try await read(ReadBegin()) { try RowView(table, view).row(id, $0) }
    }

    package func clock(of table: Table) async throws -> TableClock {
        let table = derived(table)
        if let known = table.head.clock.known { return known }
        let read = try await read(ReadBegin()) { try KnownClock.read(table.name, $0) }
        return table.head.clock.learn(read)
    }

    package func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        let read = ChangesRead(request, derived(table))
        let isSmall = request.rowsMax <= Self.smallRowsMax && !request.wantsCount
        let begin = ReadBegin(isSmall ? .loop : .brief, of: request.caller)
        return try await self.read(begin) { try read.run($0) }
    }

    package func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        let read = DigestRead(request, derived(table))
        return try await self.read(ReadBegin(.brief, of: request.caller)) { try read.run($0) }
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        let derived = derived(table)
        let image = try await read(ReadBegin()) { try RowWrites.image(id, derived, $0) }
        return image.flatMap { $0.isVisible(in: view, of: table) ? $0 : nil }
    }

    package func isNew(_ key: RepeatKey) async throws -> Bool {
        let (limits, now) = (limits, now())
        return try await read(ReadBegin()) { database in
            let found = try Ledger(database: database, limits: limits).lookUp(key, now: now)
            guard case .new = found else { return false }
            return true
        }
    }

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        let groups = batch.groups.map { group in
            group.writes.map { write in
                BatchJob.Write(
                    operation: write.operation,
                    table: derived(write.table),
                    repeatKey: write.repeatKey
                )
            }
        }
        let outcomes = try await writer.write(batch, groups)
        for case .done(let writes) in outcomes {
            for case let grown? in writes.map(\.grown) {
                let columns = "\(grown.schema.columns.count) columns"
                log.write(.debug, "tables", ["change": "Table '\(grown.name)' has \(columns)."])
                writer.watch([grown], beginsAtOnce: false) { head(of: $0) }
            }
        }
        return outcomes
    }

    /// Removes some of each kind of what is older than it is kept.
    package func purge() async throws {
        try await writer.run { [writer] in try writer.purge($0) }
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

    package var logBytes: Int { Int(clamping: ServerFile.size(of: path + "-wal") ?? 0) }

    package func stop() async {
        let wasStopped = isStopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return }
        readers?.stop()
        // Whoever asked has been answered, or is gone.
        readers?.interrupt()
        await writeAheadLog?.stop()
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

    // MARK: - Reading

    /// Where a read begins, and for whom.
    private struct ReadBegin {
        var lane: ReadLane
        var caller: ReadCaller
        /// The text of its statement, as far as it is known; empty for what is always short.
        var statement: String

        init(
            _ lane: ReadLane = .loop,
            of caller: ReadCaller = .nobody,
            statement: String = ""
        ) {
            self.lane = lane
            self.caller = caller
            self.statement = statement
        }
    }

    /// How long a read may be that is not known to be long, on a reader.
    private static let briefTime: Duration = .milliseconds(25)

    /// Reads for `limits.queryTime` at most.
    private func read<Result: Sendable>(
        _ begin: ReadBegin,
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        guard !isStopped.withLock({ $0 }) else { throw ServerError.stopping }
        do {
            guard let readers else {
                return try await writer.run { [queryTime] database in
                    do {
                        return try database.limitTime(queryTime) { try body(database) }
                    } catch let error as SQLiteError where error.isInterrupt {
                        throw Self.refusal(database)
                    }
                }
            }
            let start = QueryStart()
            let statement = begin.statement
            let lane = statement.isEmpty ? begin.lane : max(begin.lane, knownLane(statement, start))
            if lane == .loop, let result = try readBriefly(statement, body) { return result }
            return try await untilCancelled { stop in
                try await readers.run(max(lane, .brief), of: begin.caller) {
                    [self] database, lane in
                    try read(database, lane, statement, start, stop, body)
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

    /// Reads on a reader; nil when a brief read took too long.
    private func read<Result>(
        _ database: Database,
        _ lane: ReadLane,
        _ statement: String,
        _ start: QueryStart,
        _ stop: QueryStop,
        _ body: (Database) throws -> Result
    ) throws -> Result? {
        guard !isStopped.withLock({ $0 }) else { throw ServerError.stopping }
        try stop.check()
        if lane == .brief, queryTime > Self.briefTime {
            do {
                return try database.limitTime(Self.briefTime, stop: stop) { try body(database) }
            } catch let error as SQLiteError where error.isInterrupt {
                try stop.check()
                exceeded(.brief, statement)
                return nil
            }
        }
        guard let writeAheadLog else { return nil }
        do {
            let result = try writeAheadLog.longRead(before: start.adding(queryTime)) {
                try stop.check()
                return try database.limitTime(queryTime, since: start, stop: stop) {
                    try body(database)
                }
            }
            if let result { return result }
        } catch let error as SQLiteError where error.isInterrupt {
            try stop.check()
            throw isStopped.withLock({ $0 }) ? ServerError.stopping : Self.refusal(database)
        }
        throw isStopped.withLock({ $0 }) ? ServerError.stopping : ServerError.queryTooSlow
    }

    /// Why a query has no answer whose time is over.
    private static func refusal(_ database: Database) -> ServerError {
        database.workedPastItsTime ? .queryTooExpensive : .queryTooSlow
    }

    /// Nil when the read takes longer than the caller's thread may be held up.
    private func readBriefly<Result>(
        _ statement: String,
        _ body: (Database) throws -> Result
    ) throws -> Result? {
        guard let brief else { return nil }
        do {
            // The first look at the clock ends it, after about a millisecond.
            return try brief.lend { database in
                try database.limitTime(.zero) { try body(database) }
            }
        } catch let error as SQLiteError where error.isInterrupt {
            exceeded(.loop, statement)
            return nil
        }
    }

    private func knownLane(_ statement: String, _ now: QueryStart) -> ReadLane {
        costs.withLock { $0.lane(of: statement, at: now.nanoseconds) }
    }

    private func exceeded(_ lane: ReadLane, _ statement: String) {
        guard !statement.isEmpty else { return }
        let now = QueryStart().nanoseconds
        costs.withLock { $0.exceeded(lane, statement, at: now) }
    }
}
