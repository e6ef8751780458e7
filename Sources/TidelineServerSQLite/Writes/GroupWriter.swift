// GroupWriter: one thread that owns the writing connection, and commits in groups.
//
// It takes all batches that wait, runs them in one transaction, commits, and only then answers. Batches
// that arrive meanwhile are the next group. It needs no timer, and a lone write never waits for others.
// With `synchronous=FULL` one flush of the disk serves the whole group.
//
// Its transactions are in GroupWriter+Transactions.swift.

import Dispatch
import Foundation
import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

final class GroupWriter: Sendable {
    enum Work: Sendable {
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

    private let state: Mutex<State>
    private let wake = DispatchSemaphore(value: 0)
    let limits: ServerLimits
    private let purgeInterval: Duration
    private let steady: @Sendable () -> Int64
    private let time: Mutex<TimeKeeper>
    let now: @Sendable () -> Int64
    let log: ServerLog
    let metrics: StoreMetrics
    /// Whether a transaction of writes is under way.
    let isWriting = Atomic(false)
    /// Nil in inline mode.
    let file: FileWatch?
    let listener = Mutex<CommitListener?>(nil)
    /// How many writes were taken from the queue and wait for small ones.
    private let largeWrites = Atomic(0)
    /// The connection of the inline mode.
    private let inlineDatabase: Mutex<Database?>

    init(
        _ database: Database,
        inline: Bool,
        file: FileWatch?,
        limits: ServerLimits,
        purgeInterval: Duration,
        now: @escaping @Sendable () -> Int64,
        steady: @escaping @Sendable () -> Int64,
        log: ServerLog,
        metrics: StoreMetrics
    ) {
        self.limits = limits
        self.file = file
        self.steady = steady
        time = Mutex(TimeKeeper(log: log, metrics: metrics))
        self.purgeInterval = purgeInterval
        state = Mutex(State(purge: RetentionPurge(limits)))
        self.now = now
        self.log = log
        self.metrics = metrics
        inlineDatabase = Mutex(inline ? database : nil)
        guard !inline else { return }
        let thread = Thread { [self] in serve(database) }
        thread.name = "tideline-writer"
        thread.start()
    }

    /// Writes; returns after the commit.
    ///
    /// Dropped if its task is cancelled before it is begun; its position is free at once.
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
                enqueue(.batch(job), count: batch.count, of: batch.caller, answer, ticket)
            }
        } onCancel: {
            drop(ticket)
        }
    }

    /// Drops a write whose caller has left, unless the writer has taken it already.
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
        of caller: String? = nil,
        _ answer: CheckedContinuation<Result, any Error>,
        _ ticket: WriteTicket? = nil
    ) {
        let wasRunInline = inlineDatabase.withLock { database -> Bool in
            guard let database else { return false }
            var large = LargeJobs()
            perform([work], &large, database)
            while !large.isEmpty { perform([], &large, database) }
            return true
        }
        if wasRunInline { return }
        var refusal: (any Error)?
        var isFirst = false
        state.withLock { state in
            if state.isStopped {
                refusal = ServerError.stopping
            } else if let ticket, ticket.stop.isSet {
                // A caller that is cancelled later finds the write in the queue.
                refusal = CancellationError()
            } else if state.queue.writes + largeWrites.load(ordering: .relaxed)
                >= limits.writeQueue
            {
                refusal = ServerError.tooManyWrites
            } else if state.queue.exceedsShare(caller, of: limits.writeQueue) {
                refusal = ServerError.tooManyOwnWrites
            } else {
                isFirst = state.queue.isEmpty
                let place = state.queue.append(work, count: count, of: caller)
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
    var queueLength: Int {
        state.withLock { $0.queue.writes } + largeWrites.load(ordering: .relaxed)
    }

    /// Ends the thread after the work that is queued already.
    func stop() {
        state.withLock { $0.isStopped = true }
        wake.signal()
    }

    /// The life of the thread.
    private func serve(_ database: Database) {
        var schedule = PurgeSchedule()
        var large = LargeJobs()
        while true {
            if large.isEmpty {
                _ = wake.wait(timeout: DispatchTime(uptimeNanoseconds: schedule.due))
            }
            let (queue, isStopped, isPurgeNew) = state.withLock { state in
                defer { state.isPurgeNew = false }
                return (state.queue.takeAll(), state.isStopped, state.isPurgeNew)
            }
            perform(queue, &large, database)
            if isStopped {
                while !large.isEmpty { perform([], &large, database) }
                largeWrites.store(0, ordering: .relaxed)
                return
            }
            largeWrites.store(large.writes, ordering: .relaxed)
            // The rest comes after the writes that wait.
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

    /// Starts to purge expired data of these tables.
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
        for step in purge.round { _ = try run(step, purge, database) }
        try measureLedger(database)
    }

    /// Reads the clocks before this process wrote anything.
    ///
    /// `newest` is the newest commit timestamp that the database had.
    func beginTime(_ newest: Int64?, _ database: Database) throws {
        _ = try removalTime(newest, database)
        ClockAhead.report(try ReceiptTimes.stamps(database), now: now(), to: log, metrics)
    }

    /// The time by which rows may be removed; nil while the wall clock is doubted.
    private func removalTime(_ newest: Int64?, _ database: Database) throws -> RemovalTime? {
        let reading = TrustedTime.Reading(wall: now(), steady: steady())
        return try time.withLock { time in
            try time.take(reading, memory: ReceiptTimes.memory(database), newest: newest) {
                memory in
                try database.transaction { try ReceiptTimes.store(memory, database) }
            }
        }
    }

    private func run(
        _ step: PurgeStep,
        _ purge: RetentionPurge,
        _ database: Database
    ) throws -> Int {
        if step == .clocks {
            let newest = try ReceiptTimes.newest(database) ?? 0
            metrics.clockAhead.set(Int(clamping: ClockAhead.seconds(newest, now: now())))
        }
        guard let time = try removalTime(nil, database) else { return 0 }
        let count = try purge.run(step, database, time: time)
        metrics.purged(step, count)
        return count
    }

    private func purge(
        _ step: PurgeStep,
        _ database: Database
    ) -> PurgeSchedule.Removed {
        do {
            guard file?.check() == nil else { return .nothing }
            let purge = state.withLock { $0.purge }
            let count = try run(step, purge, database)
            if step == .ledger { try measureLedger(database) }
            return PurgeSchedule.Removed(count)
        } catch {
            file?.met(error)
            log.write(.warning, "what is too old could not be removed", ["cause": "\(error)"])
            return .nothing
        }
    }

    private func measureLedger(_ database: Database) throws {
        let (bytes, entries) = try Ledger.measure(database)
        metrics.ledgerBytes.set(Int(clamping: bytes))
        metrics.ledgerEntries.set(Int(clamping: entries))
    }
}
