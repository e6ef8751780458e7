// HeldLocks: the tables and rows that another transaction has locked for too long, so that writes do not wait for them
// repeatedly. A table counts as locked if its clock is.
//
// A transaction waits for the locks of its tables and rows for a short time. If that is not enough, it restarts
// without the batches that need them, and those batches wait outside of transactions (`JobsHeldUp`). If a lock is not
// free when their time is over, it is recorded here: for some seconds, no transaction waits for it, and writes that need
// it are rejected immediately. Writes that need a locked table wait each time, because many writes need a table; they
// continue as soon as it is free.

import TidelineServerCore

/// What a transaction locks that somebody else may have.
enum HeldLock: Hashable, Sendable {
    /// A table, or its clock, by the name of that.
    case table(String)
    case row(RowKey)

    /// The tables that are locked as such, among locks.
    static func tables(of locks: some Sequence<HeldLock>) -> Set<String> {
        Set(
            locks.compactMap { lock in
                if case .table(let clock) = lock { clock } else { nil }
            }
        )
    }
}

struct HeldLocks {
    /// What waits for some.
    var jobs = JobsHeldUp()
    /// Until when, by the uptime.
    private var ends: [HeldLock: UInt64] = [:]

    /// How long one is remembered, in nanoseconds: about as long as a server that stands still keeps one.
    private static let time: UInt64 = 5_000_000_000

    /// Whether any is remembered, or waited for.
    mutating func isAny(at now: UInt64) -> Bool {
        if !ends.isEmpty { ends = ends.filter { $0.value > now } }
        return !ends.isEmpty || !jobs.isEmpty
    }

    func contains(_ lock: HeldLock) -> Bool { ends[lock] != nil }

    /// Whether what needs it is refused at once.
    func refuses(_ lock: HeldLock) -> Bool {
        if case .table = lock { false } else { contains(lock) }
    }

    /// The tables that are remembered, or waited for: nobody waits for them in a transaction.
    var tables: Set<String> {
        HeldLock.tables(of: ends.keys).union(HeldLock.tables(of: jobs.locks))
    }

    /// Forgets what nobody has any more.
    mutating func forget(_ locks: Set<HeldLock>) {
        for lock in locks { ends[lock] = nil }
    }

    /// Remembers what a batch waited for in vain: what the same transaction had for long, or all of it where
    /// the batch was in line for that often enough.
    mutating func remember(_ locks: Set<HeldLock>, of job: PostgresJob, at now: UInt64) {
        let held = JobsHeldUp.mayLineUp(job) ? jobs.heldForLong(locks) : locks
        for lock in held { ends[lock] = now &+ Self.time }
    }
}
