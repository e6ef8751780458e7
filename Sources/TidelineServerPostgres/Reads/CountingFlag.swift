// CountingFlag: while the time is recent, a reader can continue its list by these counts.
//
// Writers read the flag while they hold the lock of the clock, so it is set under that lock, which another transaction
// may hold for long. A flag is valid for a day, so a reader rarely has to set it.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A time in a table's clock that makes the servers count the rows that leave each millisecond.
struct CountingFlag: Sendable {
    /// The name of the table's clock.
    private let clock: String
    /// Returns the time in microseconds since 1970; nil for the time of the database.
    private let now: (@Sendable () -> Int64)?

    /// The age in microseconds below which the flag is not set again.
    static let youngTime: Int64 = 3_600_000_000
    /// The age below which a failure to set the flag is ignored, because enough time is left for a list that is being
    /// read.
    static let oldTime = PostgresClock.countedTime / 2
    /// How long a reader waits for the lock of the clock, in milliseconds; its thread is blocked in the meantime.
    private static let wait = 100
    /// How often a reader tries; other readers run in between.
    static let tries = 3

    init(_ clock: String, _ now: (@Sendable () -> Int64)?) {
        self.clock = clock
        self.now = now
    }

    /// Returns the age of the flag in microseconds; nil if there is none.
    func age(_ read: PostgresRead) throws -> Int64? {
        let found = try read.one(readCounted)
        let counted = found.integer(0, 0)
        return counted > 0 ? (now?() ?? found.integer(0, 1)) - counted : nil
    }

    /// Sets the flag to the current time.
    ///
    /// - Returns: False if another transaction does not release the lock in time, or in a deadlock.
    func put(_ read: PostgresRead) throws -> Bool {
        try read.check()
        do {
            let now = try now?() ?? read.connection.run(PostgresClock.now).integer(0, 0)
            _ = try read.connection.pipeline([
                read.times, WriteStatements.lockTimeout(Self.wait), markCounted(now),
            ])
            return true
        } catch let error as PostgresError where error.isLockTimeout || error.isTransient {
            return false
        } catch let error as PostgresError where !error.isConnectionLost && !error.isCanceled {
            throw PostgresRejection.ofWrite(error)
        }
    }

    /// Reads the flag and the current time, both in microseconds.
    private var readCounted: PostgresStatement {
        PostgresStatement(
            """
            SELECT coalesce((SELECT "counted" FROM tideline.clocks WHERE "table" = $1), 0),
                \(PostgresClock.microseconds)
            """,
            values: [.text(clock)]
        ).prepared
    }

    private func markCounted(_ now: Int64) -> PostgresStatement {
        PostgresStatement(
            """
            UPDATE tideline.clocks SET "counted" = greatest("counted", $2::bigint)
            WHERE "table" = $1
            """,
            values: [.text(clock), .integer(now)]
        ).prepared
    }
}

/// The times at which this server last found counted times in table clocks, by clock name.
struct CountedClocks {
    private var times: [String: UInt64] = [:]

    /// The time for which that is remembered, in nanoseconds; far less than the validity of a flag.
    private static let time: UInt64 = 3_600_000_000_000
    /// The maximum number of remembered clocks; the flags of other clocks are read again.
    private static let clocksMax = 10_000

    func isKnown(_ clock: String, at time: UInt64) -> Bool {
        times[clock].map { time - $0 < Self.time } ?? false
    }

    mutating func take(_ clock: String, at time: UInt64) {
        if times.count >= Self.clocksMax { times = [:] }
        times[clock] = time
    }
}
