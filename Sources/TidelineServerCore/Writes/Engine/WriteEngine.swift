// WriteEngine: one thread that commits waiting batches, many at a time.
//
// It takes all batches that wait, runs them in one transaction, commits, and then answers. Batches that arrive in the
// meantime form the next transaction. It needs no timer, and a single write never waits for others to arrive. However
// many callers there are, the lock of a table's clock and the flush of the log are needed once for all of them.

import Foundation
import Synchronization
import TidelineCore

/// The writer of a database.
package final class WriteEngine<Session: WriteSession>: Sendable {
    private typealias Batch = QueuedBatch<Session.Backend>
    private typealias Large = LargeBatches<Session.Backend>
    package typealias Queue = WriterQueue<Session.Backend, Session.Connection>

    package let queue: Queue
    package let retention: RetentionRun<Session.Retention>
    private let purgeInterval: Duration
    private let log: ServerLog
    private let metrics: StoreMetrics
    /// The session of the inline mode, which runs on the caller's thread.
    private let inlineSession: Mutex<Session?>
    /// The uptime after which inline work retries failed cascades.
    private let inlineCascadesDue = Mutex(UInt64.max)
    /// Returns the references between the tables; nil until the tables are prepared.
    private let graph = Mutex<GraphSource?>(nil)
    private let cascadeFailures = Mutex(CascadeFailures())

    /// The number of writes after which a transaction takes no more batches, so that the first callers of a
    /// long queue are answered soon.
    private static var groupMax: Int { 1000 }

    package init(
        limits: ServerLimits,
        retention: RetentionRun<Session.Retention>,
        purgeInterval: Duration,
        log: ServerLog,
        metrics: StoreMetrics,
        inline: Bool = false,
        makeSession: @escaping @Sendable () -> sending Session
    ) {
        queue = Queue(limits)
        self.retention = retention
        self.purgeInterval = purgeInterval
        self.log = log
        self.metrics = metrics
        inlineSession = Mutex(inline ? makeSession() : nil)
        if inline {
            queue.end()
            return
        }
        let thread = Thread { [self] in serve(makeSession()) }
        thread.name = "tideline-writer"
        thread.stackSize = 8 << 20
        thread.start()
    }

    /// Executes the writes; returns after the commit.
    package func write(
        _ batch: WriteBatch,
        _ tables: [[Session.Backend]],
        related: [Session.Backend] = []
    ) async throws -> [GroupOutcome] {
        let outcomes = try await queue.write(
            batch,
            tables,
            related: related,
            isDone: performInline
        )
        for case .done(let writes) in outcomes {
            for case let grown? in writes.lazy.map(\.grown) {
                let columns = "\(grown.schema.columns.count) columns"
                log.write(.debug, "tables", ["change": "Table '\(grown.name)' has \(columns)."])
                queue.watch([grown], beginsAtOnce: false)
            }
        }
        return outcomes
    }

    /// Runs `body` with exclusive use of the writing connection.
    package func run<Success: Sendable>(
        _ body: @escaping @Sendable (Session.Connection) throws -> Success
    ) async throws -> Success {
        try await queue.run(isDone: performInline, body)
    }

    /// Runs all steps of the purge once.
    package func purge() async throws {
        let round = queue.purge
        try await run { [retention] connection in
            for step in round.steps { _ = try retention.run(step, of: round, connection) }
        }
    }

    /// Continues pending cascades, from now on.
    package func continueCascades(in graph: @escaping @Sendable () -> ReferenceGraph?) {
        self.graph.withLock { $0 = GraphSource(graph: graph) }
        queue.beginCascades()
        inlineSession.withLock { session in
            if let session { finishCascades(session) }
        }
    }

    /// Ends the thread after the queued work.
    package func stop() async {
        queue.stop()
        await queue.waitUntilEnded()
    }

    private func performInline(_ work: Queue.Work) -> Bool {
        inlineSession.withLock { session in
            guard let session else { return false }
            var large = Large()
            perform([work], &large, session)
            while !large.isEmpty { perform([], &large, session) }
            let due = inlineCascadesDue.withLock { $0 }
            if session.takeNewCascades() || Session.uptime(after: .zero) >= due {
                finishCascades(session)
            }
            return true
        }
    }

    // MARK: - The thread

    private func serve(_ session: Session) {
        var schedule = PurgeSchedule()
        var cascadesDue = UInt64.max
        var large = Large()
        while true {
            let due = large.isEmpty ? min(schedule.due, session.blockedDue, cascadesDue) : 0
            let turn = queue.take(until: due)
            perform(turn.work, &large, session)
            if turn.isLast {
                while !large.isEmpty { perform([], &large, session) }
            }
            session.retryBlocked(isLast: turn.isLast) { commitAll($0, session) }
            if turn.isLast { break }
            queue.setAside(large.writes, of: large.callers)
            // The rest comes after the writes that wait.
            if turn.beginsPurge { schedule.begin() }
            if session.takeNewCascades() || turn.beginsCascades { cascadesDue = 0 }
            if Session.uptime(after: .zero) >= cascadesDue {
                cascadesDue = continueCascades(session)
            }
            schedule.turn(
                at: Session.uptime(after: .zero),
                round: { queue.purge.steps },
                next: { Session.uptime(after: purgeInterval) },
                run: { purge($0, session) }
            )
        }
        queue.setAside(0, of: [:])
        session.close()
        queue.end()
    }

    /// Runs one step of the pending cascades, between other work; returns when the next one is due.
    private func continueCascades(_ session: Session) -> UInt64 {
        guard let source = graph.withLock({ $0 }), session.rejection == nil else { return .max }
        let references = source.graph()
        let now = Session.uptime(after: .zero)
        var step = cascadeFailures.withLock { $0.step(at: now) }
        do {
            let progress = try session.cascade(in: references, &step)
            if progress.rows > 0 { metrics.cascadeSteps.add() }
            let due = cascadeFailures.withLock { failures in
                failures.succeeded(at: now)
                return failures.due
            }
            if progress.isPending { return 0 }
            // Another server may stop in the middle of a cascade.
            guard references != nil, let pause = Session.cascadePause else { return due ?? .max }
            return min(due ?? .max, Session.uptime(after: pause))
        } catch is OutdatedTable {
            // Requests load the current definition.
            return Session.uptime(after: .seconds(1))
        } catch {
            if step.places.count <= 1 {
                metrics.cascadeFailures.add()
                log.write(.warning, "a cascading delete failed", ["cause": "\(error)"])
            }
            let next = cascadeFailures.withLock { $0.failed(step, at: now) }
            return next > now ? next : 0
        }
    }

    /// Runs steps until the cascades are finished, or have to wait after a failure.
    private func finishCascades(_ session: Session) {
        var due: UInt64 = 0
        while due == 0 { due = continueCascades(session) }
        inlineCascadesDue.withLock { $0 = due }
    }

    private func purge(_ step: PurgeStep, _ session: Session) -> PurgeSchedule.Removed {
        guard session.rejection == nil else { return .nothing }
        var removed = PurgeSchedule.Removed.nothing
        session.perform { connection in
            do {
                let count = try retention.run(step, of: queue.purge, connection.get())
                removed = PurgeSchedule.Removed(count)
            } catch {
                session.purgeFailed(error)
                log.write(.warning, "purging expired rows failed", ["cause": "\(error)"])
            }
        }
        return removed
    }

    /// Performs the work, followed by one transaction of large batches.
    ///
    /// After each transaction of large batches, the other batches that have arrived are committed first.
    private func perform(_ queue: [Queue.Work], _ large: inout Large, _ session: Session) {
        var batches: [Batch] = []
        var count = 0
        for work in queue {
            switch work {
            case .batch(let batch):
                if batch.endIfCancelled() { continue }
                if batch.batch.isDryRun {
                    commitSmall(&batches, &large, session)
                    count = 0
                    dryRun(batch, session)
                    continue
                }
                if session.isLarge(batch) {
                    large.append(batch)
                    continue
                }
                batches.append(batch)
                count += batch.count
                guard count >= Self.groupMax else { continue }
            case .task(let task):
                commitSmall(&batches, &large, session)
                session.perform(task)
            }
            commitSmall(&batches, &large, session)
            count = 0
        }
        commitSmall(&batches, &large, session)
        large.dropCancelled()
        if !large.isEmpty {
            session.begin()
            large.putBack(commit(large.takeNext(), session))
        }
    }

    /// Commits the batches, except those that prove to be large after the first transaction.
    private func commitSmall(
        _ batches: inout [Batch],
        _ large: inout Large,
        _ session: Session
    ) {
        while !batches.isEmpty {
            session.begin()
            batches = commit(batches, session)
            // The transaction may have ended because of the first large row of a table.
            batches.removeAll { batch in
                guard session.isLarge(batch) else { return false }
                large.append(batch)
                return true
            }
        }
    }

    // MARK: - Transactions

    /// Commits and answers batches that were blocked, in as many transactions as they need.
    private func commitAll(_ batches: [Batch], _ session: Session) {
        var left = commit(batches, session)
        while !left.isEmpty {
            session.begin()
            left = commit(left, session)
        }
    }

    /// Commits and answers batches; returns those that were not reached because the transaction was full.
    ///
    /// All others are answered, or kept by the session.
    private func commit(_ queued: [Batch], _ session: Session) -> [Batch] {
        var batches = queued
        var timestamps: [TableTimestamp] = []
        defer { session.end(timestamps) }
        if let rejection = session.rejection {
            for batch in queued { batch.answer.resume(throwing: rejection) }
            return []
        }
        do {
            var outcomes: [[GroupOutcome]?]
            (timestamps, outcomes) = try transact(&batches, session)
            if batches.isEmpty { return [] }
            try session.committed(timestamps, batches, &outcomes)
            metrics.groups.add(
                zip(batches, outcomes).reduce(0) { $1.1 == nil ? $0 : $0 + $1.0.count }
            )
            for case (let batch, let outcomes?) in zip(batches, outcomes) {
                batch.answer.resume(returning: outcomes)
            }
            return Array(batches[outcomes.count...])
        } catch {
            metrics.failures.add()
            for batch in batches { batch.answer.resume(throwing: error) }
            return []
        }
    }

    /// Runs a batch alone in a transaction, rolls it back, and answers with the outcomes.
    private func dryRun(_ batch: Batch, _ session: Session) {
        session.begin()
        defer { session.end([]) }
        if let rejection = session.rejection { return batch.answer.resume(throwing: rejection) }
        while true {
            var outcomes: [[GroupOutcome]?] = []
            do {
                _ = try session.transaction([batch]) { transaction in
                    transaction.beginDryRun()
                    outcomes = try run([batch], &transaction)
                    throw EndOfDryRun()
                }
            } catch is EndOfDryRun {
                let outcome = outcomes.first ?? nil
                let busy = batch.batch.failed(ServerError.writesWait)
                return batch.answer.resume(returning: outcome ?? busy)
            } catch {
                switch session.failed(error, [batch]) {
                case .repeat: continue
                case .exclude(_, let rejection, _), .reject(let rejection):
                    return batch.answer.resume(throwing: rejection)
                }
            }
        }
    }

    /// Commits the first of the batches, and retries after a temporary failure.
    ///
    /// - Returns: The changed clocks, and the outcomes, which are nil for batches that have to wait. Batches
    ///   that are already answered are removed from `batches`.
    private func transact(
        _ batches: inout [Batch],
        _ session: Session
    ) throws -> ([TableTimestamp], [[GroupOutcome]?]) {
        let start = Session.uptime(after: .zero)
        defer { metrics.commits.add(from: start, to: Session.uptime(after: .zero)) }
        while !batches.isEmpty {
            var outcomes: [[GroupOutcome]?] = []
            do {
                let timestamps = try session.transaction(batches) { transaction in
                    outcomes = try run(batches, &transaction)
                }
                return (timestamps, outcomes)
            } catch {
                switch session.failed(error, batches) {
                case .repeat: continue
                case .exclude(let rejected, let error, _) where rejected.isEmpty:
                    throw error
                case .exclude(let rejected, let error, let others):
                    for batch in rejected { batch.answer.resume(throwing: error) }
                    batches = others
                case .reject(let rejection): throw rejection
                }
            }
        }
        return ([], [])
    }

    /// Returns the outcomes of the first of the batches, at least of one.
    private func run(
        _ batches: [Batch],
        _ transaction: inout Session.Transaction
    ) throws -> [[GroupOutcome]?] {
        var outcomes: [[GroupOutcome]?] = []
        outcomes.reserveCapacity(batches.count)
        var bytes = 0
        for (index, batch) in batches.enumerated() {
            // A transaction has at least one batch; otherwise the engine would make no progress.
            if index > 0, transaction.isFull(answerBytes: bytes) { break }
            switch try transaction.admit(batch, at: index) {
            case .run:
                transaction.batchRows = BatchRows()
                let progress = try batch.run { group, tables, budget in
                    let batchRows = transaction.batchRows
                    let outcome = try transaction.apply(
                        group.writes,
                        in: tables,
                        within: budget
                    )
                    if !outcome.isDone { transaction.batchRows = batchRows }
                    return outcome
                }
                bytes += progress.budget.bytes - batch.batch.budget.bytes
                outcomes.append(progress.outcomes)
            case .reject(let error): outcomes.append(batch.batch.failed(error))
            case .wait: outcomes.append(nil)
            }
        }
        return outcomes
    }
}

/// A source of the current references.
///
/// It is a class, because a closure stored in a generic type is wrapped again at each use.
private final class GraphSource: Sendable {
    let graph: @Sendable () -> ReferenceGraph?

    init(graph: @escaping @Sendable () -> ReferenceGraph?) { self.graph = graph }
}

/// The error that rolls back the transaction of a dry run.
private struct EndOfDryRun: Error {}
