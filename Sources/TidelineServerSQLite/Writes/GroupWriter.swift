// GroupWriter: one thread that owns the writing connection, and commits in groups.
//
// It takes all batches that wait, runs them in one transaction, commits, and only then answers. What
// came meanwhile is the next group: no timer, and a lone write waits for nobody. With
// `synchronous=FULL` one flush of the disk serves the whole group.
//
// A write is one statement, which SQLite undoes by itself, so most batches need no savepoints: they
// copy every page they touch. When a write throws, which refusals do not, the transaction is undone
// and runs again with a savepoint for each group of writes, so that the others are stored.

import Dispatch
import Foundation
import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

final class GroupWriter: Sendable {
    private enum Work: Sendable {
        case batch(BatchJob)
        /// Something that needs the connection for itself.
        case task(@Sendable (Database) -> Void)
    }

    private struct State {
        /// A task counts as one write.
        var queue = WriteQueue<Work>()
        /// Whether a round of the purge is to begin at once.
        var isPurgeNew = false
        var isStopped = false
        var purge: RetentionPurge
    }

    /// A transaction takes no more batches once it has so many writes, so that the first of a long
    /// queue is answered soon.
    private static let groupMax = 1000

    private let state: Mutex<State>
    private let wake = DispatchSemaphore(value: 0)
    private let limits: ServerLimits
    private let purgeInterval: Duration
    private let now: @Sendable () -> Int64
    private let log: ServerLog
    private let listener = Mutex<CommitListener?>(nil)
    /// The connection of the inline mode.
    private let inlineDatabase: Mutex<Database?>

    init(
        _ database: Database,
        inline: Bool,
        limits: ServerLimits,
        purgeInterval: Duration,
        now: @escaping @Sendable () -> Int64,
        log: ServerLog
    ) {
        self.limits = limits
        self.purgeInterval = purgeInterval
        state = Mutex(State(purge: RetentionPurge(limits)))
        self.now = now
        self.log = log
        inlineDatabase = Mutex(inline ? database : nil)
        guard !inline else { return }
        let thread = Thread { [self] in serve(database) }
        thread.name = "tideline-writer"
        thread.start()
    }

    /// Writes; returns after the commit.
    ///
    /// Dropped when its task is cancelled before it is begun; its place is free at once.
    func write(
        _ batch: WriteBatch,
        _ groups: [[BatchJob.Write]]
    ) async throws -> [GroupOutcome] {
        let ticket = WriteTicket()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { answer in
                let job = BatchJob(
                    batch: batch,
                    groups: groups,
                    answer: answer,
                    stop: ticket.stop
                )
                enqueue(.batch(job), count: batch.count, answer, ticket)
            }
        } onCancel: {
            drop(ticket)
        }
    }

    /// Nobody waits for the write: it leaves the queue, unless it was taken.
    private func drop(_ ticket: WriteTicket) {
        ticket.stop.set()
        let work = state.withLock { $0.queue.remove(ticket.place.load(ordering: .relaxed)) }
        if case .batch(let job) = work { job.answer.resume(throwing: CancellationError()) }
    }

    /// Runs `body` alone on the writing connection.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { answer in
            let work = Work.task { database in
                answer.resume(with: Swift.Result { try body(database) })
            }
            enqueue(work, count: 1, answer)
        }
    }

    private func enqueue<Result>(
        _ work: Work,
        count: Int,
        _ answer: CheckedContinuation<Result, any Error>,
        _ ticket: WriteTicket? = nil
    ) {
        let wasRunInline = inlineDatabase.withLock { database -> Bool in
            guard let database else { return false }
            perform([work], database)
            return true
        }
        if wasRunInline { return }
        var refusal: (any Error)?
        var isFirst = false
        state.withLock { state in
            if state.isStopped {
                refusal = ServerError.stopping
            } else if let ticket, ticket.stop.isSet {
                // Who leaves later finds the write in the queue.
                refusal = CancellationError()
            } else if state.queue.writes >= limits.writeQueue {
                refusal = ServerError.tooManyWrites
            } else {
                isFirst = state.queue.isEmpty
                let place = state.queue.append(work, count: count)
                ticket?.place.store(place, ordering: .relaxed)
            }
        }
        if let refusal { answer.resume(throwing: refusal) }
        if isFirst { wake.signal() }
    }

    /// Hears of the tables that each commit moved, before its writes return.
    func listen(_ report: @escaping @Sendable ([TableStamp]) -> Void) {
        listener.withLock { $0 = CommitListener(report: report) }
    }

    /// How many writes wait.
    var queueLength: Int { state.withLock { $0.queue.writes } }

    /// Ends the thread after what is queued already.
    func stop() {
        state.withLock { $0.isStopped = true }
        wake.signal()
    }

    /// The life of the thread.
    private func serve(_ database: Database) {
        var schedule = PurgeSchedule()
        while true {
            _ = wake.wait(timeout: DispatchTime(uptimeNanoseconds: schedule.due))
            let (queue, isStopped, isPurgeNew) = state.withLock { state in
                defer { state.isPurgeNew = false }
                return (state.queue.takeAll(), state.isStopped, state.isPurgeNew)
            }
            perform(queue, database)
            if isStopped { return }
            // What is left comes behind the writes that wait.
            if isPurgeNew { schedule.begin() }
            schedule.turn(
                at: QueryStart().nanoseconds,
                round: { state.withLock { $0.purge.round } },
                next: { QueryStart().adding(purgeInterval) },
                run: { purge($0, database) }
            )
        }
    }

    // MARK: - The purge

    /// From now on looks at what these tables keep too long.
    func watch(
        _ tables: [TableDefinition],
        beginsAtOnce: Bool,
        heads: (String) -> TableHead
    ) {
        state.withLock { state in
            state.purge.watch(tables, heads: heads)
            if beginsAtOnce { state.isPurgeNew = true }
        }
        if beginsAtOnce { wake.signal() }
    }

    /// One step of each kind on each table.
    func purge(_ database: Database) throws {
        let purge = state.withLock { $0.purge }
        for step in purge.round { _ = try purge.run(step, database, now: now()) }
    }

    private func purge(
        _ step: RetentionPurge.Step,
        _ database: Database
    ) -> PurgeSchedule.Removed {
        do {
            let purge = state.withLock { $0.purge }
            return PurgeSchedule.Removed(try purge.run(step, database, now: now()))
        } catch {
            log.write(.warning, "what is too old could not be removed", ["cause": "\(error)"])
            return .nothing
        }
    }

    // MARK: - Transactions

    private func perform(_ queue: [Work], _ database: Database) {
        var jobs: [BatchJob] = []
        var count = 0
        for work in queue {
            switch work {
            case .batch(let job) where job.stop.isSet:
                job.answer.resume(throwing: CancellationError())
                continue
            case .batch(let job):
                jobs.append(job)
                count += job.batch.count
                guard count >= Self.groupMax else { continue }
            case .task(let body):
                commit(&jobs, database)
                body(database)
            }
            commit(&jobs, database)
            count = 0
        }
        commit(&jobs, database)
    }

    private func commit(_ jobs: inout [BatchJob], _ database: Database) {
        guard !jobs.isEmpty else { return }
        defer { jobs.removeAll(keepingCapacity: true) }
        var moved: [TableStamp] = []
        let ended = Result { try outcomes(of: jobs, database, &moved) }
        for job in jobs { job.forEachTable { $0.head.ties.transactionEnded() } }
        do {
            let results = try ended.get()
            if !moved.isEmpty { listener.withLock { $0 }?.report(moved) }
            for (job, outcomes) in zip(jobs, results) { job.answer.resume(returning: outcomes) }
        } catch {
            log.write(.error, "commit failed", ["cause": "\(error)"])
            for job in jobs { job.answer.resume(throwing: ServerError.notCommitted) }
        }
    }

    /// What became of each batch, when all of them are committed.
    private func outcomes(
        of jobs: [BatchJob],
        _ database: Database,
        _ moved: inout [TableStamp]
    ) throws -> [[GroupOutcome]] {
        do {
            return try transact(jobs, database, &moved) { body in try body() }
        } catch {
            // The marks are gone, but not the stamps that they were for.
            for job in jobs {
                job.forEachTable { table in
                    table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
                }
            }
            return try transact(jobs, database, &moved) { body in
                let result = Result { try database.savepoint(body) }
                // A full disk ends the whole transaction, not the savepoint alone.
                guard database.isInTransaction else { throw ServerError.notCommitted }
                switch result {
                case .success(let outcome): return outcome
                case .failure(let error): return .failed(at: nil, error)
                }
            }
        }
    }

    /// Runs the jobs in one transaction; `each` surrounds a group.
    private func transact(
        _ jobs: [BatchJob],
        _ database: Database,
        _ moved: inout [TableStamp],
        each: (() throws -> GroupOutcome) throws -> GroupOutcome
    ) throws -> [[GroupOutcome]] {
        var writes = RowWrites(database, limits: limits, now: now)
        let results = try database.transaction {
            let results = try jobs.map { job in
                var progress = BatchProgress(job.batch)
                while let place = progress.next() {
                    let budget = progress.budget
                    progress.ended(
                        try each { try writes.apply(job.groups[place], within: budget) }
                    )
                }
                return progress.outcomes
            }
            moved = try writes.finish()
            return results
        }
        writes.advanceClocks()
        return results
    }
}

/// Who hears of commits.
///
/// An object, as a closure that is kept in a generic type is wrapped anew by each use, and stays so:
/// after many commits a report would need more stack than a thread has.
private final class CommitListener: Sendable {
    let report: @Sendable ([TableStamp]) -> Void

    init(report: @escaping @Sendable ([TableStamp]) -> Void) { self.report = report }
}
