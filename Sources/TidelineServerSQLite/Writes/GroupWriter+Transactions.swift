// GroupWriter+Transactions: what waits becomes transactions, and each batch gets its outcomes.
//
// A write is one statement, which SQLite undoes by itself, so most batches need no savepoints: they
// copy every page they touch. When a write throws, which refusals do not, the transaction is undone
// and runs again with a savepoint for each group of writes, so that the others are stored.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

extension GroupWriter {
    /// A transaction takes no more batches once it has so many writes, so that the first of a long
    /// queue is answered soon.
    private static let groupMax = 1000

    func perform(_ queue: [Work], _ database: Database) {
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
final class CommitListener: Sendable {
    let report: @Sendable ([TableStamp]) -> Void

    init(report: @escaping @Sendable ([TableStamp]) -> Void) { self.report = report }
}
