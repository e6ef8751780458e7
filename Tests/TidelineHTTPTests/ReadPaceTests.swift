// ReadPaceTests: callers that read too slowly, and callers that do not read at all, as scripts of checks.

import Testing
import TidelineHTTP

struct ReadPaceTests {
    private static let start = ContinuousClock.now
    private static let rate = 1000

    /// Returns the pace after checks at intervals of half a second, each with the number of bytes read.
    private static func pace(_ taken: [Int]) -> (pace: ReadPace, now: ContinuousClock.Instant) {
        var pace = ReadPace(taken: 0, now: start)
        var now = start
        for count in taken {
            now += .milliseconds(500)
            pace.measure(taken: count, now: now, rateMin: rate)
        }
        return (pace, now)
    }

    @Test(
        "The read pace detects idle and slow readers",
        arguments: [
            ([], false, false),
            ([0], false, false),
            ([0, 0], true, false),
            ([0, 0, 0, 0], true, true),
            // A byte at times: not idle, but too slow.
            ([1, 2, 3, 4], false, true),
            ([500, 1000, 1500, 2000], false, false),
            // All bytes in one read, and then nothing for a while.
            ([4000, 4000, 4000], true, false),
            ([4000, 4000, 4000, 4000], true, false),
            ([4000, 4000, 4000, 4000, 4000, 4000, 4000, 4000], true, true),
            // A caller that stopped reading and reads again.
            ([0, 0, 0, 2000], false, false),
            ([0, 0, 0, 0, 500, 1000, 1500, 2000], false, false),
        ]
    )
    func verdicts(_ taken: [Int], _ isIdle: Bool, _ isSlow: Bool) {
        let (pace, now) = Self.pace(taken)
        #expect(pace.isIdle(now: now) == isIdle)
        #expect(pace.isSlow == isSlow)
    }

    @Test("The caller that has been idle longest is disconnected first")
    func theCallerThatHasBeenIdleLongestIsDisconnectedFirst() {
        let still = Self.pace([10, 10, 10]).pace
        let reading = Self.pace([10, 20, 30]).pace
        #expect(still.hasWaitedLonger(than: reading) && !reading.hasWaitedLonger(than: still))
        // Of two callers that have been idle since the same check, the one whose response has waited longer.
        var later = ReadPace(taken: 0, now: Self.start + .milliseconds(100))
        later.measure(taken: 10, now: Self.start + .milliseconds(500), rateMin: Self.rate)
        #expect(still.hasWaitedLonger(than: later) && !later.hasWaitedLonger(than: still))
    }
}
