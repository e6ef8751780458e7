// BlockedWrites: waits for locks.
//
// The writer continues with other batches, and probes every 10 ms whether the locks are free. A batch waits for as long
// as a write may wait for a lock. A lock that passes from one transaction to the next is seldom free at a probe: such a
// contended lock is taken in a transaction that waits for it in PostgreSQL's queue, for up to half a second. A batch
// does that at most twice. A lock that it does not get then counts as locked by one transaction.

import TidelineServerCore

/// The batches that wait for locks of other transactions, outside of a transaction.
struct BlockedWrites {
    /// The batches that are tried next.
    struct Taken {
        /// Batches whose locks are free, or whose time limit is reached.
        var free: [PostgresBatch] = []
        /// Batches whose locks pass from one transaction to another.
        var contended: [PostgresBatch] = []
        /// The clocks of the tables that were locked at the probe.
        var lockedTables: Set<String> = []
    }

    private struct Waiting {
        var batch: PostgresBatch
        var locks: Set<ContendedLock>
        /// The uptime at which the batch stops waiting.
        var end: UInt64
    }

    /// The transaction that holds a lock.
    private struct Holder {
        /// The transaction's id; nil if it has locked the whole table.
        var name: String?
        /// The uptime at which a probe first found the transaction.
        var since: UInt64
    }

    private var waiting: [Waiting] = []
    private var nextProbe: UInt64 = 0
    private var lastProbe: UInt64 = 0
    private var holders: [ContendedLock: Holder] = [:]

    /// The time between two probes, in nanoseconds.
    private static let pause: UInt64 = 10_000_000
    /// The time after which a lock that one transaction holds is not contended, in nanoseconds.
    private static let longTime: UInt64 = 100_000_000
    /// The time for which the results of a probe are valid, in nanoseconds.
    private static let probeLifetime: UInt64 = 1_000_000_000
    /// How often a batch may wait within a transaction, during which the writer executes nothing else.
    private static let contendedTriesMax = 2

    var isEmpty: Bool { waiting.isEmpty }

    /// The number of waiting writes.
    var writes: Int { waiting.reduce(0) { $0 + $1.batch.count } }

    /// The uptime of the next probe; nil if no batch waits.
    var due: UInt64? { waiting.isEmpty ? nil : nextProbe }

    /// The locks that batches wait for.
    var locks: Set<ContendedLock> { waiting.reduce(into: []) { $0.formUnion($1.locks) } }

    /// The tables of the waiting writes, by clock name.
    var tables: [String: PostgresTable] {
        waiting.lazy.flatMap(\.batch.allTables).reduce(into: [:]) { $0[$1.clock] = $1 }
    }

    /// Returns whether a batch may again wait for contended locks in a transaction.
    static func mayTryContended(_ batch: PostgresBatch) -> Bool {
        batch.contendedTries < contendedTriesMax
    }

    mutating func add(
        _ batch: PostgresBatch,
        for locks: Set<ContendedLock>,
        now: UInt64,
        until end: UInt64
    ) {
        if waiting.isEmpty { nextProbe = now &+ Self.pause }
        var batch = batch
        batch.waitsUntil = batch.waitsUntil ?? end
        waiting.append(Waiting(batch: batch, locks: locks, end: batch.waitsUntil ?? end))
    }

    /// Removes the batches that are tried next; without a probe, only those whose time limit is reached.
    mutating func take(at now: UInt64, _ probe: LockProbe?) -> Taken {
        nextProbe = now &+ Self.pause
        let changed = note(probe, at: now)
        var (taken, left) = (Taken(), [Waiting]())
        if let probe {
            taken.lockedTables = ContendedLock.tables(of: locks.subtracting(probe.free))
        }
        for var entry in waiting {
            let locked = entry.locks.subtracting(probe?.free ?? [])
            let isOver = entry.end <= now || entry.batch.position.isCancelled
            let isContended =
                probe != nil && Self.mayTryContended(entry.batch)
                && (isOver ? lockedForLong(locked).isEmpty : locked.isSubset(of: changed))
            if locked.isEmpty || isOver && !isContended {
                taken.free.append(entry.batch)
            } else if isContended {
                entry.batch.contendedTries += 1
                taken.contended.append(entry.batch)
            } else {
                left.append(entry)
            }
        }
        waiting = left
        return taken
    }

    /// Removes all batches, whose time limit is reached.
    mutating func takeAll() -> [PostgresBatch] {
        defer { waiting = [] }
        return waiting.map { entry in
            var batch = entry.batch
            batch.waitsUntil = 0
            return batch
        }
    }

    /// Returns the locks that one transaction has held for a long time, as of the last probe.
    func lockedForLong(_ locks: Set<ContendedLock>) -> Set<ContendedLock> {
        locks.filter { lock in
            holders[lock].map { lastProbe &- $0.since >= Self.longTime } ?? false
        }
    }

    /// Records the holders of the locks; returns the locks with a new holder since the last probe.
    private mutating func note(_ probe: LockProbe?, at now: UInt64) -> Set<ContendedLock> {
        if probe == nil || now &- lastProbe > Self.probeLifetime { holders = [:] }
        lastProbe = now
        guard let probe else { return [] }
        var (found, changed) = ([ContendedLock: Holder](), Set<ContendedLock>())
        for lock in locks.subtracting(probe.free) {
            let (before, name) = (holders[lock], probe.holders[lock])
            if let before, before.name == name {
                found[lock] = before
            } else {
                if before != nil { changed.insert(lock) }
                found[lock] = Holder(name: name, since: now)
            }
        }
        holders = found
        return changed
    }
}
