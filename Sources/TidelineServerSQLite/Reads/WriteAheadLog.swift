// WriteAheadLog: performs checkpoints.
//
// No commit waits for a checkpoint, except for its last pages before the log restarts.

import Dispatch
import Foundation
import Synchronization
import TidelineSQLite
import TidelineServerCore

/// The runner of ``WALCheckpointer``, on a thread with its own connection.
final class WriteAheadLog: Sendable {
    private struct State {
        var keeper: WALCheckpointer
        /// The waiting long reads.
        var waiting: [DispatchSemaphore] = []
        /// Whether the thread is waiting for a signal.
        var isResting = false
        var isStopped = false
        var onEnd: CheckedContinuation<Void, Never>?
        var hasEnded = false
    }

    /// The time that a restart waits for brief reads, during which writes wait as well.
    static let busyMilliseconds: Int32 = 100
    /// The time to wait for interrupted reads to end, and for other connections.
    private static let pause: Duration = .milliseconds(20)

    private static var pauseEnd: DispatchTime {
        DispatchTime(uptimeNanoseconds: QueryStart().adding(pause))
    }

    private let state: Mutex<State>
    private let wake = DispatchSemaphore(value: 0)
    private let file: FileWatch?
    private let interruptReads: @Sendable () -> Void
    /// Returns whether this server itself is reading or writing.
    private let hasOwnWork: @Sendable () -> Bool
    private let log: ServerLog
    private let metrics: StoreMetrics

    /// Manages the log of the writing connection, with a separate connection for checkpoints.
    ///
    /// The last closure interrupts all long reads.
    init(
        of writer: Database,
        copiedBy database: Database,
        bytesMax: Int,
        file: FileWatch?,
        log: ServerLog,
        metrics: StoreMetrics,
        hasOwnWork: @escaping @Sendable () -> Bool,
        interruptReads: @escaping @Sendable () -> Void
    ) throws {
        self.hasOwnWork = hasOwnWork
        let pageBytes = try database.integer("PRAGMA page_size") ?? 4096
        let keeper = WALCheckpointer(bytesMax: bytesMax, pageBytes: Int(clamping: pageBytes))
        state = Mutex(State(keeper: keeper))
        self.log = log
        self.file = file
        self.metrics = metrics
        self.interruptReads = interruptReads
        // The log file keeps its largest size unless this limit makes it shrink.
        try writer.execute("PRAGMA journal_size_limit = \(bytesMax / 3)")
        writer.observeLog { [weak self] in self?.committed(pages: $0) }
        let thread = Thread { [self] in run(database) }
        thread.name = "tideline-wal"
        thread.start()
    }

    private func committed(pages: Int) {
        file?.committed(pages: pages)
        change { $0.keeper.committed(pages: pages) }
    }

    /// Changes the state, and wakes the threads that wait for the change.
    private func change(_ body: (inout State) -> Void) {
        let (waiting, wakesThread) = state.withLock { state in
            body(&state)
            let wakesThread = state.isResting && (state.keeper.isCopyDue || state.isStopped)
            if wakesThread { state.isResting = false }
            guard !state.keeper.isClosed || state.isStopped else {
                return ([DispatchSemaphore](), wakesThread)
            }
            defer { state.waiting = [] }
            return (state.waiting, wakesThread)
        }
        for semaphore in waiting { semaphore.signal() }
        if wakesThread { wake.signal() }
    }

    // MARK: - Long reads

    /// Runs a long read, which waits while the log is being restarted.
    ///
    /// If the read is cancelled for a restart of the log, it restarts afterwards. Returns nil if it had to wait
    /// beyond the deadline, an uptime in nanoseconds, or if the store stops.
    func longRead<Result>(before deadline: UInt64, _ body: () throws -> Result) throws -> Result? {
        while let interruptions = begin(before: deadline) {
            defer { change { $0.keeper.longReadEnded() } }
            do {
                return try body()
            } catch let error as SQLiteError where error.isInterrupt {
                let wasEnded = state.withLock {
                    $0.keeper.interruptions != interruptions && !$0.isStopped
                }
                guard wasEnded, QueryStart().nanoseconds < deadline else { throw error }
            }
        }
        return nil
    }

    /// Returns how often long reads were interrupted before this one; nil if it may not begin.
    private func begin(before deadline: UInt64) -> Int? {
        while true {
            var isStopped = false
            var interruptions: Int?
            let turn = DispatchSemaphore(value: 0)
            state.withLock { state in
                isStopped = state.isStopped
                if !isStopped, state.keeper.longReadBegins() {
                    interruptions = state.keeper.interruptions
                } else if !isStopped {
                    state.waiting.append(turn)
                }
            }
            if isStopped || interruptions != nil { return interruptions }
            let end = DispatchTime(uptimeNanoseconds: deadline)
            if turn.wait(timeout: end) == .timedOut { return nil }
        }
    }

    // MARK: - The thread

    private func run(_ database: Database) {
        while true {
            let step = state.withLock { state -> WALCheckpointer.Step? in
                if state.isStopped { return nil }
                let step = state.keeper.next()
                state.isResting = step == .rest
                return step
            }
            switch step {
            case nil:
                if file?.check() != nil { database.keepLog() }
                let onEnd = state.withLock { state in
                    state.hasEnded = true
                    return state.onEnd
                }
                onEnd?.resume()
                return
            case .rest: wake.wait()
            case .copy: _ = checkpoint(.passive, database)
            case .interrupt:
                interruptReads()
                _ = wake.wait(timeout: Self.pauseEnd)
            case .restart: restart(database)
            }
        }
    }

    private func restart(_ database: Database) {
        var isOwn = hasOwnWork()
        let isDone = checkpoint(.restart, database)
        isOwn = isOwn || hasOwnWork()
        var isBlocked = false
        change { state in
            state.keeper.restarted(isDone)
            isBlocked = state.keeper.hasExternalReader
        }
        guard !isDone else { return }
        if isBlocked, isOwn {
            log.write(
                .warning,
                "the write-ahead log grows: continuous reads and writes prevent a checkpoint"
            )
        } else if isBlocked {
            log.write(
                .warning,
                "the write-ahead log grows: a long read by another program prevents a checkpoint"
            )
        }
        _ = wake.wait(timeout: Self.pauseEnd)
    }

    /// Runs a checkpoint; returns false if another connection prevents its completion.
    private func checkpoint(_ mode: CheckpointMode, _ database: Database) -> Bool {
        // The file was replaced or removed, so the pages must not be copied to it.
        guard file?.check() == nil else { return false }
        let start = QueryStart().nanoseconds
        defer { metrics.checkpoints.add(from: start, to: QueryStart().nanoseconds) }
        do {
            guard let file else { return try database.checkpoint(mode) != nil }
            return try file.copying { try database.checkpoint(mode) }
        } catch {
            file?.met(error)
            log.write(.warning, "a checkpoint failed", ["cause": "\(error)"])
            return false
        }
    }

    /// Ends the thread, and lets all waiting reads continue.
    func stop() async {
        await withCheckedContinuation { continuation in
            var hasEnded = false
            change { state in
                state.isStopped = true
                hasEnded = state.hasEnded
                if !hasEnded { state.onEnd = continuation }
            }
            wake.signal()
            if hasEnded { continuation.resume() }
        }
    }
}
