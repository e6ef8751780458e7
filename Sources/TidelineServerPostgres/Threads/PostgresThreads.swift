// PostgresThreads: threads for reads.
//
// libpq blocks its thread, so it is called neither on Swift's pool nor on the event loops. A connection is opened
// when it is first needed and after it broke; while there is none, reads are rejected at once.

import Dispatch
import Foundation
import Synchronization
import TidelinePostgres
import TidelineServerCore

/// A pool of threads with a connection each, which execute the reads of callers in turn.
final class PostgresThreads: Sendable {
    /// A task that needs a connection.
    struct Job: Sendable {
        /// Performs the job; returns false if it may be retried, because the connection broke or it was
        /// interrupted.
        let perform: @Sendable (PostgresConnection, _ isLastTry: Bool) -> Bool
        let reject: @Sendable (any Error) -> Void
        /// Ends an attempt, from any thread.
        let interrupt: @Sendable () -> Void
        /// Excludes the time of a discarded attempt, in nanoseconds, from the time limit.
        let giveTime: @Sendable (UInt64) -> Void
        /// When the job began to wait.
        var since = Uptime.now()
        /// The number of times that the job was interrupted so that other callers could take their turn.
        var restarts = 0
    }

    private typealias Turns = ReadTurns<(caller: ReadCaller, job: Job)>

    private struct Running {
        let caller: ReadCaller
        let reader: Turns.Reader
        let restarts: Int
        let since = Uptime.now()
        let interrupt: @Sendable () -> Void
        var isInterrupted = false
    }

    private struct State {
        var turns: Turns
        var waiting = 0
        var isStopped = false
        /// The running jobs, by thread number.
        var jobs: [Int: Running] = [:]
        /// Whether a check for jobs that have used up their time slice is scheduled.
        var isCheckDue = false
        var running = 0
        var ended: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>
    private let wakes = Turns.Reader.allCases.map { ($0, DispatchSemaphore(value: 0)) }
    private let address: PostgresAddress
    private let count: Int
    private let queueMax: Int
    private let keeping: StatementKeeping
    private let log: ServerLog
    private let metrics: StoreMetrics

    /// Starts `count` threads, one of which only runs jobs that were not interrupted yet.
    init(
        _ address: PostgresAddress,
        count: Int,
        queueMax: Int,
        keeping: StatementKeeping,
        log: ServerLog,
        metrics: StoreMetrics
    ) {
        self.address = address
        self.count = count
        self.queueMax = queueMax
        self.keeping = keeping
        self.log = log
        self.metrics = metrics
        state = Mutex(State(turns: Turns(readersOfAll: max(1, count - 1)), running: count))
        for number in 0..<count {
            let reader: Turns.Reader = number == 0 && count > 1 ? .first : .all
            let thread = Thread { [self] in serve(number, as: reader) }
            thread.name = "tideline-reader"
            thread.stackSize = 4 << 20
            thread.start()
        }
    }

    private func wake(of reader: Turns.Reader) -> DispatchSemaphore {
        (wakes.first { $0.0 == reader } ?? wakes[0]).1
    }

    /// Queues a job.
    func submit(_ job: Job, of caller: ReadCaller) {
        var reader: Turns.Reader?
        let rejection = state.withLock { state -> ServerError? in
            if state.isStopped { return .stopping }
            if state.waiting >= queueMax { return .queryTooSlow }
            reader = add(job, of: caller, .first, &state)
            return nil
        }
        if let rejection { return job.reject(rejection) }
        if let reader { wake(of: reader).signal() } else { interruptLongJobs() }
    }

    /// Adds a job; returns the reader to wake.
    private func add(
        _ job: Job,
        of caller: ReadCaller,
        _ line: Turns.Line,
        _ state: inout State
    ) -> Turns.Reader? {
        state.waiting += 1
        metrics.readsWaiting.add()
        return state.turns.append((caller, job), of: caller, line)
    }

    private func serve(_ number: Int, as reader: Turns.Reader) {
        var link = PostgresLink(address, keeping: keeping, log: log)
        while true {
            let (next, isStopped) = state.withLock { state in
                let next = state.turns.take(as: reader)
                if next != nil { state.waiting -= 1 }
                return (next, state.isStopped)
            }
            if let ((caller, job), line) = next {
                metrics.readsWaiting.add(-1)
                metrics.readWaits.add(from: job.since, to: Uptime.now())
                let isDone = perform(job, of: caller, number, reader, &link)
                let woken = state.withLock { state -> Turns.Reader? in
                    state.turns.ended(of: caller, line)
                    guard !isDone else { return nil }
                    var again = job
                    again.since = Uptime.now()
                    again.restarts += 1
                    return add(again, of: caller, .restarted, &state)
                }
                if let woken { wake(of: woken).signal() }
            } else if isStopped {
                break
            } else {
                wake(of: reader).wait()
            }
        }
        let ended = state.withLock { state in
            state.running -= 1
            guard state.running == 0 else { return [CheckedContinuation<Void, Never>]() }
            defer { state.ended = [] }
            return state.ended
        }
        for continuation in ended { continuation.resume() }
    }

    /// Runs a job; returns false if it was interrupted and restarts.
    private func perform(
        _ job: Job,
        of caller: ReadCaller,
        _ number: Int,
        _ reader: Turns.Reader,
        _ link: inout PostgresLink
    ) -> Bool {
        // The reason for the broken connection may have been over before the job began.
        for isLastTry in [false, true] {
            let connection: PostgresConnection
            do {
                connection = try link.connection()
            } catch {
                job.reject(error)
                return true
            }
            let running = Running(
                caller: caller,
                reader: reader,
                restarts: job.restarts,
                interrupt: job.interrupt,
                // The outcome of the last attempt is final.
                isInterrupted: isLastTry
            )
            state.withLock { $0.jobs[number] = running }
            interruptLongJobs()
            let isDone = job.perform(connection, isLastTry)
            let wasInterrupted = state.withLock { state in
                state.jobs.removeValue(forKey: number)?.isInterrupted ?? false
            }
            link.endTransaction()
            if isDone { return true }
            if wasInterrupted {
                metrics.readRestarts.add()
                job.giveTime(Uptime.now() &- running.since)
                return false
            }
        }
        return true
    }

    // MARK: - Shares

    /// Interrupts jobs that have used up their time slice while other callers wait, now or when it ends.
    private func interruptLongJobs() {
        let now = Uptime.now()
        let (found, next) = state.withLock { state -> ([@Sendable () -> Void], UInt64?) in
            var found: [@Sendable () -> Void] = []
            var next: UInt64?
            var left = state.waiting - state.jobs.values.count { $0.isInterrupted }
            for (number, job) in state.jobs where !job.isInterrupted && left > 0 {
                guard let share = ReadTimeSlice.nanoseconds(restarts: job.restarts),
                    state.turns.otherCallersWait(than: job.caller, for: job.reader)
                else { continue }
                let end = job.since &+ share
                if end <= now {
                    state.jobs[number]?.isInterrupted = true
                    found.append(job.interrupt)
                    left -= 1
                } else {
                    next = min(next ?? .max, end)
                }
            }
            if state.isCheckDue { next = nil }
            if next != nil { state.isCheckDue = true }
            return (found, next)
        }
        for interrupt in found { interrupt() }
        guard let next else { return }
        let time = DispatchTime(uptimeNanoseconds: next)
        DispatchQueue.global().asyncAfter(deadline: time) { [weak self] in
            guard let self else { return }
            state.withLock { $0.isCheckDue = false }
            interruptLongJobs()
        }
    }

    /// Ends the threads after the queued jobs.
    func stop() async {
        state.withLock { state in
            state.isStopped = true
            state.turns.isEnding = true
        }
        for _ in 0..<count {
            for (_, wake) in wakes { wake.signal() }
        }
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.running > 0 { state.ended.append(continuation) }
                return state.running == 0
            }
            if isOver { continuation.resume() }
        }
    }
}
