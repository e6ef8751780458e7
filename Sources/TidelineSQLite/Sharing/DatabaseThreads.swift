// DatabaseThreads: threads that each own one connection and take jobs from a shared queue.
//
// SQLite blocks its thread, so it must run neither on Swift's thread pool nor on the event loops.
// `inline` is for tests that need a fixed order of events: each job runs on the caller's thread,
// one at a time.

import Dispatch
import Foundation
import Synchronization

/// A pool of database threads with one connection each.
package final class DatabaseThreads: Sendable {
    package typealias Job = @Sendable (Database) -> Void
    /// A job for one of the threads.
    ///
    /// The job receives the connection, or the error of reopening it, and returns a closure that
    /// reports the result.
    private typealias Work = @Sendable (Result<Database, any Error>) -> Report
    private typealias Report = @Sendable () -> Void

    private struct State {
        /// The queued jobs; a job that was taken is nil until the array is compacted.
        var jobs: [Work?] = []
        var next = 0
        var isStopped = false
        /// The number of running threads.
        var running = 0
        /// The callers that are waiting for the last thread to end.
        var waiting: [CheckedContinuation<Void, Never>] = []
        /// Whether the connection is closed when no job is queued, and reopened for the next job.
        var isReleasing = false
        /// Whether the next job gets a new connection.
        var isToReopen = false
        /// The callers that are waiting until the connection is closed.
        var releasing: [CheckedContinuation<Void, Never>] = []

        mutating func take() -> Work? {
            guard next < jobs.count else { return nil }
            let job = jobs[next]
            jobs[next] = nil
            next += 1
            // Under a constant backlog, the queue never becomes empty, so taken jobs must be
            // removed to limit its size.
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
    /// Reopens a connection that ``release()`` or ``reopen()`` has closed.
    private let open: (@Sendable () throws -> Database)?
    /// The connection for inline mode.
    private let inlineDatabase: Mutex<Database?>

    /// Starts one thread per connection.
    ///
    /// `open` reopens the connection after ``release()``; only a pool with one thread may pass it.
    package init(
        _ databases: [Database],
        name: String,
        open: (@Sendable () throws -> Database)? = nil
    ) {
        self.open = open
        count = databases.count
        inlineDatabase = Mutex(nil)
        state.withLock { $0.running = databases.count }
        for database in databases {
            // The thread gets the only reference, so that the connection is closed when the thread
            // ends.
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

    /// Creates a pool that runs every job immediately, on the thread that submits the job.
    package init(inline database: Database) {
        open = nil
        count = 0
        inlineDatabase = Mutex(database)
    }

    private func run(_ database: Database) {
        var kept: Database? = database
        while true {
            wake.wait()
            let (work, isToReopen) = state.withLock { state in
                defer { state.isToReopen = false }
                return (state.take(), state.isToReopen && open != nil)
            }
            guard let work else {
                if state.withLock({ $0.isStopped }) { return }
                continue
            }
            if isToReopen {
                kept?.close()
                kept = nil
            }
            let report = work(connection(&kept))
            closeIfReleasing(&kept)
            // A caller that resumes now finds the file closed.
            report()
        }
    }

    private func connection(_ kept: inout Database?) -> Result<Database, any Error> {
        if let kept { return .success(kept) }
        let opened = Result { () throws -> Database in
            guard let open else { throw SQLiteError.closed }
            return try open()
        }
        kept = try? opened.get()
        return opened
    }

    private func closeIfReleasing(_ kept: inout Database?) {
        guard open != nil,
            state.withLock({ $0.isReleasing && $0.next == $0.jobs.count })
        else { return }
        kept?.keepLog()
        kept?.close()
        kept = nil
        let waiting = state.withLock { state in
            defer { state.releasing = [] }
            return state.releasing
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Closes the connection after the queued jobs, and from then on after each job.
    ///
    /// This method returns after the connection is closed. It does nothing if the pool cannot
    /// reopen its connection.
    package func release() async {
        guard open != nil else { return }
        await withCheckedContinuation { continuation in
            state.withLock { state in
                state.isReleasing = true
                state.releasing.append(continuation)
            }
            // After the threads have ended, the connection is already closed.
            if !submit({ _ in }) { endReleases() }
        }
    }

    private func endReleases() {
        let waiting = state.withLock { state in
            defer { state.releasing = [] }
            return state.releasing
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Keeps the connection open between jobs again.
    package func keepOpen() {
        state.withLock { $0.isReleasing = false }
        endReleases()
    }

    /// Makes the next job open a new connection, because the current one can no longer use its
    /// file.
    package func reopen() { state.withLock { $0.isToReopen = true } }

    private func ended() {
        let waiting = state.withLock { state in
            state.running -= 1
            guard state.running == 0 else { return [CheckedContinuation<Void, Never>]() }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
        endReleases()
    }

    /// Queues a job; returns false and does not queue the job if the threads have ended.
    @discardableResult
    package func submit(_ job: @escaping Job) -> Bool {
        enqueue {
            if case .success(let database) = $0 { job(database) }
            return {}
        }
    }

    private func enqueue(_ job: @escaping Work) -> Bool {
        if count == 0 {
            return inlineDatabase.withLock { database in
                if let database { job(.success(database))() }
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
            let isQueued = enqueue { database in
                let result = Swift.Result { try body(try database.get()) }
                return { continuation.resume(with: result) }
            }
            if !isQueued { continuation.resume(throwing: SQLiteError.closed) }
        }
    }

    /// Ends the threads after the jobs that are already queued.
    package func stop() {
        state.withLock { $0.isStopped = true }
        for _ in 0..<count { wake.signal() }
        inlineDatabase.withLock { $0 = nil }
    }

    /// Ends the threads like ``stop()``, and waits until their connections are closed.
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
