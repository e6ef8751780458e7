// JobsHeldUp: batches that need tables, rows or clocks which somebody else has.
//
// They wait here, and not in a transaction, for as long as any write waits for a lock. So nobody waits with them:
// the writer goes on with other batches, and looks now and then whether what they need is free. What goes from one
// transaction to the next is busy, and mostly not free at a look: for that they wait in line, for a while, and no
// more than twice: what does not come free to who stands in line is held, whoever has it.

import TidelineServerCore

struct JobsHeldUp {
    /// What may be done now.
    struct Taken {
        /// What they waited for is free, or they have waited for as long as they may.
        var free: [PostgresJob] = []
        /// What they waited for is busy.
        var busy: [PostgresJob] = []
        /// The tables that somebody had at the look, by the names of their clocks.
        var heldTables: Set<String> = []
    }

    private struct Waiting {
        var job: PostgresJob
        var locks: Set<HeldLock>
        /// Until when, by the uptime.
        var end: UInt64
    }

    /// The transaction that was seen with a lock.
    private struct Holder {
        /// Nil if it holds the whole table.
        var name: String?
        /// The uptime.
        var since: UInt64
    }

    private var waiting: [Waiting] = []
    private var nextLook: UInt64 = 0
    private var lastLook: UInt64 = 0
    private var holders: [HeldLock: Holder] = [:]

    /// How often it is looked for what is free, in nanoseconds.
    private static let pause: UInt64 = 10_000_000
    /// Who has a lock for longer than this holds it, in nanoseconds; else it is busy.
    private static let longTime: UInt64 = 100_000_000
    /// What was seen longer ago tells nothing, in nanoseconds.
    private static let seenTime: UInt64 = 1_000_000_000
    /// How often a batch waits in line: the writer does nothing else meanwhile.
    private static let linesMax = 2

    var isEmpty: Bool { waiting.isEmpty }

    /// How many writes wait.
    var writes: Int { waiting.reduce(0) { $0 + $1.job.batch.count } }

    /// When it is to be looked again; nil when nothing waits.
    var due: UInt64? { waiting.isEmpty ? nil : nextLook }

    /// What batches wait for.
    var locks: Set<HeldLock> { waiting.reduce(into: []) { $0.formUnion($1.locks) } }

    /// The tables of their writes, by the names of the clocks.
    var tables: [String: PostgresTable] {
        waiting.lazy.flatMap(\.job.groups).joined()
            .reduce(into: [:]) { $0[$1.table.clock] = $1.table }
    }

    /// Whether a batch may wait in line once more.
    static func mayLineUp(_ job: PostgresJob) -> Bool { job.linesUp < linesMax }

    mutating func add(_ job: PostgresJob, for locks: Set<HeldLock>, now: UInt64, until end: UInt64)
    {
        if waiting.isEmpty { nextLook = now &+ Self.pause }
        var job = job
        job.waitsUntil = job.waitsUntil ?? end
        waiting.append(Waiting(job: job, locks: locks, end: job.waitsUntil ?? end))
    }

    /// Takes out what may be done now; without a look, only what has waited for as long as it may.
    mutating func take(at now: UInt64, _ look: HeldLook?) -> Taken {
        nextLook = now &+ Self.pause
        let changed = note(look, at: now)
        var (taken, left) = (Taken(), [Waiting]())
        if let look { taken.heldTables = HeldLock.tables(of: locks.subtracting(look.free)) }
        for var entry in waiting {
            let others = entry.locks.subtracting(look?.free ?? [])
            let isOver = entry.end <= now || entry.job.place.isLeft
            let isBusy =
                look != nil && Self.mayLineUp(entry.job)
                && (isOver ? heldForLong(others).isEmpty : others.isSubset(of: changed))
            if others.isEmpty || isOver && !isBusy {
                taken.free.append(entry.job)
            } else if isBusy {
                entry.job.linesUp += 1
                taken.busy.append(entry.job)
            } else {
                left.append(entry)
            }
        }
        waiting = left
        return taken
    }

    /// Takes out all of them: they wait no longer.
    mutating func takeAll() -> [PostgresJob] {
        defer { waiting = [] }
        return waiting.map { entry in
            var job = entry.job
            job.waitsUntil = 0
            return job
        }
    }

    /// Those of these locks that the same transaction had for long, at the last look.
    func heldForLong(_ locks: Set<HeldLock>) -> Set<HeldLock> {
        locks.filter { lock in
            holders[lock].map { lastLook &- $0.since >= Self.longTime } ?? false
        }
    }

    /// Notes who has what; returns what another transaction has than at the look before.
    private mutating func note(_ look: HeldLook?, at now: UInt64) -> Set<HeldLock> {
        if look == nil || now &- lastLook > Self.seenTime { holders = [:] }
        lastLook = now
        guard let look else { return [] }
        var (found, changed) = ([HeldLock: Holder](), Set<HeldLock>())
        for lock in locks.subtracting(look.free) {
            let (before, name) = (holders[lock], look.holders[lock])
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
