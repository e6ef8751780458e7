// ThreeWayMerge: merges of rows, for client and server.
//
// Pure, column by column. If only one side changed a column, the changed value wins. If both sides
// changed a column to different values, the column is contested. Two changes to the same value
// agree, unless the changes are to be added up.

/// The merge of a row that two sides changed, column by column.
package enum ThreeWayMerge {
    /// The result of merging two sides.
    package struct Outcome<Value> {
        /// The values by position; nil if the other side's value is kept.
        package var changes: [Value?]
        /// The positions that both sides changed to different values and that `resolve` did not
        /// resolve.
        package var contested: [Int]
    }

    /// Merges two sides of a row.
    ///
    /// - Parameters:
    ///   - mine: The values of one side, by position; nil for positions that this side did not
    ///     change.
    ///   - base: The values before the change; nil for unknown values.
    ///   - theirs: The values of the other side, to which the changes of `mine` are applied.
    ///   - isSame: Returns whether two values at a position are equal.
    ///   - addsUp: Returns whether `resolve` is also called for a position that both sides changed
    ///     to the same value.
    ///   - resolve: Returns the value of a contested position; nil leaves the position contested.
    /// - Returns: The values to apply to the other side, and the contested positions.
    package static func merge<Value>(
        mine: [Value?],
        base: [Value?],
        theirs: [Value],
        isSame: (_ place: Int, _ one: Value, _ two: Value) -> Bool,
        addsUp: (_ place: Int) -> Bool = { _ in false },
        resolve: (_ place: Int, _ base: Value?, _ mine: Value, _ theirs: Value) -> Value? = {
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
                    let sum = resolve(place, begun, wanted, other), !isSame(place, sum, other)
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
            guard let resolved = resolve(place, begun, wanted, other) else {
                outcome.contested.append(place)
                continue
            }
            if !isSame(place, resolved, other) { outcome.changes[place] = resolved }
        }
        return outcome
    }
}
