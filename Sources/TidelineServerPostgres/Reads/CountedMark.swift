// CountedMark: the mark of a clock that a reader goes on by counting the rows of its milliseconds, so that all
// servers count what leaves one.
//
// Those who write look at it under the lock of the clock, so it is put under that lock, which somebody may have
// for long. It holds for a day: mostly it is enough to look.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

struct CountedMark: Sendable {
    private let clock: ClockKey
    /// Microseconds since 1970; nil for the time of the database.
    private let now: (@Sendable () -> Int64)?

    /// Below this age it need not be put again, in microseconds.
    static let youngTime: Int64 = 3_600_000_000
    /// Below this one it need not be where it cannot: there is as long left for who pages.
    static let oldTime = PostgresClock.countedTime / 2
    /// How long a reader waits for the clock, in milliseconds: others wait for his thread.
    private static let wait = 100
    /// How often he does so; other readers come between.
    static let tries = 3

    init(_ clock: ClockKey, _ now: (@Sendable () -> Int64)?) {
        self.clock = clock
        self.now = now
    }

    /// How long ago it was put, in microseconds; nil where it was not.
    func age(_ read: PostgresRead) throws -> Int64? {
        let found = try read.one(PostgresStatement(OwnerClocks.readCounted(clock)))
        let counted = found.integer(0, 0)
        return counted > 0 ? (now?() ?? found.integer(0, 1)) - counted : nil
    }

    /// Puts it; false where somebody has the clock for longer, or has it in a circle of waits.
    func put(_ read: PostgresRead) throws -> Bool {
        try read.check()
        do {
            let now = try now?() ?? read.connection.run(PostgresClock.now).integer(0, 0)
            var statements = [read.times, WriteStatements.lockTimeout(Self.wait)]
            if clock.owner != nil { statements.append(NamedOwnerClocks.make([clock])) }
            statements.append(PostgresStatement(OwnerClocks.markCounted(clock, now)))
            _ = try read.connection.pipeline(statements)
            return true
        } catch let error as PostgresError where error.isLockTimeout || error.isTransient {
            return false
        } catch let error as PostgresError where !error.isConnectionLost && !error.isCanceled {
            throw PostgresRefusal.ofWrite(error)
        }
    }
}

/// When this server found last that clocks have the mark.
struct CountedClocks {
    /// With another form a table may have other clocks, which know nothing of it.
    struct Key: Hashable {
        let clock: ClockKey
        let form: Int64?
    }

    private var times: [Key: UInt64] = [:]

    /// How long it is remembered, in nanoseconds; far less than it holds.
    private static let time: UInt64 = 3_600_000_000_000
    /// More clocks than these are not remembered: what is forgotten is looked for again.
    private static let clocksMax = 10_000

    func isKnown(_ clock: Key, at time: UInt64) -> Bool {
        times[clock].map { time - $0 < Self.time } ?? false
    }

    mutating func take(_ clock: Key, at time: UInt64) {
        if times.count >= Self.clocksMax { times = [:] }
        times[clock] = time
    }
}
