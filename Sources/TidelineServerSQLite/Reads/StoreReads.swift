// StoreReads: reads of a database: on the caller's thread, on readers, or on the writing connection.
//
// A small read is tried on the caller's thread first, which is that of its connection's event loop,
// with a bound of about a millisecond of SQLite's work: most end far below it, and the change to a
// reader's thread and back costs as much as they do. What passes the bound starts anew on a reader,
// and for some seconds its statement begins there.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// Where a read begins, and for whom.
struct ReadBegin {
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

/// A row or a page has more bytes than are read on the thread of an event loop.
struct RowTooLargeForLoop: Error {}

final class StoreReads: Sendable {
    /// The most bytes of a row's texts and blobs, and of a page, that are read on the caller's thread.
    static let loopBytesMax = 64 << 10

    private let writer: GroupWriter
    /// Nil in inline mode, which reads on the writing connection.
    private let readers: ReadThreads?
    /// The connections of small reads on the threads of callers; nil in inline mode.
    private let brief: LentDatabases?
    /// Nil in inline mode, which has no log.
    private let writeAheadLog: WriteAheadLog?
    private let costs = Mutex(ReadCosts())
    private let stopped = Mutex(false)
    private let queryTime: Duration
    private let log: ServerLog

    /// Opens what is read by.
    ///
    /// - Throws: ``DatabaseError``.
    init(
        of database: Database,
        path: String,
        writer: GroupWriter,
        options: SQLiteTableStore.Options
    ) throws {
        self.writer = writer
        queryTime = options.limits.queryTime
        log = options.log
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
        let readers = ReadThreads(connections, metrics: options.metrics)
        self.readers = readers
        brief = LentDatabases(ready: ready, open: open)
        writeAheadLog = try DatabaseError.naming(path) {
            try WriteAheadLog(
                of: database,
                copiedBy: copier,
                bytesMax: options.limits.logBytes,
                log: options.log,
                metrics: options.metrics
            ) { readers.interrupt() }
        }
    }

    /// How many statements were too long for where they began.
    var costsKnown: Int { costs.withLock { $0.count } }

    var isStopped: Bool { stopped.withLock { $0 } }

    /// Ends all reads; false when that was done before.
    func stop() async -> Bool {
        let wasStopped = stopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return false }
        readers?.stop()
        // Whoever asked has been answered, or is gone.
        readers?.interrupt()
        await writeAheadLog?.stop()
        return true
    }

    /// How long a read may be that is not known to be long, on a reader.
    private static let briefTime: Duration = .milliseconds(25)

    /// Reads for `limits.queryTime` at most.
    ///
    /// On the caller's thread `onLoop`, if it is there, is done in the place of `body`; it throws
    /// ``RowTooLargeForLoop`` to leave that.
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
                        throw Self.refusal(database)
                    }
                }
            }
            let start = QueryStart()
            let statement = begin.statement
            let lane = statement.isEmpty ? begin.lane : max(begin.lane, knownLane(statement, start))
            if lane == .loop, let result = try readBriefly(statement, onLoop ?? body) {
                return result
            }
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
        guard !isStopped else { throw ServerError.stopping }
        try stop.check()
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
            throw isStopped ? ServerError.stopping : Self.refusal(database)
        }
        throw isStopped ? ServerError.stopping : ServerError.queryTooSlow
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
