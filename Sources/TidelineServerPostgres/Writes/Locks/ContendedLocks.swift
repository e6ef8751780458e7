// ContendedLocks: remembers locks, so that writes do not wait for them repeatedly. A table counts as locked if its
// clock is.
//
// A transaction waits for the locks of its tables and rows for a short time. If that is not enough, it restarts
// without the batches that need them, and those batches wait outside of transactions (`BlockedWrites`). If a lock is
// not free when their time is over, it is recorded here: for some seconds, no transaction waits for it, and writes that
// need it are rejected immediately. Writes that need a locked table wait each time, because many writes need a table;
// they continue as soon as it is free.

import TidelineServerCore

/// A lock that a transaction takes, and that another transaction may hold.
enum ContendedLock: Hashable, Sendable {
    /// A table or its clock, identified by the clock's name.
    case table(String)
    case row(RowKey)

    /// Returns the clocks of the tables among these locks.
    static func tables(of locks: some Sequence<ContendedLock>) -> Set<String> {
        Set(
            locks.compactMap { lock in
                if case .table(let clock) = lock { clock } else { nil }
            }
        )
    }
}

/// The tables and rows that another transaction has locked for too long.
struct ContendedLocks {
    /// The batches that wait for locks.
    var blocked = BlockedWrites()
    /// The uptime until which each lock is remembered.
    private var ends: [ContendedLock: UInt64] = [:]

    /// The time for which a lock is remembered, in nanoseconds.
    ///
    /// It is about as long as a server that stopped responding holds its locks.
    private static let time: UInt64 = 5_000_000_000

    /// Returns whether a lock is remembered, or a batch waits for one.
    mutating func isAny(at now: UInt64) -> Bool {
        if !ends.isEmpty { ends = ends.filter { $0.value > now } }
        return !ends.isEmpty || !blocked.isEmpty
    }

    func contains(_ lock: ContendedLock) -> Bool { ends[lock] != nil }

    /// Returns whether writes that need a lock are rejected immediately.
    func rejects(_ lock: ContendedLock) -> Bool {
        if case .table = lock { false } else { contains(lock) }
    }

    /// The clocks of the tables that are remembered or waited for, so that no transaction waits for them.
    var tables: Set<String> {
        ContendedLock.tables(of: ends.keys).union(ContendedLock.tables(of: blocked.locks))
    }

    /// Forgets locks that are free.
    mutating func forget(_ locks: Set<ContendedLock>) {
        for lock in locks { ends[lock] = nil }
    }

    /// Remembers locks that a batch waited for until its time limit.
    ///
    /// These are the locks that one transaction held for a long time, or all of them if the batch has no tries
    /// left for contended locks.
    mutating func remember(_ locks: Set<ContendedLock>, of batch: PostgresBatch, at now: UInt64) {
        let locked =
            BlockedWrites.mayTryContended(batch) ? blocked.lockedForLong(locks) : locks
        for lock in locked { ends[lock] = now &+ Self.time }
    }
}
