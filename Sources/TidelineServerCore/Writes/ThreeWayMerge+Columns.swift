// ThreeWayMerge+Columns: the merge of a write with a stored row that another device changed since.

package import TidelineCore

extension ThreeWayMerge {
    /// Returns the values that the write stores in the row.
    ///
    /// - Parameters:
    ///   - mine: The values of the write, by column; nil for what it does not touch.
    ///   - base: The values of the base row; nil for a value that is not known.
    ///   - theirs: Those of the stored row.
    ///   - columns: The columns of all three.
    /// - Returns: Values by column, nil for what stays as it is stored; nil for a conflict.
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
            settle: { place, base, mine, theirs in
                columns[place].type.merged(base: base, mine: mine, theirs: theirs)
            }
        )
        return outcome.contested.isEmpty ? outcome.changes : nil
    }
}

extension ColumnType {
    /// Joins two changes of a JSON object member by member; nil if both changed the same one, or for other types.
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

    /// Whether two stored values are one on the wire: instants in milliseconds, documents by value.
    package func isSame(_ one: SQLValue, _ two: SQLValue) -> Bool {
        switch (self, one, two) {
        case (.dateTime, .integer(let one), .integer(let two)):
            Timestamp(microseconds: one).milliseconds == Timestamp(microseconds: two).milliseconds
        case (.json, .text(let one), .text(let two)): JSON.isSame(one, two)
        // Swift takes texts of different bytes for equal.
        case (_, .text(let one), .text(let two)): one.utf8.elementsEqual(two.utf8)
        default: one == two
        }
    }
}
