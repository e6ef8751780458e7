// JobsHeldUp: batches that need clocks of owners which somebody else has.
//
// They wait here, and not in a transaction, for as long as any write waits for a lock. So nobody waits with them:
// the writer goes on with the batches of other owners, and looks now and then whether the clocks are free.

import TidelineServerCore

struct JobsHeldUp {
    private struct Waiting {
        var job: PostgresJob
        var clocks: Set<ClockKey>
        /// When a transaction first lacked one of them, by the uptime.
        var end: UInt64
    }

    private var waiting: [Waiting] = []
    private var nextLook: UInt64 = 0

    /// How often it is looked for free clocks, in nanoseconds.
    private static let pause: UInt64 = 10_000_000

    var isEmpty: Bool { waiting.isEmpty }

    /// How many writes wait.
    var writes: Int { waiting.reduce(0) { $0 + $1.job.batch.count } }

    /// When it is to be looked again; nil when nothing waits.
    var due: UInt64? { waiting.isEmpty ? nil : nextLook }

    /// The clocks that batches wait for.
    var clocks: Set<ClockKey> { waiting.reduce(into: []) { $0.formUnion($1.clocks) } }

    mutating func add(_ job: PostgresJob, for clocks: Set<ClockKey>, now: UInt64, until end: UInt64)
    {
        if waiting.isEmpty { nextLook = now &+ Self.pause }
        var job = job
        job.waitsUntil = job.waitsUntil ?? end
        waiting.append(Waiting(job: job, clocks: clocks, end: job.waitsUntil ?? end))
    }

    /// Takes out what may be done now, and what has waited for as long as it may.
    mutating func take(at now: UInt64, free: Set<ClockKey>) -> [PostgresJob] {
        nextLook = now &+ Self.pause
        func isReady(_ entry: Waiting) -> Bool {
            entry.end <= now || entry.clocks.isSubset(of: free) || entry.job.place.isLeft
        }
        let ready = waiting.filter(isReady)
        waiting.removeAll(where: isReady)
        return ready.map(\.job)
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
}
