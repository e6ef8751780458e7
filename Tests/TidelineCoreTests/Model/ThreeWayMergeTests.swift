// ThreeWayMergeTests: which side determines a column, and which columns are in conflict.

import Testing
import TidelineCore

@Suite struct ThreeWayMergeTests {
    private func merge(
        _ mine: [Int?],
        _ base: [Int?],
        _ theirs: [Int],
        settle: (Int, Int?, Int, Int) -> Int? = { _, _, _, _ in nil }
    ) -> ThreeWayMerge.Outcome<Int> {
        ThreeWayMerge.merge(
            mine: mine,
            base: base,
            theirs: theirs,
            isSame: { _, one, two in one == two },
            settle: settle
        )
    }

    @Test func whoChangedAColumnHasIt() {
        let outcome = merge([1, 2, 1, 2, nil], [1, 1, 1, 1, 1], [1, 1, 3, 2, 3])
        #expect(outcome.changes == [nil, 2, nil, nil, nil])
        #expect(outcome.contested.isEmpty)
    }

    @Test func aColumnOfBothIsContested() {
        let outcome = merge([2, 2], [1, 1], [3, 1])
        #expect(outcome.changes == [nil, 2])
        #expect(outcome.contested == [0])
    }

    @Test func withoutABaseWhatDiffersIsContested() {
        let outcome = merge([2, 3], [nil], [3, 3])
        #expect(outcome.changes == [nil, nil])
        #expect(outcome.contested == [0])
    }

    @Test func whatIsSettledIsNotContested() {
        let outcome = merge([2, 5, 7], [1, nil, 1], [3, 4, 8]) { place, base, mine, theirs in
            place == 2 ? theirs : (base ?? 100) + mine + theirs
        }
        #expect(outcome.changes == [6, 109, nil])
        #expect(outcome.contested.isEmpty)
    }

    /// A write may have fewer columns than the row.
    @Test func whatOneSideDoesNotHaveStays() {
        #expect(merge([2], [1, 1], [1, 1]).changes == [2, nil])
    }
}
