// The state machine that decides whether to trust the wall clock before anything is removed for its age.

import Testing
import TidelineServerCore

@Suite struct TrustedTimeTests {
    private static let hour: Int64 = 3_600_000_000
    private static let day = 24 * hour
    private static let start: Int64 = 1_800_000_000_000_000

    /// A process that reads both clocks, and the database that stores its state.
    private struct Process {
        var time = TrustedTime()
        var memory: TrustedTime.Memory?

        mutating func read(_ wall: Int64, _ steady: Int64, newest: Int64? = nil) -> RemovalTime? {
            let reading = TrustedTime.Reading(wall: wall, steady: steady)
            switch time.take(reading, memory: memory, newest: newest) {
            case .trusted(let time, let next):
                if let next { memory = next }
                return time
            case .doubted(_, let next):
                if let next { memory = next }
                return nil
            }
        }

        mutating func restart() { time = TrustedTime() }
    }

    @Test("A time near the newest commit is trusted, and a time far from it is not")
    func aTimeNearTheNewestCommitIsTrusted() {
        var process = Process()
        #expect(process.read(Self.start, 0, newest: Self.start - Self.hour) != nil)
        process = Process()
        #expect(process.read(Self.start, 0, newest: Self.start - 2 * Self.day) == nil)
        // A time that was doubted before is not trusted for having been seen.
        #expect(process.read(Self.start + Self.hour / 2, Self.hour / 2) == nil)
        process.restart()
        #expect(process.read(Self.start + Self.hour / 2, 0) == nil)
    }

    @Test("Time that passes on the wall clock and on the steady clock is trusted")
    func timeThatPassesOnBothClocksIsTrusted() {
        var process = Process()
        #expect(process.read(Self.start, 0) != nil)
        #expect(process.read(Self.start + 400 * Self.day, 400 * Self.day) != nil)
    }

    @Test("A jump of the wall clock is trusted after an hour of steady time")
    func anHourProvesATime() {
        var process = Process()
        _ = process.read(Self.start, 0)
        let late = Self.start + 3650 * Self.day
        for minute in stride(from: Int64(1), to: 60, by: 10) {
            #expect(process.read(late + minute * 60_000_000, minute * 60_000_000) == nil)
        }
        let proven = process.read(late + Self.hour + 60_000_000, Self.hour + 60_000_000)
        // Nothing counts as older than this moment, because the clock may have been behind before.
        #expect(proven?.end(days: 1) == nil && proven?.isProven == true)
        let later = process.read(late + Self.hour + 2 * Self.day, Self.hour + 2 * Self.day)
        #expect(later?.end(days: 1) == late + Self.hour + Self.day)
    }

    @Test("A wall clock that jumps repeatedly is never trusted")
    func aClockThatJumpsProvesNothing() {
        var process = Process()
        _ = process.read(Self.start, 0)
        for number in Int64(1)..<20 {
            let wall = Self.start + number * 100 * Self.day
            #expect(process.read(wall, number * Self.hour / 2) == nil)
        }
    }

    @Test("After a first start with a clock ahead, an earlier time is trusted at once")
    func aFirstStartWithAClockAheadIsForgotten() {
        var process = Process()
        _ = process.read(Self.start + 3650 * Self.day, 0)
        process.restart()
        #expect(process.read(Self.start, 0) != nil)
        #expect(process.read(Self.start + 3650 * Self.day, 1_000_000) == nil)
    }

    @Test("A wall clock that is briefly behind does not change the trusted time")
    func aClockThatIsBrieflyBehindChangesNothing() {
        var process = Process()
        _ = process.read(Self.start, 0)
        _ = process.read(Self.start + Self.hour, Self.hour)
        #expect(process.read(Self.start - 3650 * Self.day, Self.hour + 1_000_000) == nil)
        let after = process.read(Self.start + Self.hour + 2_000_000, Self.hour + 2_000_000)
        #expect(after?.end(days: 1) == Self.start + Self.hour + 2_000_000 - Self.day)
    }

    @Test("Extreme times do not overflow") func extremeTimesDoNotOverflow() {
        for wall in [Int64.min, -1, 0, .max] {
            for memory in [Int64.min, 0, .max] {
                var process = Process()
                process.memory = TrustedTime.Memory(
                    time: memory,
                    latest: memory,
                    isProven: true,
                    agesFrom: memory
                )
                for steady in [0, Self.hour, .max] { _ = process.read(wall, steady) }
                _ = process.read(Self.start, 0)
            }
        }
        #expect(RemovalTime(now: .min).end(days: 1) == nil)
        #expect(RemovalTime(now: 0).end(days: .max) == nil)
    }

    @Test("The stored state is parsed from its text, and other texts are rejected")
    func theStateRoundTripsAsText() {
        let memory = TrustedTime.Memory(time: 5, latest: 7, isProven: true, agesFrom: -1)
        #expect(TrustedTime.Memory(text: memory.text) == memory)
        for text in ["", "1 2 3", "a 1 1 1", "1 1 1 1 1"] {
            #expect(TrustedTime.Memory(text: text) == nil)
        }
    }
}
