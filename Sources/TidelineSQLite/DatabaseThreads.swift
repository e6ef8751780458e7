// DatabaseThreads: threads that own one connection each and take jobs from one queue.
//
// SQLite blocks its thread, so its calls stay off Swift's pool and off the event loops. `inline`
// is for tests that need one order of events: jobs run on the caller, one at a time.

import Dispatch
import Foundation
import Synchronization

/// A pool of database threads.
package final class DatabaseThreads: Sendable {
    package typealias Job = @Sendable (Database) -> Void

    private struct State {
        /// Taken jobs are nil until the array is compacted.
        var jobs: [Job?] = []
        var next = 0
        var isStopped = false
        /// How many threads have a connection.
        var running = 0
        /// Who waits for the last of them.
        var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func take() -> Job? {
            guard next < jobs.count else { return nil }
            let job = jobs[next]
            jobs[next] = nil
            next += 1
            // Under a lasting backlog the queue never runs empty: it must not grow for ever.
            if next == jobs.count || next > 1024 && next * 2 > jobs.count {
                jobs.removeFirst(next)
                next = 0
            }
            return job
        }
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let count: Int
    /// Guards the connection of the inline mode.
    private let inlineDatabase: Mutex<Database?>

    /// Starts one thread for each connection.
    package init(_ databases: [Database], name: String) {
        count = databases.count
        inlineDatabase = Mutex(nil)
        state.withLock { $0.running = databases.count }
        for database in databases {
            // The thread has the only reference, so that the connection ends with its work.
            let own = Mutex<Database?>(database)
            let thread = Thread { [self] in
                if let database = own.withLock({ $0.take() }) { run(database) }
                ended()
            }
            thread.name = name
            thread.stackSize = 1 << 20
            thread.start()
        }
    }

    /// Runs every job at once on the thread that submits it.
    package init(inline database: Database) {
        count = 0
        inlineDatabase = Mutex(database)
    }

    private func run(_ database: Database) {
        while true {
            wake.wait()
            let job = state.withLock { $0.take() }
            guard let job else {
                if state.withLock({ $0.isStopped }) { return }
                continue
            }
            job(database)
        }
    }

    private func ended() {
        let waiting = state.withLock { state in
            state.running -= 1
            guard state.running == 0 else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Queues a job; false, and nothing is done, after the end.
    @discardableResult
    package func submit(_ job: @escaping Job) -> Bool {
        if count == 0 {
            return inlineDatabase.withLock { database in
                if let database { job(database) }
                return database != nil
            }
        }
        let isQueued = state.withLock { state in
            if !state.isStopped { state.jobs.append(job) }
            return !state.isStopped
        }
        if isQueued { wake.signal() }
        return isQueued
    }

    /// Runs `body` on one of the threads.
    package func run<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            let isQueued = submit { database in
                continuation.resume(with: Swift.Result { try body(database) })
            }
            if !isQueued { continuation.resume(throwing: SQLiteError.closed) }
        }
    }

    /// Ends the threads after the jobs that are queued already.
    package func stop() {
        state.withLock { $0.isStopped = true }
        for _ in 0..<count { wake.signal() }
        inlineDatabase.withLock { $0 = nil }
    }

    /// Ends the threads as ``stop()`` does, and returns when their connections are closed.
    package func finish() async {
        stop()
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.running > 0 { state.waiting.append(continuation) }
                return state.running == 0
            }
            if isOver { continuation.resume() }
        }
    }
}
