// GroupWriter+Transactions: waiting batches become transactions, and each batch gets its outcomes.
//
// A write is one statement, which SQLite undoes by itself, so most batches need no savepoints: they
// copy every page they touch. If a write throws, which rejections do not, the transaction is rolled back
// and runs again with a savepoint for each group of writes, so that the other groups are stored.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

extension GroupWriter {
    /// A transaction takes no more batches once it has so many writes, so that the first of a long
    /// queue is answered soon.
    private static let groupMax = 1000

    /// A transaction begins no more batches once the rows that it has read and made have so many
    /// bytes, or its answers, none of which leaves before the commit.
    ///
    /// A small write among large ones waits at most for this much, and for the batch that exceeds it.
    private static let groupBytesMax = 4 << 20

    /// Does the waiting jobs, and one transaction of the large batches after them.
    ///
    /// Batches with large rows go to `large`. Each transaction of those lets the other batches pass that have
    /// arrived meanwhile.
    func perform(_ queue: [Work], _ large: inout LargeJobs, _ database: Database) {
        var jobs: [BatchJob] = []
        var count = 0
        for work in queue {
            switch work {
            case .batch(let job) where job.stop.isSet:
                job.answer.resume(throwing: CancellationError())
                continue
            case .batch(let job):
                if isLarge(job, database) {
                    large.append(job)
                    continue
                }
                jobs.append(job)
                count += job.batch.count
                guard count >= Self.groupMax else { continue }
            case .task(let body):
                commit(&jobs, &large, database)
                body(database)
            }
            commit(&jobs, &large, database)
            count = 0
        }
        commit(&jobs, &large, database)
        for job in large.dropCancelled() { job.answer.resume(throwing: CancellationError()) }
        if !large.isEmpty { large.dropFirst(commitSome(of: large.jobs, database)) }
    }

    /// Commits the jobs, except for those that turn out to be large after the first transaction.
    private func commit(
        _ jobs: inout [BatchJob],
        _ large: inout LargeJobs,
        _ database: Database
    ) {
        var rest = jobs[...]
        jobs.removeAll(keepingCapacity: true)
        while !rest.isEmpty {
            rest = rest.dropFirst(commitSome(of: rest, database))
            guard !rest.isEmpty else { return }
            // The transaction may have ended because of the first large row of a table.
            var small: [BatchJob] = []
            for job in rest {
                if isLarge(job, database) { large.append(job) } else { small.append(job) }
            }
            rest = small[...]
        }
    }

    /// Whether it has to do with large rows, as far as is known, or changes tables.
    ///
    /// Rows are read only in tables that have large ones, so that other tables pay nothing for it.
    private func isLarge(_ job: BatchJob, _ database: Database) -> Bool {
        var bytes = 0
        if job.groups.joined().contains(where: { $0.table.table.needsGrowth }) { return true }
        for group in job.groups {
            for write in group where write.table.head.hasLargeRows.load(ordering: .relaxed) {
                bytes += write.operation.bytes
                if bytes > RowWrites.smallBytes { return true }
                guard write.operation.kind != .insert, !write.table.table.needsGrowth else {
                    continue
                }
                bytes += (try? RowWrites.weight(write.operation.id, write.table, database)) ?? 0
                if bytes > RowWrites.smallBytes { return true }
            }
        }
        return false
    }

    /// Commits and answers the first of the jobs, and returns how many.
    private func commitSome(of jobs: ArraySlice<BatchJob>, _ database: Database) -> Int {
        if let refusal = file?.check() {
            for job in jobs { job.answer.resume(throwing: refusal) }
            return jobs.count
        }
        var moved: [TableStamp] = []
        let start = QueryStart().nanoseconds
        isWriting.store(true, ordering: .relaxed)
        defer { isWriting.store(false, ordering: .relaxed) }
        let ended = Result { try outcomes(of: jobs, database, &moved) }
        metrics.commits.add(from: start, to: QueryStart().nanoseconds)
        for job in jobs { job.forEachTable { $0.head.ties.transactionEnded() } }
        do {
            let results = try ended.get()
            file?.committed(moved)
            // A file that was moved away meanwhile may have the commit, but no server will find it.
            if let refusal = file?.check() {
                metrics.failures.add()
                for job in jobs { job.answer.resume(throwing: refusal) }
                return jobs.count
            }
            metrics.groups.add(jobs.prefix(results.count).reduce(0) { $0 + $1.batch.count })
            if !moved.isEmpty { listener.withLock { $0 }?.report(moved) }
            for (job, outcomes) in zip(jobs, results) { job.answer.resume(returning: outcomes) }
            return results.count
        } catch {
            metrics.failures.add()
            log.write(.error, "commit failed", ["cause": "\(error)"])
            let refusal = file?.met(error) ?? ServerError.notCommitted
            for job in jobs { job.answer.resume(throwing: refusal) }
            return jobs.count
        }
    }

    /// Returns the outcomes of the first jobs, when these are committed: at least of one.
    private func outcomes(
        of jobs: ArraySlice<BatchJob>,
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
                case .failure(let error):
                    if let refusal = file?.met(error) { throw refusal }
                    return .failed(at: nil, SQLiteRefusal.ofWrite(error, database))
                }
            }
        }
    }

    /// Runs the first jobs in one transaction; `each` surrounds a group.
    private func transact(
        _ jobs: ArraySlice<BatchJob>,
        _ database: Database,
        _ moved: inout [TableStamp],
        each: (() throws -> GroupOutcome) throws -> GroupOutcome
    ) throws -> [[GroupOutcome]] {
        var writes = RowWrites(database, limits: limits, now: now)
        let results = try database.transaction {
            var results: [[GroupOutcome]] = []
            results.reserveCapacity(jobs.count)
            var bytes = 0
            // A change of tables is a transaction of its own: the small writes have their turn after it.
            for job in jobs where max(bytes, writes.bytes) < Self.groupBytesMax && !writes.hasGrown
            {
                var progress = BatchProgress(job.batch)
                let bytesBefore = progress.budget.bytes
                while let place = progress.next() {
                    let budget = progress.budget
                    progress.ended(
                        try each { try writes.apply(job.groups[place], within: budget) }
                    )
                }
                bytes += progress.budget.bytes - bytesBefore
                results.append(progress.outcomes)
            }
            moved = try writes.finish()
            return results
        }
        writes.advanceClocks()
        return results
    }
}

/// The listener that gets reports of commits.
///
/// A class, because a closure stored in a generic type is wrapped again at each use, and stays wrapped:
/// after many commits a report would need more stack than a thread has.
final class CommitListener: Sendable {
    let report: @Sendable ([TableStamp]) -> Void

    init(report: @escaping @Sendable ([TableStamp]) -> Void) { self.report = report }
}
