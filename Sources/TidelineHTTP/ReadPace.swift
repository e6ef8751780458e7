// ReadPace: finds slow callers. Pure.
//
//     stalled -> measured* -> sent or disconnected
//
// The pace is measured for as long as the answer waits, so that the pace of each caller is known when memory for
// answers becomes short.

/// The pace at which a caller reads an answer that waits for it.
package struct ReadPace: Sendable {
    package typealias Instant = ContinuousClock.Instant

    /// The time at which the first byte of the response had to wait.
    package let begin: Instant
    /// The time at which the caller last read something.
    package private(set) var idleSince: Instant
    /// Whether the caller read too slowly in the last measurement.
    package private(set) var isSlow = false

    /// The number of bytes that the caller had read at the last check.
    private var taken: Int
    /// The number of bytes read at the start of the current measurement.
    private var measured: (taken: Int, since: Instant)

    /// The duration of a measurement.
    private static let measureTime: Duration = .seconds(2)

    /// The time without reading after which a caller counts as idle.
    ///
    /// It is longer than the delay that a retransmitted packet usually causes.
    private static let idleGrace: Duration = .seconds(1)

    package init(taken: Int, now: Instant) {
        begin = now
        idleSince = now
        self.taken = taken
        measured = (taken, now)
    }

    /// Records the number of bytes that the caller's system has received.
    ///
    /// - Parameters:
    ///   - taken: The number of received bytes of the answer.
    ///   - now: The time of this check.
    ///   - rateMin: The minimum bytes per second.
    package mutating func measure(taken: Int, now: Instant, rateMin: Int) {
        if taken > self.taken { idleSince = now }
        self.taken = taken
        let time = now - measured.since
        guard time >= Self.measureTime else { return }
        isSlow = Double(taken - measured.taken) < Double(rateMin) * (time / .seconds(1))
        measured = (taken, now)
    }

    package func isIdle(now: Instant) -> Bool { now - idleSince >= Self.idleGrace }

    /// Returns whether this caller is disconnected before another one when memory is needed, because its peer is
    /// less likely to read.
    package func hasWaitedLonger(than other: ReadPace) -> Bool {
        (idleSince, begin) < (other.idleSince, other.begin)
    }
}
