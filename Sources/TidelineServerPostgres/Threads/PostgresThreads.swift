// PostgresThreads: threads with a connection each, which take the reads of callers in turn.
//
// libpq blocks its thread, so its calls stay off Swift's pool and off the event loops. A connection
// is made when it is first needed and after it broke; while there is none, reads are refused at once.

import Dispatch
import Foundation
import Synchronization
import TidelinePostgres
import TidelineServerCore

final class PostgresThreads: Sendable {
    /// Something to be done on a connection.
    struct Job: Sendable {
        /// Returns false when the connection broke and the job may be tried on another one.
        let perform: @Sendable (PostgresConnection, _ isLastTry: Bool) -> Bool
        let refuse: @Sendable (any Error) -> Void
        /// Since when it waits.
        let since = Uptime.now()
    }

    private struct State {
        var jobs = TurnQueue<ReadCaller, Job>()
        var waiting = 0
        var isStopped = false
        var running = 0
        var ended: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let address: PostgresAddress
    private let count: Int
    private let queueMax: Int
    private let keeping: StatementKeeping
    private let log: ServerLog
    private let metrics: StoreMetrics

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
        state.withLock { $0.running = count }
        for _ in 0..<count {
            let thread = Thread { [self] in serve() }
            thread.name = "tideline-reader"
            thread.stackSize = 4 << 20
            thread.start()
        }
    }

    /// Queues a job.
    func submit(_ job: Job, of caller: ReadCaller) {
        let refusal = state.withLock { state -> ServerError? in
            if state.isStopped { return .stopping }
            if state.waiting >= queueMax { return .queryTooSlow }
            state.waiting += 1
            metrics.readsWaiting.add()
            state.jobs.append(job, of: caller)
            return nil
        }
        if let refusal { job.refuse(refusal) } else { wake.signal() }
    }

    private func serve() {
        var link = PostgresLink(address, keeping: keeping, log: log)
        while true {
            wake.wait()
            let job = state.withLock { state -> Job? in
                let job = state.jobs.take()
                if job != nil { state.waiting -= 1 }
                return job
            }
            if let job {
                metrics.readsWaiting.add(-1)
                metrics.readWaits.add(from: job.since, to: Uptime.now())
                perform(job, &link)
            } else if state.withLock({ $0.isStopped }) {
                break
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

    private func perform(_ job: Job, _ link: inout PostgresLink) {
        // What broke the connection may have been over before the job began.
        for isLastTry in [false, true] {
            let connection: PostgresConnection
            do {
                connection = try link.connection()
            } catch {
                return job.refuse(error)
            }
            let isDone = job.perform(connection, isLastTry)
            link.settle()
            if isDone { return }
        }
    }

    /// Ends the threads after the jobs that are queued already.
    func stop() async {
        state.withLock { $0.isStopped = true }
        for _ in 0..<count { wake.signal() }
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.running > 0 { state.ended.append(continuation) }
                return state.running == 0
            }
            if isOver { continuation.resume() }
        }
    }
}
