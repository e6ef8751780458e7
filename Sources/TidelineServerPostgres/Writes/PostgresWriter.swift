// PostgresWriter: one thread with a connection that commits waiting batches, many at a time.
//
// It takes all batches that wait, runs them in one transaction, commits, and only then answers. Batches
// that arrive meanwhile are the next transaction. It needs no timer, and a lone write never waits for others. So
// however many callers there are, a table's clock is locked and the log flushed once for all of them.

import Dispatch
import Foundation
import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

final class PostgresWriter: Sendable {
    enum Work: Sendable {
        case batch(PostgresJob)
        /// Something that needs the connection for itself.
        case task(@Sendable (Result<PostgresConnection, any Error>) -> Void)
    }

    private struct State {
        /// A task counts as one write.
        var queue = WriteQueue<Work>()
        var isStopped = false
        var isPurgeNew = false
        var purge: PostgresPurge
        var ended: [CheckedContinuation<Void, Never>] = []
        var hasEnded = false
    }

    private let state: Mutex<State>
    private let wake = DispatchSemaphore(value: 0)
    private let address: PostgresAddress
    private let limits: ServerLimits
    private let now: (@Sendable () -> Int64)?
    private let purgeInterval: Duration
    private let steady: @Sendable () -> Int64
    private let time: Mutex<TimeKeeper>
    private let ledger: Mutex<LedgerBound>
    /// How many writes were taken from the queue and wait for their change of tables.
    private let growingWrites = Atomic(0)
    private let log: ServerLog
    private let stamps: ReportedStamps
    private let timeline: TimelineWatch
    private let keeping: StatementKeeping
    private let times: WriteTimes
    private let metrics: StoreMetrics

    init(
        _ address: PostgresAddress,
        limits: ServerLimits,
        now: (@Sendable () -> Int64)?,
        steady: @escaping @Sendable () -> Int64,
        purgeInterval: Duration,
        times: WriteTimes,
        stamps: ReportedStamps,
        timeline: TimelineWatch,
        keeping: StatementKeeping,
        log: ServerLog,
        metrics: StoreMetrics
    ) {
        self.address = address
        self.times = times
        self.timeline = timeline
        self.keeping = keeping
        self.limits = limits
        self.now = now
        self.purgeInterval = purgeInterval
        self.steady = steady
        ledger = Mutex(LedgerBound(bytes: limits.ledgerBytes))
        time = Mutex(TimeKeeper(log: log, metrics: metrics))
        self.stamps = stamps
        self.log = log
        self.metrics = metrics
        state = Mutex(State(purge: PostgresPurge(limits)))
        let thread = Thread { [self] in serve() }
        thread.name = "tideline-writer"
        thread.stackSize = 4 << 20
        thread.start()
    }

    // MARK: - The queue

    /// Writes; returns after the commit.
    ///
    /// Dropped if its task is cancelled before it is begun; its position is free at once.
    func write(
        _ batch: WriteBatch,
        _ groups: [[PostgresJob.Write]]
    ) async throws -> [GroupOutcome] {
        let place = JobPlace()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { answer in
                let job = PostgresJob(
                    batch: batch,
                    groups: groups,
                    answer: answer,
                    place: place
                )
                enqueue(.batch(job), count: batch.count, of: batch.caller, place) {
                    answer.resume(throwing: $0)
                }
            }
        } onCancel: {
            guard let number = place.leave() else { return }
            let work = state.withLock { $0.queue.remove(number) }
            if case .batch(let job) = work { job.answer.resume(throwing: CancellationError()) }
        }
    }

    /// Runs `body` alone on the writing connection.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable (PostgresConnection) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { answer in
            let work = Work.task { connection in
                answer.resume(with: Swift.Result { try body(connection.get()) })
            }
            enqueue(work, count: 1, nil) { answer.resume(throwing: $0) }
        }
    }

    /// Writes a value that is never read; does not wait long for another transaction's lock.
    func touch() async throws {
        let settings = WriteStatements.settings(times, lock: times.heldLock)
        try await run {
            _ = try $0.pipeline([settings, PostgresStatement(PostgresSchema.touchState)])
        }
    }

    private func enqueue(
        _ work: Work,
        count: Int,
        of caller: String? = nil,
        _ place: JobPlace?,
        refuse: (any Error) -> Void
    ) {
        var refusal: (any Error)?
        var isFirst = false
        state.withLock { state in
            if state.isStopped {
                refusal = ServerError.stopping
            } else if state.queue.writes + growingWrites.load(ordering: .relaxed)
                >= limits.writeQueue
            {
                refusal = ServerError.tooManyWrites
            } else if state.queue.exceedsShare(caller, of: limits.writeQueue) {
                refusal = ServerError.tooManyOwnWrites
            } else {
                isFirst = state.queue.isEmpty
                let number = state.queue.append(work, count: count, of: caller)
                guard let place, !place.wait(at: number) else { return }
                // A caller that left before it waited finds nothing in the queue.
                _ = state.queue.remove(number)
                refusal = CancellationError()
            }
        }
        if let refusal { refuse(refusal) }
        if isFirst { wake.signal() }
    }

    /// How many writes wait.
    var queueLength: Int {
        state.withLock { $0.queue.writes } + growingWrites.load(ordering: .relaxed)
    }

    /// Starts to purge expired data of these tables.
    func watch(_ tables: [TableDefinition], beginsAtOnce: Bool) {
        state.withLock { state in
            state.purge.watch(tables)
            if beginsAtOnce { state.isPurgeNew = true }
        }
        if beginsAtOnce { wake.signal() }
    }

    /// Ends the thread after the work that is queued already.
    func stop() async {
        state.withLock { $0.isStopped = true }
        wake.signal()
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.hasEnded { state.ended.append(continuation) }
                return state.hasEnded
            }
            if isOver { continuation.resume() }
        }
    }

    // MARK: - The thread

    private func serve() {
        var link = PostgresLink(address, keeping: keeping, log: log) { [timeline] in
            try timeline.greet($0)
        }
        var schedule = PurgeSchedule()
        var held = HeldLocks()
        var growing: [PostgresJob] = []
        while true {
            let due = growing.isEmpty ? min(schedule.due, held.jobs.due ?? .max) : 0
            _ = wake.wait(timeout: DispatchTime(uptimeNanoseconds: due))
            let (queue, isStopped, isPurgeNew) = state.withLock { state in
                defer { state.isPurgeNew = false }
                return (state.queue.takeAll(), state.isStopped, state.isPurgeNew)
            }
            perform(queue, &growing, &link, &held)
            commitHeldUp(&link, &held, isLast: isStopped)
            if isStopped {
                while !growing.isEmpty { grow(&growing, &link, &held) }
                break
            }
            growingWrites.store(growing.reduce(0) { $0 + $1.batch.count }, ordering: .relaxed)
            // The rest comes after the writes that wait.
            if isPurgeNew { schedule.begin() }
            schedule.turn(
                at: Uptime.now(),
                round: { state.withLock { $0.purge.round } },
                next: { Uptime.after(purgeInterval) },
                run: { purge($0, &link) }
            )
        }
        link.close()
        let ended = state.withLock { state in
            state.hasEnded = true
            defer { state.ended = [] }
            return state.ended
        }
        for continuation in ended { continuation.resume() }
    }

    /// One step of each kind on each table.
    func purge() async throws {
        let purge = state.withLock { $0.purge }
        try await run { [self] connection in
            for step in purge.round { _ = try run(step, purge, connection) }
        }
    }

    /// Reads the clocks before this process wrote anything.
    ///
    /// `newest` is the newest commit timestamp that the database had.
    func beginTime(_ newest: Int64?, _ connection: PostgresConnection) throws {
        let look = try PostgresReceipts.look(connection)
        _ = try removalTime(look, newest, connection)
        let stamps = try PostgresReceipts.stamps(connection)
        ClockAhead.report(stamps, now: now?() ?? look.now, to: log, metrics)
    }

    /// The time by which rows may be removed; nil while the wall clock is doubted.
    private func removalTime(
        _ look: PostgresReceipts.Look,
        _ newest: Int64?,
        _ connection: PostgresConnection
    ) throws -> RemovalTime? {
        let reading = TrustedTime.Reading(wall: now?() ?? look.now, steady: steady())
        return try time.withLock { time in
            try time.take(reading, memory: look.memory, newest: newest) {
                try PostgresReceipts.store($0, connection)
            }
        }
    }

    private func run(
        _ step: PurgeStep,
        _ purge: PostgresPurge,
        _ connection: PostgresConnection
    ) throws -> Int {
        let look = try PostgresReceipts.look(connection)
        if step == .clocks {
            let now = now?() ?? look.now
            let ahead = try PostgresReceipts.stamps(connection)
                .map { ClockAhead.seconds($0.stamp, now: now) }
            metrics.clockAhead.set(Int(clamping: ahead.max() ?? 0))
        }
        guard let time = try removalTime(look, nil, connection) else { return 0 }
        let removed = try purge.run(step, connection, time: time)
        count(step, removed)
        return removed.count
    }

    private func count(_ step: PurgeStep, _ removed: PostgresPurge.Removed) {
        metrics.purged(step, removed.count)
        if let bytes = removed.ledgerBytes { metrics.ledgerBytes.set(bytes) }
        if let entries = removed.ledgerEntries { metrics.ledgerEntries.set(entries) }
    }

    private func purge(
        _ step: PurgeStep,
        _ link: inout PostgresLink
    ) -> PurgeSchedule.Removed {
        defer { link.settle() }
        do {
            let purge = state.withLock { $0.purge }
            return PurgeSchedule.Removed(try run(step, purge, link.connection()))
        } catch {
            log.write(.warning, "what is too old could not be removed", ["cause": "\(error)"])
            return .nothing
        }
    }

    /// A transaction takes no more batches once it has so many writes, so that the first of a long
    /// queue is answered soon.
    private static let groupMax = 1000

    private func perform(
        _ queue: [Work],
        _ growing: inout [PostgresJob],
        _ link: inout PostgresLink,
        _ held: inout HeldLocks
    ) {
        var jobs: [PostgresJob] = []
        var count = 0
        for work in queue {
            switch work {
            case .batch(let job) where job.place.isLeft:
                job.answer.resume(throwing: CancellationError())
                continue
            case .batch(let job) where job.changesTables:
                growing.append(job)
                continue
            case .batch(let job):
                jobs.append(job)
                count += job.batch.count
                guard count >= Self.groupMax else { continue }
            case .task(let body):
                commit(&jobs, &link, &held)
                do {
                    body(.success(try link.connection()))
                } catch {
                    body(.failure(error))
                }
                link.settle()
            }
            commit(&jobs, &link, &held)
            count = 0
        }
        commit(&jobs, &link, &held)
        grow(&growing, &link, &held)
    }

    /// Does one of the batches that change tables: each is a transaction of its own, and the other writes
    /// have their turn between them.
    private func grow(
        _ growing: inout [PostgresJob],
        _ link: inout PostgresLink,
        _ held: inout HeldLocks
    ) {
        guard !growing.isEmpty else { return }
        let job = growing.removeFirst()
        guard !job.place.isLeft else { return job.answer.resume(throwing: CancellationError()) }
        var jobs = [job]
        commit(&jobs, &link, &held)
    }

    // MARK: - Transactions

    private func commit(
        _ jobs: inout [PostgresJob],
        _ link: inout PostgresLink,
        _ held: inout HeldLocks
    ) {
        guard !jobs.isEmpty else { return }
        defer { jobs.removeAll(keepingCapacity: true) }
        let passesHeld = held.isAny(at: Uptime.now())
        let retry = WriteRetry(passesHeld: passesHeld, without: passesHeld ? held.tables : [])
        commit(jobs, &link, &held, retry, times)
    }

    /// Commits the batches that wait for contended locks, as far as possible now.
    private func commitHeldUp(
        _ link: inout PostgresLink,
        _ held: inout HeldLocks,
        isLast: Bool
    ) {
        guard let due = held.jobs.due, isLast || due <= Uptime.now() else { return }
        var taken = JobsHeldUp.Taken()
        if isLast {
            taken.free = held.jobs.takeAll()
        } else {
            let look = try? HeldLook(
                at: held.jobs.locks,
                of: held.jobs.tables,
                link.connection(),
                times
            )
            link.settle()
            held.forget(look?.free ?? [])
            taken = held.jobs.take(at: Uptime.now(), look)
        }
        for (jobs, isBusy) in [(taken.free, false), (taken.busy, true)] {
            let jobs = jobs.filter { job in
                guard job.place.isLeft else { return true }
                job.answer.resume(throwing: CancellationError())
                return false
            }
            guard !jobs.isEmpty else { continue }
            var times = times
            if isBusy { times.heldLock = times.busyLock }
            let tables = isBusy ? [] : taken.heldTables
            let retry = WriteRetry(passesHeld: !isBusy, without: tables)
            commit(jobs, &link, &held, retry, times)
        }
    }

    private func commit(
        _ jobs: [PostgresJob],
        _ link: inout PostgresLink,
        _ held: inout HeldLocks,
        _ retry: WriteRetry,
        _ times: WriteTimes
    ) {
        let start = Uptime.now()
        var (jobs, retry, times) = (jobs, retry, times)
        defer { metrics.commits.add(from: start, to: Uptime.now()) }
        while true {
            do {
                let results = try transact(jobs, &link, retry, &held, times)
                let done = zip(jobs, results.outcomes).filter { $1 != nil }
                metrics.groups.add(done.reduce(0) { $0 + $1.0.batch.count })
                stamps.report(results.moved)
                for (job, outcomes) in done { job.answer.resume(returning: outcomes ?? []) }
                for (place, locks) in results.heldUp.sorted(by: { $0.key < $1.key }) {
                    let end = start &+ UInt64(times.lock) * 1_000_000
                    held.jobs.add(jobs[place], for: locks, now: Uptime.now(), until: end)
                }
                announce(results.moved, &link)
                link.settle()
                return
            } catch {
                let isBroken =
                    (try? link.connection()).map { $0.isBroken || $0.fault != nil } ?? true
                link.settle()
                if let outdated = jobs.outdated(error, &link) {
                    for job in outdated.jobs { job.answer.resume(throwing: outdated.error) }
                    jobs = outdated.others
                    if jobs.isEmpty { return }
                    continue
                }
                switch retry.failed(error, isBroken: isBroken) {
                case .again(let pause):
                    // Long enough was waited for one table.
                    if error is HeldTable { times.busyLock = self.times.heldLock }
                    Uptime.sleep(seconds: pause)
                case .refuse(let refusal):
                    metrics.failures.add()
                    // That the database is away was said once.
                    if error is PostgresError {
                        log.write(.error, "commit failed", ["cause": "\(error)"])
                    }
                    for job in jobs { job.answer.resume(throwing: refusal) }
                    return
                }
            }
        }
    }

    private func transact(
        _ jobs: [PostgresJob],
        _ link: inout PostgresLink,
        _ retry: WriteRetry,
        _ held: inout HeldLocks,
        _ times: WriteTimes
    ) throws -> WriteResults {
        var round = WriteRound(try link.connection(), limits: limits, times: times, now: now)
        let heldTables = jobs.map { $0.tables.intersection(retry.heldTables) }
        let free = zip(jobs, heldTables).filter { $1.isEmpty }.map { $0.0 }
        try round.begin(free, passesHeld: retry.passesHeld)
        // Before any is done: a table that grows makes the other batches be read again.
        let missing = try zip(jobs, heldTables).map { job, tables in
            guard retry.passesHeld, tables.isEmpty else {
                return Set(tables.map { HeldLock.table($0) })
            }
            // Rows are read in another form than it came with.
            return try round.outdated(job) == nil ? round.missing(job) : []
        }
        var results = WriteResults()
        for (place, job) in jobs.enumerated() {
            if let outdated = try round.outdated(job) {
                results.outcomes.append(job.refused(outdated))
                continue
            }
            guard missing[place].isEmpty else {
                results.heldUp[place] = missing[place]
                results.outcomes.append(nil)
                continue
            }
            var progress = BatchProgress(job.batch)
            while let place = progress.next() {
                let group = job.groups[place]
                let budget = progress.budget
                progress.ended(try round.apply(group, within: budget, isApart: retry.isApart))
            }
            results.outcomes.append(progress.outcomes)
        }
        refuse(jobs, &results, &held)
        results.moved = try round.commit()
        if round.chargedBytes > 0 { boundLedger(round.chargedBytes, &link) }
        return results
    }

    /// Drops entries of the ledger where a commit has made it too large, before its writes are answered.
    private func boundLedger(_ charged: Int, _ link: inout PostgresLink) {
        guard ledger.withLock({ $0.isDue(after: charged) }) else { return }
        do {
            let connection = try link.connection()
            let bytes = try LedgerAccounts.bytes(connection)
            guard ledger.withLock({ $0.isOver(bytes) }) else { return }
            try connection.execute(
                "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'"
            )
            let dropped = try LedgerAccounts.trim(
                to: ledger.withLock(\.target),
                atMost: LedgerRules.drops(beside: charged / LedgerRules.entryBytes + 1),
                connection
            )
            try connection.run("COMMIT")
            metrics.ledgerPurged.add(dropped)
            let left = try LedgerAccounts.bytes(connection)
            ledger.withLock { _ = $0.isOver(left) }
        } catch {
            link.settle()
            log.write(.warning, "the ledger could not be trimmed", ["cause": "\(error)"])
        }
    }

    /// Rejects jobs that have waited for as long as they may, that need a contended lock, or that exceed the memory.
    private func refuse(
        _ jobs: [PostgresJob],
        _ results: inout WriteResults,
        _ held: inout HeldLocks
    ) {
        let now = Uptime.now()
        let inVain = results.heldUp.filter { jobs[$0.key].waitsUntil.map { $0 <= now } ?? false }
        for (place, locks) in inVain { held.remember(locks, of: jobs[place], at: now) }
        var room = limits.writeQueue - held.jobs.writes
        for (place, locks) in results.heldUp.sorted(by: { $0.key < $1.key }) {
            room -= jobs[place].batch.count
            guard inVain[place] != nil || room < 0 || locks.contains(where: held.refuses) else {
                continue
            }
            results.outcomes[place] = jobs[place].refused(ServerError.writesWait)
            results.heldUp[place] = nil
        }
    }

    /// Notifies other servers of the new commits, after the answers.
    ///
    /// Only a hint: a server that misses it reads the clocks soon. Within the transaction it would block
    /// every other commit of the database that notifies.
    private func announce(_ moved: [TableStamp], _ link: inout PostgresLink) {
        guard !moved.isEmpty, let connection = try? link.connection() else { return }
        _ = try? connection.run("NOTIFY tideline")
    }
}
