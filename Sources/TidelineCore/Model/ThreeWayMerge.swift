// ThreeWayMerge: what becomes of a row that two sides changed. Server and client merge by it.
//
// Pure, column by column: who changed a column has it; a column that both changed, to different
// values, is contested. Two changes to the same value agree, unless their sum is asked for.

package enum ThreeWayMerge {
    /// What comes of two sides.
    package struct Outcome<Value> {
        /// Values by place; nil for what stays as it is in theirs.
        package var changes: [Value?]
        /// The places that both sides changed, to different values, and nothing settled.
        package var contested: [Int]
    }

    /// Joins two sides of a row.
    ///
    /// - Parameters:
    ///   - mine: The values of one side, by place; nil for what it does not touch.
    ///   - base: Those that it began at; nil for what is not known.
    ///   - theirs: Those of the other side, which the changes are put over.
    ///   - isSame: Whether two values of a place are one.
    ///   - addsUp: Whether a place that both sides changed to the same value is settled, too.
    ///   - settle: The value of a contested place; nil leaves it contested.
    /// - Returns: What is put over the other side, and what is contested.
    package static func merge<Value>(
        mine: [Value?],
        base: [Value?],
        theirs: [Value],
        isSame: (_ place: Int, _ one: Value, _ two: Value) -> Bool,
        addsUp: (_ place: Int) -> Bool = { _ in false },
        settle: (_ place: Int, _ base: Value?, _ mine: Value, _ theirs: Value) -> Value? = {
            _,
            _,
            _,
            _ in nil
        }
    ) -> Outcome<Value> {
        let unchanged = [Value?](repeating: nil, count: theirs.count)
        var outcome = Outcome(changes: unchanged, contested: [])
        for (place, other) in theirs.enumerated() where place < mine.count {
            guard let wanted = mine[place] else { continue }
            let begun = place < base.count ? base[place] : nil
            if isSame(place, wanted, other) {
                guard addsUp(place), let begun, !isSame(place, wanted, begun),
                    let sum = settle(place, begun, wanted, other), !isSame(place, sum, other)
                else { continue }
                outcome.changes[place] = sum
                continue
            }
            if let begun {
                if isSame(place, wanted, begun) { continue }
                if isSame(place, other, begun) {
                    outcome.changes[place] = wanted
                    continue
                }
            }
            guard let settled = settle(place, begun, wanted, other) else {
                outcome.contested.append(place)
                continue
            }
            if !isSame(place, settled, other) { outcome.changes[place] = settled }
        }
        return outcome
    }
}
