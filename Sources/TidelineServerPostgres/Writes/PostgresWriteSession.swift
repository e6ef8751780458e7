// PostgresWriteSession: runs write transactions.
//
// Other servers and programs also write to the database. So a transaction may wait for a lock, lose its connection, or
// have to be repeated. Batches that need a lock that is not free wait outside of transactions.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

typealias PostgresWriter = WriteEngine<PostgresWriteSession>

/// The writing connection of a server, and its transactions.
final class PostgresWriteSession: WriteSession {
    typealias Retention = PostgresPurge

    private var link: PostgresLink
    private let tables: DerivedTables
    private let limits: ServerLimits
    private let now: (@Sendable () -> Int64)?
    private let times: WriteTimes
    private let timestamps: ReportedTimestamps
    private let log: ServerLog
    private let metrics: StoreMetrics
    private var ledger: LedgerBound
    private var locks = ContendedLocks()
    /// Until when the statements of a group wait only briefly for locks, because a write has waited for a long
    /// time.
    private var groupLocksUntil: UInt64 = 0
    private static let groupLocksTime = Duration.seconds(5)

    // The start of the current commit.
    private var start: UInt64 = 0
    private var retry = WriteRetry(skipsLocked: false, without: [])
    private var commitTimes: WriteTimes
    /// Whether a commit has stored new pending cascades.
    private var hasNewCascades = false
    /// The locks that batches of the last transaction lack, by batch index.
    private var blocked: [Int: Set<ContendedLock>] = [:]

    init(
        _ link: PostgresLink,
        _ tables: DerivedTables,
        limits: ServerLimits,
        now: (@Sendable () -> Int64)?,
        times: WriteTimes,
        timestamps: ReportedTimestamps,
        log: ServerLog,
        metrics: StoreMetrics
    ) {
        self.link = link
        self.tables = tables
        self.limits = limits
        self.now = now
        self.times = times
        self.timestamps = timestamps
        self.log = log
        self.metrics = metrics
        ledger = LedgerBound(bytes: limits.ledgerBytes)
        commitTimes = times
    }

    static func uptime(after time: Duration) -> UInt64 { Uptime.after(time) }

    func isLarge(_ batch: PostgresBatch) -> Bool { batch.changesTables }

    func perform(_ task: (Result<PostgresConnection, any Error>) -> Void) {
        task(Result { try link.connection() })
        link.endTransaction()
    }

    func close() { link.close() }

    // MARK: - Transactions

    func begin() {
        let skipsLocked = locks.isAny(at: Uptime.now())
        let retry = WriteRetry(
            skipsLocked: skipsLocked,
            without: skipsLocked ? locks.tables : [],
            limitsGroupLocks: Uptime.now() < groupLocksUntil
        )
        begin(retry, times)
    }

    private func begin(_ retry: WriteRetry, _ times: WriteTimes) {
        start = Uptime.now()
        self.retry = retry
        commitTimes = times
    }

    func transaction(
        _ batches: [PostgresBatch],
        _ body: (inout PostgresWriteTransaction) throws -> Void
    ) throws -> [TableTimestamp] {
        blocked = [:]
        var round = PostgresWriteTransaction(
            try link.connection(),
            tables,
            limits: limits,
            times: commitTimes,
            now: now,
            isApart: retry.isApart,
            limitsGroupLocks: retry.limitsGroupLocks
        )
        let lockedTables = batches.map { $0.clocks.intersection(retry.lockedTables) }
        let free = zip(batches, lockedTables).filter { $1.isEmpty }.map { $0.0 }
        try round.begin(free, skipsLocked: retry.skipsLocked)
        // This precedes the execution, because the other batches are read again if a table grows.
        for (index, (batch, tables)) in zip(batches, lockedTables).enumerated() {
            if !retry.skipsLocked || !tables.isEmpty {
                round.blocked[index] = Set(tables.map { ContendedLock.table($0) })
            } else if try round.outdated(batch) == nil {
                // An outdated batch was built for a schema version other than the one in which the rows were read.
                round.blocked[index] = round.missing(batch)
            }
        }
        try body(&round)
        blocked = round.blocked
        if round.lockTimeouts > 0 { limitGroupLocks() }
        let moved = try round.commit()
        if round.hasNewCascades { hasNewCascades = true }
        if round.chargedBytes > 0 { boundLedger(round.chargedBytes) }
        return moved
    }

    /// Lets groups wait only briefly for locks, so that one group's lock does not delay the others in each
    /// transaction.
    private func limitGroupLocks() {
        let now = Uptime.now()
        if groupLocksUntil <= now {
            log.write(
                .warning,
                """
                writes wait for locks of another program, for example on rows that foreign keys refer to; \
                writes that do not get their locks soon are rejected with 503
                """
            )
        }
        groupLocksUntil = Uptime.after(Self.groupLocksTime)
    }

    /// Removes entries of the ledger if a commit has made it too large, before the writes are answered.
    private func boundLedger(_ charged: Int) {
        guard ledger.isDue(after: charged) else { return }
        do {
            let connection = try link.connection()
            guard ledger.isOver(try LedgerAccounts.bytes(connection)) else { return }
            try connection.execute(
                "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'"
            )
            let dropped = try LedgerAccounts.trim(
                to: ledger.target,
                atMost: LedgerRules.drops(with: charged / LedgerRules.entryBytes + 1),
                connection
            )
            try connection.run("COMMIT")
            metrics.ledgerPurged.add(dropped)
            _ = ledger.isOver(try LedgerAccounts.bytes(connection))
        } catch {
            link.endTransaction()
            log.write(.warning, "the ledger could not be trimmed", ["cause": "\(error)"])
        }
    }

    func failed(_ error: any Error, _ batches: [PostgresBatch]) -> WriteRecovery<PostgresTable> {
        let isBroken = (try? link.connection()).map { $0.isBroken || $0.fault != nil } ?? true
        link.endTransaction()
        if let outdated = batches.outdated(error, &link) {
            return .exclude(outdated.batches, outdated.error, others: outdated.others)
        }
        switch retry.failed(error, isBroken: isBroken) {
        case .retry(let pause):
            if (error as? PostgresError)?.isLockTimeout == true { limitGroupLocks() }
            // The transaction has waited long enough for one table.
            if error is TableLockTimeout { commitTimes.contendedLock = times.briefLock }
            Uptime.sleep(seconds: pause)
            return .repeat
        case .reject(let rejection):
            // The error of an unreachable database is logged already.
            if error is PostgresError {
                log.write(.error, "commit failed", ["cause": "\(error)"])
            }
            return .reject(rejection)
        }
    }

    func committed(
        _ timestamps: [TableTimestamp],
        _ batches: [PostgresBatch],
        _ outcomes: inout [[GroupOutcome]?]
    ) {
        let waiting = outcomes.indices.filter { outcomes[$0] == nil }
            .map { (index: $0, batch: batches[$0], locks: blocked[$0] ?? []) }
        let now = Uptime.now()
        let isOver = waiting.map { $0.batch.waitsUntil.map { $0 <= now } ?? false }
        for (entry, isOver) in zip(waiting, isOver) where isOver {
            locks.remember(entry.locks, of: entry.batch, at: now)
        }
        let end = start &+ UInt64(times.lock) * 1_000_000
        var slots = limits.writeQueue - locks.blocked.writes
        for (entry, isOver) in zip(waiting, isOver) {
            slots -= entry.batch.count
            // Its time is over, the queue is full, or it needs a lock that one transaction holds for long.
            if isOver || slots < 0 || entry.locks.contains(where: locks.rejects) {
                outcomes[entry.index] = entry.batch.batch.failed(ServerError.writesWait)
            } else {
                locks.blocked.add(entry.batch, for: entry.locks, now: now, until: end)
            }
        }
        self.timestamps.report(timestamps)
    }

    /// Notifies other servers of the new commits, after the answers.
    ///
    /// The notification is only a hint, because a server that misses it reads the clocks soon. Within the
    /// transaction, it would block all other commits with notifications.
    func end(_ timestamps: [TableTimestamp]) {
        if !timestamps.isEmpty { _ = try? link.connection().run("NOTIFY tideline") }
        link.endTransaction()
    }

    // MARK: - Cascades

    static var cascadePause: Duration? { .seconds(15) }

    func takeNewCascades() -> Bool {
        defer { hasNewCascades = false }
        return hasNewCascades
    }

    func cascade(in graph: ReferenceGraph?, _ step: inout CascadeStep) throws -> CascadeProgress {
        defer { link.endTransaction() }
        var round = PostgresWriteTransaction(
            try link.connection(),
            tables,
            limits: limits,
            times: times,
            now: now,
            isApart: false,
            limitsGroupLocks: false
        )
        guard try round.beginCascade(in: graph, &step) else { return CascadeProgress() }
        let progress = try round.cascade(in: graph, &step)
        let moved = try round.commit()
        timestamps.report(moved)
        if !moved.isEmpty { _ = try? link.connection().run("NOTIFY tideline") }
        return progress
    }

    // MARK: - Blocked batches

    var blockedDue: UInt64 { locks.blocked.due ?? .max }

    func retryBlocked(isLast: Bool, _ commit: ([PostgresBatch]) -> Void) {
        guard let due = locks.blocked.due, isLast || due <= Uptime.now() else { return }
        var taken = BlockedWrites.Taken()
        if isLast {
            taken.free = locks.blocked.takeAll()
        } else {
            let probe = try? LockProbe(
                at: locks.blocked.locks,
                of: locks.blocked.tables,
                link.connection(),
                times
            )
            link.endTransaction()
            locks.forget(probe?.free ?? [])
            taken = locks.blocked.take(at: Uptime.now(), probe)
        }
        for (batches, isContended) in [(taken.free, false), (taken.contended, true)] {
            let batches = batches.filter { !$0.endIfCancelled() }
            guard !batches.isEmpty else { continue }
            var times = times
            if isContended { times.briefLock = times.contendedLock }
            begin(
                WriteRetry(
                    skipsLocked: !isContended,
                    without: isContended ? [] : taken.lockedTables
                ),
                times
            )
            commit(batches)
        }
    }
}
