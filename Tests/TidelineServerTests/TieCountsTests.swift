// TieCountsTests: what has left a millisecond, in every order of lists, writes and commits.

import Testing
import TidelineServerSQLite

@Suite struct TieCountsTests {
    private static let time: Int64 = 1_800_000_000_000_000
    private static let millisecond = time / 1000

    @Test func countsWhatLeavesAfterAList() {
        let ties = TieCounts()
        ties.rowLeaves(Self.time)
        ties.settle()
        ties.watch(Self.time + 999, since: ties.mark())
        #expect(ties.left(Self.millisecond) == 0)
        ties.rowLeaves(Self.time + 25)
        ties.rowLeaves(Self.time + 1000)
        ties.rowLeaves(Self.time - 1)
        #expect(ties.left(Self.millisecond) == 1)
        ties.settle()
        #expect(ties.left(Self.millisecond) == 1)
    }

    /// A write that was said before the mark may be committed behind the state that the list read.
    @Test func countsWhatWasNotCommittedAtTheMark() {
        let ties = TieCounts()
        ties.rowLeaves(Self.time)
        let mark = ties.mark()
        ties.rowLeaves(Self.time)
        ties.settle()
        ties.watch(Self.time, since: mark)
        #expect(ties.left(Self.millisecond) == 2)
    }

    @Test func aSecondListCountsNothingTwice() {
        let ties = TieCounts()
        let mark = ties.mark()
        ties.rowLeaves(Self.time)
        ties.settle()
        for _ in 0..<3 { ties.watch(Self.time, since: mark) }
        #expect(ties.left(Self.millisecond) == 1)
    }

    /// What is not remembered any more is taken for as many rows as a millisecond can have.
    @Test func aMarkOfLongAgoCountsAll() {
        for (others, left) in [(0, 1), (4095, 1), (4096, 40), (20_000, 40)] {
            let ties = TieCounts()
            let mark = ties.mark()
            ties.rowLeaves(Self.time)
            for number in 0..<others { ties.rowLeaves(Self.time + 1000 * Int64(number + 1)) }
            ties.settle()
            ties.watch(Self.time, since: mark)
            #expect(ties.left(Self.millisecond) == left, "\(others) others")
        }
    }

    @Test func theOldestIsForgotten() {
        let ties = TieCounts()
        for number in 0..<5000 {
            ties.watch(Self.time + 1000 * Int64(number), since: ties.mark())
        }
        for number in [0, 903, 904, 4999] { ties.rowLeaves(Self.time + 1000 * Int64(number)) }
        ties.settle()
        let left = [0, 903, 904, 4999].map { ties.left(Self.millisecond + Int64($0)) }
        #expect(left == [0, 0, 1, 1])
        // And it can come back.
        ties.watch(Self.time, since: ties.mark())
        ties.rowLeaves(Self.time)
        #expect(ties.left(Self.millisecond) == 1)
    }
}
