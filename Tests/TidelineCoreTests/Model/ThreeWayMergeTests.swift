// ThreeWayMergeTests: which side determines a column, and which columns are in conflict.

import Testing
import TidelineCore

@Suite struct ThreeWayMergeTests {
    private func merge(
        _ mine: [Int?],
        _ base: [Int?],
        _ theirs: [Int],
        resolve: (Int, Int?, Int, Int) -> Int? = { _, _, _, _ in nil }
    ) -> ThreeWayMerge.Outcome<Int> {
        ThreeWayMerge.merge(
            mine: mine,
            base: base,
            theirs: theirs,
            isSame: { _, one, two in one == two },
            resolve: resolve
        )
    }

    @Test("A column gets the value of the side that changed it") func whoChangedAColumnHasIt() {
        let outcome = merge([1, 2, 1, 2, nil], [1, 1, 1, 1, 1], [1, 1, 3, 2, 3])
        #expect(outcome.changes == [nil, 2, nil, nil, nil])
        #expect(outcome.contested.isEmpty)
    }

    @Test("A column that both sides changed differently is contested")
    func aColumnOfBothIsContested() {
        let outcome = merge([2, 2], [1, 1], [3, 1])
        #expect(outcome.changes == [nil, 2])
        #expect(outcome.contested == [0])
    }

    @Test("A column without a base value is contested if both sides differ")
    func withoutABaseWhatDiffersIsContested() {
        let outcome = merge([2, 3], [nil], [3, 3])
        #expect(outcome.changes == [nil, nil])
        #expect(outcome.contested == [0])
    }

    @Test("A column that the resolver resolves is not contested")
    func whatIsSettledIsNotContested() {
        let outcome = merge([2, 5, 7], [1, nil, 1], [3, 4, 8]) { place, base, mine, theirs in
            place == 2 ? theirs : (base ?? 100) + mine + theirs
        }
        #expect(outcome.changes == [6, 109, nil])
        #expect(outcome.contested.isEmpty)
    }

    /// A write may have fewer columns than the row.
    @Test("A column that is missing in a write does not change")
    func whatOneSideDoesNotHaveStays() {
        #expect(merge([2], [1, 1], [1, 1]).changes == [2, nil])
    }
}
