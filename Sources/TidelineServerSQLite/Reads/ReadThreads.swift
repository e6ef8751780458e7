// ReadThreads: the threads of reads that are too long for an event loop, a connection each.
//
// The first is kept for brief reads: what is not known to be long is tried as one, and what does
// not end in time starts anew as a long read. The others take long reads first. In both lanes the
// callers take turns. So many long lists, of one caller or of all, do not hold up the short ones.

import Dispatch
import Foundation
import Synchronization
package import TidelineSQLite
package import TidelineServerCore

package final class ReadThreads: Sendable {
    /// False when a brief read did not end in time.
    typealias Job = @Sendable (Database, ReadLane) -> Bool

    private struct Waiting {
        let caller: ReadCaller
        let job: Job
        /// Since when it waits, an uptime in nanoseconds.
        var since = QueryStart().nanoseconds
    }

    private struct State {
        var brief = TurnQueue<ReadCaller, Waiting>()
        var long = TurnQueue<ReadCaller, Waiting>()
        /// Threads that wait for a signal.
        var briefIdle = 0
        var longIdle = 0
        var isStopped = false

        /// What a thread does next, and as what.
        mutating func take(keptForBrief: Bool) -> (Waiting, ReadLane)? {
            // At the end all threads take all that is left, as others may have ended.
            if !keptForBrief || isStopped, let next = long.take() { return (next, .long) }
            return brief.take().map { ($0, .brief) }
        }
    }

    private let state = Mutex(State())
    private let briefWake = DispatchSemaphore(value: 0)
    private let longWake = DispatchSemaphore(value: 0)
    private let databases: [Database]
    private let metrics: StoreMetrics

    /// Starts one thread for each connection, of which there are at least two.
    package init(_ databases: [Database], metrics: StoreMetrics = StoreMetrics()) {
        precondition(databases.count > 1, "one for brief reads, and one for long ones")
        self.databases = databases
        self.metrics = metrics
        for (number, database) in databases.enumerated() {
            let thread = Thread { [self] in run(database, keptForBrief: number == 0) }
            thread.name = "tideline-reader"
            thread.stackSize = 1 << 20
            thread.start()
        }
    }

    private func run(_ database: Database, keptForBrief: Bool) {
        while true {
            var isStopped = false
            let next = state.withLock { state in
                let next = state.take(keptForBrief: keptForBrief)
                isStopped = state.isStopped
                if next == nil, !isStopped {
                    if keptForBrief { state.briefIdle += 1 } else { state.longIdle += 1 }
                }
                return next
            }
            if case (var waiting, let lane)? = next {
                let now = QueryStart().nanoseconds
                metrics.readsWaiting.add(-1)
                metrics.readWaits.add(from: waiting.since, to: now)
                guard !waiting.job(database, lane) else { continue }
                waiting.since = QueryStart().nanoseconds
                _ = submit(waiting, .long, isNew: false)
            } else if isStopped {
                return
            } else {
                (keptForBrief ? briefWake : longWake).wait()
            }
        }
    }

    /// Queues a read; false when the threads end and nobody would take it.
    private func submit(_ waiting: Waiting, _ lane: ReadLane, isNew: Bool) -> Bool {
        var wake: DispatchSemaphore?
        let isTaken = state.withLock { state in
            // What starts anew has a thread that takes it: the one that tried it.
            if isNew, state.isStopped { return false }
            metrics.readsWaiting.add()
            if lane == .long {
                state.long.append(waiting, of: waiting.caller)
            } else {
                state.brief.append(waiting, of: waiting.caller)
            }
            if lane != .long, state.briefIdle > 0 {
                state.briefIdle -= 1
                wake = briefWake
            } else if state.longIdle > 0 {
                state.longIdle -= 1
                wake = longWake
            }
            return true
        }
        wake?.signal()
        return isTaken
    }

    /// Runs `body` on one of the threads; nil from it means that it has to start anew as a long read.
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
            if !submit(Waiting(caller: caller, job: job), lane, isNew: true) {
                continuation.resume(throwing: ServerError.stopping)
            }
        }
    }

    /// Ends what runs with an interrupt.
    package func interrupt() {
        for database in databases { database.interrupt() }
    }

    /// Ends the threads after what is queued already.
    package func stop() {
        state.withLock { $0.isStopped = true }
        for _ in databases {
            briefWake.signal()
            longWake.signal()
        }
    }
}
