// ReadThreads: brief and long reads.
//
// The first thread is reserved for brief reads: a read that is not known to be long begins as one, and if it does not
// end in time, it restarts as a long read. The second one is reserved for long reads that were not interrupted yet. If
// a long read has used up its time slice while other callers wait, it is interrupted, and restarts at the end of the
// queue. So many long lists, of one caller or of several, do not delay the short ones.

import Dispatch
import Foundation
import Synchronization
package import TidelineSQLite
package import TidelineServerCore

/// A pool of threads, each with a connection, for reads that take too long for an event loop.
package final class ReadThreads: Sendable {
    /// Performs a read; returns false if a brief read did not end in time.
    typealias Job = @Sendable (Database, ReadLane) -> Bool

    private typealias Turns = ReadTurns<Waiting>

    private struct Waiting {
        let caller: ReadCaller
        let job: Job
        /// When the read began to wait, as an uptime in nanoseconds.
        var since = QueryStart().nanoseconds
        /// The number of times that the read restarted as a long read.
        var restarts = 0
    }

    private struct State {
        var turns: Turns
        var isStopped = false
    }

    private let state: Mutex<State>
    private let wakes = Turns.Reader.allCases.map { ($0, DispatchSemaphore(value: 0)) }
    private let databases: [Database]
    private let metrics: StoreMetrics

    /// Starts one thread for each connection; there must be at least two.
    package init(_ databases: [Database], metrics: StoreMetrics = StoreMetrics()) {
        precondition(databases.count > 1, "one for brief reads, and one for long ones")
        self.databases = databases
        self.metrics = metrics
        let kept = databases.count > 2 ? 2 : 1
        state = Mutex(State(turns: Turns(readersOfAll: databases.count - kept)))
        for (number, database) in databases.enumerated() {
            let reader: Turns.Reader = number == 0 ? .brief : number < kept ? .first : .all
            let thread = Thread { [self] in run(database, as: reader) }
            thread.name = "tideline-reader"
            thread.stackSize = 1 << 20
            thread.start()
        }
    }

    private func wake(of reader: Turns.Reader) -> DispatchSemaphore {
        (wakes.first { $0.0 == reader } ?? wakes[0]).1
    }

    private func run(_ database: Database, as reader: Turns.Reader) {
        while true {
            let (next, isStopped) = state.withLock { state in
                (state.turns.take(as: reader), state.isStopped)
            }
            if let (waiting, line) = next {
                perform(waiting, line, database, reader)
            } else if isStopped {
                return
            } else {
                wake(of: reader).wait()
            }
        }
    }

    private func perform(
        _ read: Waiting,
        _ line: Turns.Line,
        _ database: Database,
        _ reader: Turns.Reader
    ) {
        let now = QueryStart().nanoseconds
        metrics.readsWaiting.add(-1)
        metrics.readWaits.add(from: read.since, to: now)
        let lane: ReadLane = line == .brief ? .brief : .long
        var hasHadShare: (() -> Bool)?
        if line != .brief, let share = ReadTimeSlice.nanoseconds(restarts: read.restarts) {
            let end = now &+ share
            hasHadShare = { [self] in
                QueryStart().nanoseconds > end
                    && state.withLock { $0.turns.otherCallersWait(than: read.caller, for: reader) }
            }
        }
        let isDone = database.share(until: hasHadShare) { read.job(database, lane) }
        state.withLock { $0.turns.ended(of: read.caller, line) }
        guard !isDone else { return }
        var again = read
        again.since = QueryStart().nanoseconds
        if line == .brief {
            _ = submit(again, .first, isNew: false)
        } else {
            again.restarts += 1
            metrics.readRestarts.add()
            _ = submit(again, .restarted, isNew: false)
        }
    }

    /// Queues a read; returns false if the threads have ended.
    private func submit(_ waiting: Waiting, _ line: Turns.Line, isNew: Bool) -> Bool {
        var reader: Turns.Reader?
        let isTaken = state.withLock { state in
            // The thread that interrupted a read takes it again.
            if isNew, state.isStopped { return false }
            metrics.readsWaiting.add()
            reader = state.turns.append(waiting, of: waiting.caller, line)
            return true
        }
        if let reader { wake(of: reader).signal() }
        return isTaken
    }

    /// Runs `body` on one of the threads; if it returns nil, it restarts as a long read.
    package func run<Result: Sendable>(
        _ lane: ReadLane,
        of caller: ReadCaller,
        _ body: @escaping @Sendable (Database, ReadLane) throws -> Result?
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            let job: Job = { database, lane in
                do {
                    guard let result = try body(database, lane) else { return false }
                    continuation.resume(returning: result)
                } catch {
                    continuation.resume(throwing: error)
                }
                return true
            }
            let line: Turns.Line = lane == .long ? .first : .brief
            if !submit(Waiting(caller: caller, job: job), line, isNew: true) {
                continuation.resume(throwing: ServerError.stopping)
            }
        }
    }

    /// Interrupts the running reads.
    package func interrupt() {
        for database in databases { database.interrupt() }
    }

    /// Ends the threads after the queued reads.
    package func stop() {
        state.withLock { state in
            state.isStopped = true
            state.turns.isEnding = true
        }
        for _ in databases {
            for (_, wake) in wakes { wake.signal() }
        }
    }
}
