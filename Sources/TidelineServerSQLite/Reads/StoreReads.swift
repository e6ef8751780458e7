// StoreReads: where reads run.
//
// A small read is tried on the caller's thread first, which is that of its connection's event loop, with a limit of
// about a millisecond of SQLite's work: most reads end far below it, and switching to a reader's thread and back
// costs as much as the read. A read that exceeds the limit restarts on a reader, and for some seconds its statement
// begins there.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The lane in which a read begins, and its caller.
struct ReadBegin {
    var lane: ReadLane
    var caller: ReadCaller
    /// The SQL of the statement, if it is known; empty for a read that is always short.
    var statement: String

    init(
        _ lane: ReadLane = .loop,
        of caller: ReadCaller = .unknown,
        statement: String = ""
    ) {
        self.lane = lane
        self.caller = caller
        self.statement = statement
    }
}

/// The error for a row or page that is too large for the thread of an event loop.
struct RowTooLargeForLoop: Error {}

/// A runner of reads: on the caller's thread, on readers, or on the writing connection.
final class StoreReads: Sendable {
    /// The maximum number of bytes of a row's strings and blobs, and of a page, that are read on the caller's thread.
    static let loopBytesMax = 64 << 10

    private let writer: SQLiteWriter
    /// The reader threads; nil in inline mode, which reads on the writing connection.
    private let readers: ReadThreads?
    /// The connections for small reads on the threads of callers; nil in inline mode.
    private let brief: DatabasePool?
    /// The write-ahead log; nil in inline mode, which has none.
    private let writeAheadLog: WriteAheadLog?
    private let costs = Mutex(ReadCosts())
    private let stopped = Mutex(false)
    /// The running reads.
    private let running: RunningReads
    private let queryTime: Duration
    private let log: ServerLog
    private let file: FileWatch?

    /// Opens the connections for reads.
    ///
    /// - Throws: ``DatabaseError``.
    init(
        of database: Database,
        path: String,
        writer: SQLiteWriter,
        reports: CommitReports,
        file: FileWatch?,
        options: SQLiteTableStore.Options
    ) throws {
        self.writer = writer
        let running = RunningReads()
        self.running = running
        queryTime = options.limits.queryTime
        log = options.log
        self.file = file
        guard !options.inline else {
            readers = nil
            brief = nil
            writeAheadLog = nil
            return
        }
        let open: @Sendable () throws -> Database = {
            let database = try Database(path: path, mode: .readOnly)
            // The files are opened now, because no descriptor may be free later.
            _ = try database.integer("SELECT count(*) FROM sqlite_schema")
            return database
        }
        // One connection is for brief reads, one for first attempts of long ones, and one for restarted ones.
        let count = max(3, options.readers)
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
        let readers = ReadThreads(connections, metrics: options.metrics)
        self.readers = readers
        brief = DatabasePool(ready: ready, open: open)
        writeAheadLog = try DatabaseError.naming(path) {
            try WriteAheadLog(
                of: database,
                copiedBy: copier,
                bytesMax: options.limits.logBytes,
                file: file,
                log: options.log,
                metrics: options.metrics,
                hasOwnWork: { [running, reports] in
                    running.count > 0 || reports.isWriting.load(ordering: .relaxed)
                },
                interruptReads: { readers.interrupt() }
            )
        }
    }

    /// The number of statements that took too long for the lane in which they began.
    var costsKnown: Int { costs.withLock { $0.count } }

    var isStopped: Bool { stopped.withLock { $0 } }

    /// Ends all reads; returns false if they were already ended.
    func stop() async -> Bool {
        let wasStopped = stopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return false }
        readers?.stop()
        // The callers have their answers, or have disconnected.
        readers?.interrupt()
        await writeAheadLog?.stop()
        return true
    }

    /// The time limit on a reader for a read that is not known to be long.
    private static let briefTime: Duration = .milliseconds(25)

    /// Performs a read for at most `limits.queryTime`.
    ///
    /// If `onLoop` is given, it runs on the caller's thread instead of `body`; if it throws
    /// ``RowTooLargeForLoop``, the read continues on a reader.
    func read<Result: Sendable>(
        _ begin: ReadBegin,
        onLoop: (@Sendable (Database) throws -> Result)? = nil,
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        guard !isStopped else { throw ServerError.stopping }
        do {
            guard let readers else {
                return try await writer.run { [queryTime] database in
                    do {
                        return try database.limitTime(queryTime) { try body(database) }
                    } catch let error as SQLiteError where error.isInterrupt {
                        throw Self.rejection(database)
                    }
                }
            }
            let start = QueryStart()
            let clock = ReadClock(start)
            // The cost of a statement depends on its values, which differ between callers.
            let statement = begin.statement.isEmpty ? "" : "\(begin.caller) \(begin.statement)"
            let lane = statement.isEmpty ? begin.lane : max(begin.lane, knownLane(statement, start))
            if lane == .loop, let result = try readBriefly(statement, onLoop ?? body) {
                return result
            }
            return try await untilCancelled { stop in
                try await readers.run(max(lane, .brief), of: begin.caller) {
                    [self] database, lane in
                    try read(database, lane, statement, clock, stop, body)
                }
            }
        } catch let error as SQLiteError where error.isTooComplex {
            throw ServerError.queryTooComplex
        } catch let error as SQLiteError where file?.met(error) != nil {
            log.write(.error, "a read failed", ["cause": "\(error)"])
            throw file?.check() ?? ServerError.failed
        } catch let error as SQLiteError where error.isCannotOpen {
            // Connections use up all descriptors, and a sort needs a file.
            log.write(.error, "the database cannot open a file", ["cause": "\(error)"])
            throw ServerError.noFiles
        }
    }

    /// Performs a read on a reader; returns nil if a brief read took too long.
    private func read<Result>(
        _ database: Database,
        _ lane: ReadLane,
        _ statement: String,
        _ clock: ReadClock,
        _ stop: QueryStop,
        _ body: (Database) throws -> Result
    ) throws -> Result? {
        guard !isStopped else { throw ServerError.stopping }
        try stop.check()
        running.add(1)
        defer { running.add(-1) }
        if lane == .brief, queryTime > Self.briefTime {
            let read = try BriefRead(database, within: Self.briefTime, stop: stop) { database in
                guard !isStopped else { throw ServerError.stopping }
                return try body(database)
            }
            switch read {
            case .ended(let result): return result
            case .tooLong: exceeded(.brief, statement)
            case .interrupted: break
            }
            return nil
        }
        guard let writeAheadLog else { return nil }
        let (start, begun) = (clock.start, QueryStart())
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
            if database.hasYielded, !isStopped {
                clock.give(QueryStart().nanoseconds &- begun.nanoseconds)
                return nil
            }
            throw isStopped ? ServerError.stopping : Self.rejection(database)
        }
        throw isStopped ? ServerError.stopping : ServerError.queryTooSlow
    }

    /// Returns the rejection of a query that exceeded its time limit.
    private static func rejection(_ database: Database) -> ServerError {
        database.workedPastItsTime ? .queryTooExpensive : .queryTooSlow
    }

    /// Performs a read on the caller's thread; returns nil if it takes too long.
    private func readBriefly<Result>(
        _ statement: String,
        _ body: (Database) throws -> Result
    ) throws -> Result? {
        guard let brief else { return nil }
        do {
            // SQLite's first check of the time interrupts it, after about a millisecond.
            running.add(1)
            defer { running.add(-1) }
            return try brief.lend { database in
                try database.limitTime(.zero) { try body(database) }
            }
        } catch let error as SQLiteError where error.isInterrupt {
            exceeded(.loop, statement)
            return nil
        } catch is RowTooLargeForLoop {
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

/// The start of a read's time limit.
private final class ReadClock: Sendable {
    private let nanoseconds: Atomic<UInt64>

    init(_ start: QueryStart) { nanoseconds = Atomic(start.nanoseconds) }

    var start: QueryStart { QueryStart(nanoseconds: nanoseconds.load(ordering: .relaxed)) }

    /// Excludes the time of an attempt that was discarded.
    func give(_ lost: UInt64) { nanoseconds.wrappingAdd(lost, ordering: .relaxed) }
}

/// The number of running reads.
private final class RunningReads: Sendable {
    private let value = Atomic(0)

    var count: Int { value.load(ordering: .relaxed) }

    func add(_ amount: Int) { value.wrappingAdd(amount, ordering: .relaxed) }
}
