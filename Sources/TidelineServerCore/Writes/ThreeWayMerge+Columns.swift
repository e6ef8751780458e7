// ThreeWayMerge+Columns: merges a write with a stored row that another device has changed since.

package import TidelineCore

extension ThreeWayMerge {
    /// Returns the values that a write stores in the row.
    ///
    /// - Parameters:
    ///   - mine: The values of the write, by column; nil for columns that it does not set.
    ///   - base: The values of the base row; nil for a value that is not known.
    ///   - theirs: The values of the stored row.
    ///   - columns: The columns of all three.
    /// - Returns: Values by column, nil for columns that keep the stored value; nil for a conflict.
    package static func changes(
        mine: [SQLValue?],
        base: [SQLValue?],
        theirs: [SQLValue],
        columns: [ColumnDefinition]
    ) -> [SQLValue?]? {
        let outcome = merge(
            mine: mine,
            base: base,
            theirs: theirs,
            isSame: { place, one, two in columns[place].type.isSame(one, two) },
            resolve: { place, base, mine, theirs in
                columns[place].type.merged(base: base, mine: mine, theirs: theirs)
            }
        )
        return outcome.contested.isEmpty ? outcome.changes : nil
    }
}

extension ColumnType {
    /// Merges two changes of a JSON object member by member.
    ///
    /// Nil if both changed the same member, or for other types.
    fileprivate func merged(base: SQLValue?, mine: SQLValue, theirs: SQLValue) -> SQLValue? {
        guard case .json = self, case .text(let base)? = base, case .text(let mine) = mine,
            case .text(let theirs) = theirs
        else { return nil }
        return JSON.merged(
            base: JSON(checked: base),
            mine: JSON(checked: mine),
            theirs: JSON(checked: theirs)
        ).map { .text($0.text) }
    }

    /// Returns whether two stored values are equal on the wire: instants in milliseconds, documents by value.
    package func isSame(_ one: SQLValue, _ two: SQLValue) -> Bool {
        switch (self, one, two) {
        case (.dateTime, .integer(let one), .integer(let two)):
            Timestamp(microseconds: one).milliseconds == Timestamp(microseconds: two).milliseconds
        case (.json, .text(let one), .text(let two)): JSON.isSame(one, two)
        // Swift considers some strings equal that have different bytes.
        case (_, .text(let one), .text(let two)): one.hasSameBytes(as: two)
        default: one == two
        }
    }
}
