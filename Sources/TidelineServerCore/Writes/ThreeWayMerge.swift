// ThreeWayMerge: what a write makes of a row that somebody else changed since.
//
// Pure, column by column: who changed a column has it; a column that both changed, to different
// values, is a conflict of the whole row.

package import TidelineCore

package enum ThreeWayMerge {
    /// What the write puts into the stored row.
    ///
    /// - Parameters:
    ///   - mine: The values of the write, by column; nil for what it does not touch.
    ///   - base: Those of the row that it began at; nil for what is not known.
    ///   - theirs: Those of the stored row.
    ///   - columns: The columns of all three.
    /// - Returns: Values by column, nil for what stays as it is stored; nil for a conflict.
    package static func changes(
        mine: [SQLValue?],
        base: [SQLValue?],
        theirs: [SQLValue],
        columns: [ColumnDefinition]
    ) -> [SQLValue?]? {
        var changes = [SQLValue?](repeating: nil, count: columns.count)
        for (place, column) in columns.enumerated() where place < mine.count {
            guard let wanted = mine[place] else { continue }
            if column.type.isSame(wanted, theirs[place]) { continue }
            guard let begun = base[place] else { return nil }
            if column.type.isSame(wanted, begun) { continue }
            guard column.type.isSame(theirs[place], begun) else { return nil }
            changes[place] = wanted
        }
        return changes
    }
}

extension ColumnType {
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
