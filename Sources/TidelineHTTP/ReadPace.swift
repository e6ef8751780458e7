// ReadPace: how a caller takes an answer that waits for it: too slowly, or not at all. Pure.
//
//     stalls -> look* -> taken whole, or cut
//
// It is looked at again and again for as long as the answer waits, so that it is known how every
// caller reads at the moment when memory for answers becomes short.

package struct ReadPace: Sendable {
    package typealias Instant = ContinuousClock.Instant

    /// When the answer began to wait.
    package let begin: Instant
    /// Since when the caller has taken nothing.
    package private(set) var idleSince: Instant
    /// Whether the caller took less than it has to when that was last measured.
    package private(set) var isSlow = false

    /// How much the caller had taken when it was last looked at.
    private var taken: Int
    /// How much it had taken at the moment since when its pace is measured.
    private var measured: (taken: Int, since: Instant)

    /// How long a pace is measured before it counts.
    private static let measureTime: Duration = .seconds(2)

    /// Who takes nothing for so long is taken for somebody who does not read.
    ///
    /// Longer than a usual packet that is lost, and sent again, holds up an answer.
    private static let idleGrace: Duration = .seconds(1)

    package init(taken: Int, now: Instant) {
        begin = now
        idleSince = now
        self.taken = taken
        measured = (taken, now)
    }

    /// Takes note of how much of the answer the caller's system has.
    ///
    /// - Parameters:
    ///   - taken: How many bytes, since the answer began.
    ///   - now: The time of this look.
    ///   - rateMin: The bytes per second that it should take.
    package mutating func look(taken: Int, now: Instant, rateMin: Int) {
        if taken > self.taken { idleSince = now }
        self.taken = taken
        let time = now - measured.since
        guard time >= Self.measureTime else { return }
        isSlow = Double(taken - measured.taken) < Double(rateMin) * (time / .seconds(1))
        measured = (taken, now)
    }

    package func isIdle(now: Instant) -> Bool { now - idleSince >= Self.idleGrace }

    /// Whether it goes before the other when somebody wants its room: nobody is likely to read there.
    package func hasWaitedLonger(than other: ReadPace) -> Bool {
        (idleSince, begin) < (other.idleSince, other.begin)
    }
}
