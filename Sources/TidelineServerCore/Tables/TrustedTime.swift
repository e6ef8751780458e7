// TrustedTime: decides whether the wall clock may be believed before rows are removed for their age.
//
// A removal cannot be undone, and a wall clock can be wrong by years for a few seconds. So one reading
// of it removes nothing: the reading has to lie near the time that the database remembers, or the wall
// clock has to have run along with the steady clock of this process for an hour.

/// A state machine over readings of the wall clock, the steady clock, and the database's memory.
///
/// Pure: readings come in, and the record that the database stores goes out.
package struct TrustedTime: Sendable {
    /// Two clocks, read at the same moment, in microseconds.
    package struct Reading: Hashable, Sendable {
        /// Microseconds since 1970.
        package var wall: Int64
        /// Microseconds since some moment; it never jumps.
        package var steady: Int64

        package init(wall: Int64, steady: Int64) {
            self.wall = wall
            self.steady = steady
        }
    }

    /// The stored time record of a database.
    package struct Memory: Hashable, Sendable {
        /// The last time that was trusted.
        package var time: Int64
        /// The latest time that ever was trusted.
        package var latest: Int64
        /// Whether the wall clock agreed with a steady clock for an hour.
        package var isProven: Bool
        /// Rows and entries from before this time count as received at this time: the wall clock that
        /// dated them was behind, or may have been.
        package var agesFrom: Int64

        package init(time: Int64, latest: Int64, isProven: Bool, agesFrom: Int64) {
            self.time = time
            self.latest = latest
            self.isProven = isProven
            self.agesFrom = agesFrom
        }

        /// The value of the key `time` of a database's state.
        package var text: String { "\(time) \(latest) \(isProven ? 1 : 0) \(agesFrom)" }

        /// Nil if the text is not one of ``text``.
        package init?(text: String) {
            let parts = text.split(separator: " ").map { Int64($0) }
            guard parts.count == 4, let time = parts[0], let latest = parts[1],
                let proven = parts[2], let from = parts[3]
            else { return nil }
            self.init(time: time, latest: latest, isProven: proven != 0, agesFrom: from)
        }
    }

    /// The result of a reading.
    package enum Finding: Hashable, Sendable {
        /// The time counts; `memory` is to be stored unless it is nil.
        case trusted(RemovalTime, memory: Memory?)
        /// Nothing is removed for its age; the wall clock is so far ahead, or behind if it is negative.
        case doubted(ahead: Int64, memory: Memory?)
    }

    /// The key of the memory in the state of a database.
    package static let key = "time"

    /// How far the wall clock may be from the time that is expected: as long as a server may be
    /// stopped, and as early as a wrong clock may remove something.
    package static let nearness: Int64 = 86_400_000_000

    /// How long the wall clock has to run along with the steady clock where it is not near.
    package static let proof: Int64 = 3_600_000_000

    /// How far both may drift apart in that time.
    package static let drift: Int64 = 60_000_000

    /// The least change of the time that is worth a write.
    private static let pause: Int64 = 60_000_000

    /// Since when the wall clock runs along with the steady clock.
    private var run: Reading?
    /// The last time from the memory, and the steady clock at that moment.
    private var last: (time: Int64, steady: Int64)?

    package init() {}

    /// Takes a reading.
    ///
    /// - Parameters:
    ///   - reading: Both clocks.
    ///   - memory: The time record of the database; nil in a database without one.
    ///   - newest: The newest commit timestamp from before this process wrote; it replaces the memory
    ///     if there is none.
    /// - Returns: The result of the reading.
    package mutating func take(
        _ reading: Reading,
        memory: Memory?,
        newest: Int64? = nil
    ) -> Finding {
        let isSteady = hasRun(reading)
        let known =
            memory
            ?? Memory(
                time: newest ?? reading.wall,
                latest: newest ?? reading.wall,
                isProven: false,
                agesFrom: 0
            )
        let ahead = Self.difference(reading.wall, expected(known, reading))
        var next = known
        next.time = reading.wall
        next.latest = max(known.latest, reading.wall)
        next.isProven = known.isProven || isSteady
        if ahead > Self.nearness {
            guard isSteady else {
                return .doubted(ahead: ahead, memory: memory == nil ? known : nil)
            }
            // A server that was stopped looks the same as one whose clock was behind, unless it ran for
            // an hour before.
            if !known.isProven || known.latest > known.time { next.agesFrom = reading.wall }
        } else if ahead < -Self.nearness {
            guard isSteady || !known.isProven else {
                return .doubted(ahead: ahead, memory: memory == nil ? known : nil)
            }
            // What was believed lately is doubtful as well: the way back up needs a proof.
            next.isProven = isSteady
        }
        let isSame = memory.map { old in
            old.isProven == next.isProven && old.agesFrom == next.agesFrom
                && abs(Self.difference(old.time, next.time)) < Self.pause
        }
        let stored = isSame ?? false ? known : next
        last = (stored.time, reading.steady - max(0, Self.difference(reading.wall, stored.time)))
        let time = RemovalTime(
            now: reading.wall,
            agesFrom: stored.agesFrom,
            isProven: stored.isProven
        )
        return .trusted(time, memory: stored == memory ? nil : stored)
    }

    /// Whether the wall clock has run along with the steady clock for long enough.
    private mutating func hasRun(_ reading: Reading) -> Bool {
        guard let run else {
            self.run = reading
            return false
        }
        let steady = Self.difference(reading.steady, run.steady)
        let wall = Self.difference(reading.wall, run.wall)
        guard abs(Self.difference(wall, steady)) <= Self.drift else {
            self.run = reading
            return false
        }
        return steady >= Self.proof
    }

    /// Returns the time that the wall clock should show.
    private func expected(_ known: Memory, _ reading: Reading) -> Int64 {
        // Another server may have stored another time.
        guard let last, last.time == known.time else { return known.time }
        return known.time &+ max(0, Self.difference(reading.steady, last.steady))
    }

    /// A difference that cannot overflow, for a clock may say anything.
    private static func difference(_ one: Int64, _ other: Int64) -> Int64 {
        let (value, overflow) = one.subtractingReportingOverflow(other)
        guard overflow else { return max(value, -Int64.max) }
        return one > other ? .max : -Int64.max
    }
}

/// A time by which rows may be removed for their age.
package struct RemovalTime: Hashable, Sendable {
    /// Microseconds since 1970.
    package var now: Int64
    /// See ``TrustedTime/Memory/agesFrom``.
    package var agesFrom: Int64
    /// Whether the wall clock agreed with a steady clock for an hour.
    package var isProven: Bool

    package init(now: Int64, agesFrom: Int64 = 0, isProven: Bool = false) {
        self.now = now
        self.agesFrom = agesFrom
        self.isProven = isProven
    }

    /// What was received earlier is older than so many days; nil if nothing is known to be.
    package func end(days: Int) -> Int64? {
        let age = Int64(days).multipliedReportingOverflow(by: 86_400_000_000)
        guard !age.overflow else { return nil }
        let end = now.subtractingReportingOverflow(age.partialValue)
        guard !end.overflow, end.partialValue >= agesFrom else { return nil }
        return end.partialValue
    }
}

/// How table clocks are compared with the wall clock.
package enum ClockAhead {
    /// Table clocks run somewhat ahead while many rows are written in a moment.
    package static let tolerance: Int64 = 60_000_000

    /// How often it is noted how far such a table clock had come, in microseconds.
    package static let notePause: Int64 = 3_600_000_000

    /// The keys of what else is ordered by its receipt: entries of the audit and of the ledger.
    ///
    /// No table can have such a name.
    package static let auditKey = "audit."
    package static let ledgerKey = "ledger."

    /// How many seconds a table clock is ahead, 0 if it is not.
    package static func seconds(_ stamp: Int64, now: Int64) -> Int64 {
        let ahead = stamp.subtractingReportingOverflow(now)
        guard !ahead.overflow, ahead.partialValue > tolerance else { return 0 }
        return ahead.partialValue / 1_000_000
    }

    /// The most tables that a start names.
    private static let reportedMax = 20

    /// Says which table clocks are ahead of the wall clock.
    package static func report(
        _ stamps: [TableStamp],
        now: Int64,
        to log: ServerLog,
        _ metrics: StoreMetrics
    ) {
        let ahead = stamps.map { ($0.table, seconds($0.stamp, now: now)) }.filter { $0.1 > 0 }
        metrics.clockAhead.set(Int(clamping: ahead.map(\.1).max() ?? 0))
        for (table, seconds) in ahead.prefix(reportedMax) {
            log.write(
                .warning,
                """
                the clock of a table is ahead of the wall clock: its rows are dated in the future; \
                see 'tideline reset-clocks'
                """,
                ["table": table, "seconds": "\(seconds)"]
            )
        }
        if ahead.count > reportedMax {
            log.write(
                .warning,
                "more clocks of tables are ahead of the wall clock",
                ["tables": "\(ahead.count - reportedMax)"]
            )
        }
    }
}

/// Keeps a ``TrustedTime`` and reports when it begins and ends to doubt.
package struct TimeKeeper: Sendable {
    private var time = TrustedTime()
    private var isDoubting = false
    private let log: ServerLog
    private let metrics: StoreMetrics

    package init(log: ServerLog, metrics: StoreMetrics) {
        self.log = log
        self.metrics = metrics
    }

    /// Takes a reading; `store` writes what the database is to remember.
    ///
    /// - Returns: The time by which rows may be removed; nil if nothing may be removed now.
    package mutating func take(
        _ reading: TrustedTime.Reading,
        memory: TrustedTime.Memory?,
        newest: Int64? = nil,
        store: (TrustedTime.Memory) throws -> Void
    ) throws -> RemovalTime? {
        switch time.take(reading, memory: memory, newest: newest) {
        case .trusted(let time, let memory):
            if let memory { try store(memory) }
            if isDoubting {
                log.write(.warning, "the wall clock is trusted: old rows are removed again")
            }
            isDoubting = false
            metrics.clockDoubted.set(0)
            return time
        case .doubted(let ahead, let memory):
            if let memory { try store(memory) }
            if !isDoubting {
                log.write(
                    .warning,
                    """
                    the wall clock is doubted: nothing is removed for its age until it is right, or has \
                    run steadily for an hour
                    """,
                    ["aheadSeconds": "\(ahead / 1_000_000)"]
                )
            }
            isDoubting = true
            metrics.clockDoubted.set(1)
            return nil
        }
    }
}
