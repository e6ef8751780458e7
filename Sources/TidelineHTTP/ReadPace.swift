// ReadPace: measures how fast a caller reads an answer that waits for it. Pure.
//
//     stalls -> look* -> taken whole, or cut
//
// The pace is measured for as long as the answer waits, so that the pace of each caller is known when memory for
// answers becomes short.

package struct ReadPace: Sendable {
    package typealias Instant = ContinuousClock.Instant

    /// When the answer began to wait.
    package let begin: Instant
    /// Since when the caller has read nothing.
    package private(set) var idleSince: Instant
    /// Whether the caller read less than required when its pace was last measured.
    package private(set) var isSlow = false

    /// How much the caller had read when it was last checked.
    private var taken: Int
    /// How much it had read at the start of the current measurement.
    private var measured: (taken: Int, since: Instant)

    /// How long a pace is measured before it counts.
    private static let measureTime: Duration = .seconds(2)

    /// A caller that reads nothing for this long counts as one that does not read.
    ///
    /// Longer than the delay that a lost and retransmitted packet usually causes.
    private static let idleGrace: Duration = .seconds(1)

    package init(taken: Int, now: Instant) {
        begin = now
        idleSince = now
        self.taken = taken
        measured = (taken, now)
    }

    /// Records how much of the answer the caller's system has.
    ///
    /// - Parameters:
    ///   - taken: How many bytes of the answer it has.
    ///   - now: The time of this check.
    ///   - rateMin: The bytes per second that it should read.
    package mutating func look(taken: Int, now: Instant, rateMin: Int) {
        if taken > self.taken { idleSince = now }
        self.taken = taken
        let time = now - measured.since
        guard time >= Self.measureTime else { return }
        isSlow = Double(taken - measured.taken) < Double(rateMin) * (time / .seconds(1))
        measured = (taken, now)
    }

    package func isIdle(now: Instant) -> Bool { now - idleSince >= Self.idleGrace }

    /// Whether this caller is disconnected before the other one when memory is needed, because its peer is less
    /// likely to read.
    package func hasWaitedLonger(than other: ReadPace) -> Bool {
        (idleSince, begin) < (other.idleSince, other.begin)
    }
}
