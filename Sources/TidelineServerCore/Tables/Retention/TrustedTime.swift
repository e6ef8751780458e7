// TrustedTime: decides whether the wall clock can be trusted before expired rows are removed.
//
// A removal cannot be undone, and a wall clock can be wrong by years for a few seconds. So a single reading removes
// nothing: it has to be near the time that the database has stored, or the wall clock must have agreed with the
// steady clock of this process for an hour.

/// A state machine that decides whether the wall clock can be trusted.
///
/// Its inputs are readings of the wall clock and a steady clock, and the time record of the database; its
/// output is the time record to store.
package struct TrustedTime: Sendable {
    /// The wall clock and the steady clock at the same time, in microseconds.
    package struct Reading: Hashable, Sendable {
        /// The wall clock, in microseconds since 1970.
        package var wall: Int64
        /// The steady clock, in microseconds since an arbitrary moment; it never jumps.
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
        /// The latest time that was ever trusted.
        package var latest: Int64
        /// Whether the wall clock agreed with a steady clock for an hour.
        package var isProven: Bool
        /// The time at which older rows and entries count as received.
        ///
        /// The wall clock that dated them was behind, or may have been.
        package var agesFrom: Int64

        package init(time: Int64, latest: Int64, isProven: Bool, agesFrom: Int64) {
            self.time = time
            self.latest = latest
            self.isProven = isProven
            self.agesFrom = agesFrom
        }

        /// The value of the key `time` of a database's state.
        package var text: String { "\(time) \(latest) \(isProven ? 1 : 0) \(agesFrom)" }

        /// Parses a stored ``text``; nil if it is invalid.
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
        /// The wall clock is trusted; `memory` is the record to store, or nil if it has not changed.
        case trusted(RemovalTime, memory: Memory?)
        /// No expired row is removed; the wall clock is `ahead` by this much, or behind if the value is
        /// negative.
        case doubted(ahead: Int64, memory: Memory?)
    }

    /// The key of the time record in a database's state.
    package static let key = "time"

    /// The largest accepted distance of the wall clock from the expected time.
    ///
    /// It limits how long a server may be stopped, and how early a wrong clock may remove something.
    package static let nearness: Int64 = 86_400_000_000

    /// How long the wall clock has to agree with the steady clock if it is not near the expected time.
    package static let proof: Int64 = 3_600_000_000

    /// The largest accepted drift between both clocks in that time.
    package static let drift: Int64 = 60_000_000

    /// The smallest change of the time that is stored.
    private static let pause: Int64 = 60_000_000

    /// The reading since which the wall clock agrees with the steady clock.
    private var run: Reading?
    /// The last stored time, and the steady clock when it was stored.
    private var last: (time: Int64, steady: Int64)?

    package init() {}

    /// Evaluates a reading.
    ///
    /// - Parameters:
    ///   - reading: Both clocks.
    ///   - memory: The time record of the database; nil in a database without one.
    ///   - newest: The newest commit timestamp from before this process wrote; it is used if there is no
    ///     memory.
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
            // A server that was stopped looks the same as one whose clock was behind, unless it had run for an hour
            // before.
            if !known.isProven || known.latest > known.time { next.agesFrom = reading.wall }
        } else if ahead < -Self.nearness {
            guard isSteady || !known.isProven else {
                return .doubted(ahead: ahead, memory: memory == nil ? known : nil)
            }
            // The time that was trusted lately is doubtful as well, so returning to it needs a proof.
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

    /// Whether the wall clock has agreed with the steady clock for long enough.
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

    /// Returns a difference, limited so that it does not overflow, because a clock may have any value.
    private static func difference(_ one: Int64, _ other: Int64) -> Int64 {
        let (value, overflow) = one.subtractingReportingOverflow(other)
        guard overflow else { return max(value, -Int64.max) }
        return one > other ? .max : -Int64.max
    }
}

/// A time that determines which rows have expired.
package struct RemovalTime: Hashable, Sendable {
    /// The current time, in microseconds since 1970.
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

    /// Returns the time before which rows are older than this many days; nil if that is not known of any row.
    package func end(days: Int) -> Int64? {
        let age = Int64(days).multipliedReportingOverflow(by: 86_400_000_000)
        guard !age.overflow else { return nil }
        let end = now.subtractingReportingOverflow(age.partialValue)
        guard !end.overflow, end.partialValue >= agesFrom else { return nil }
        return end.partialValue
    }
}

/// The comparison of table clocks with the wall clock.
package enum ClockAhead {
    /// The difference that is not reported, because a table clock runs ahead while many rows are written at
    /// once.
    package static let tolerance: Int64 = 60_000_000

    /// How often the difference of a table clock that is ahead is stored, in microseconds.
    package static let notePause: Int64 = 3_600_000_000

    /// The keys of the clocks that order entries of the audit log and of the ledger.
    ///
    /// These are not valid names of tables.
    package static let auditKey = "audit."
    package static let ledgerKey = "ledger."

    /// Returns how many seconds a table clock is ahead; 0 if it is not.
    package static func seconds(_ timestamp: Int64, now: Int64) -> Int64 {
        let ahead = timestamp.subtractingReportingOverflow(now)
        guard !ahead.overflow, ahead.partialValue > tolerance else { return 0 }
        return ahead.partialValue / 1_000_000
    }

    /// The maximum number of tables that the log lists at startup.
    private static let reportedMax = 20

    /// Logs the table clocks that are ahead of the wall clock.
    package static func report(
        _ timestamps: [TableTimestamp],
        now: Int64,
        to log: ServerLog,
        _ metrics: StoreMetrics
    ) {
        let ahead = timestamps.map { ($0.table, seconds($0.timestamp, now: now)) }.filter {
            $0.1 > 0
        }
        metrics.clockAhead.set(Int(clamping: ahead.map(\.1).max() ?? 0))
        for (table, seconds) in ahead.prefix(reportedMax) {
            log.write(
                .warning,
                """
                a table clock is ahead of the wall clock, so its rows have times in the future; see \
                'tideline reset-clocks'
                """,
                ["table": table, "seconds": "\(seconds)"]
            )
        }
        if ahead.count > reportedMax {
            log.write(
                .warning,
                "more table clocks are ahead of the wall clock",
                ["tables": "\(ahead.count - reportedMax)"]
            )
        }
    }
}
