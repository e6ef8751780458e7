// RowMerge: compares rows and merges their changes.
//
// Pure. Changes of `id` and the system columns never count as edits.

package import TidelineCore

/// The functions that find the differences between rows and apply local edits to a newer server
/// row.
package enum RowMerge {
    /// Returns the columns of `row` that differ from `base`, without the system columns.
    ///
    /// A column that only `base` has is returned with the value null.
    package static func changes(from base: Row, to row: Row) -> Row {
        var result = Row()
        for (name, value) in row where !SystemColumn.names.contains(name) {
            if !same(base[name], value) { result[name] = value }
        }
        for name in base.names where row[name] == nil && !SystemColumn.names.contains(name) {
            if !same(base[name], nil) { result[name] = .null }
        }
        return result
    }

    /// Returns whether two values are the same; a missing value is the same as null.
    package static func same(_ one: Value?, _ two: Value?) -> Bool {
        switch (one ?? .null, two ?? .null) {
        case (.integer(let left), .number(let right)): Double(left) == right
        case (.number(let left), .integer(let right)): left == Double(right)
        case (.json(let left), .json(let right)): JSON.isSame(left.text, right.text)
        case (let left, let right): left == right
        }
    }

    /// Returns `row` with the differences between `base` and `edited` applied.
    ///
    /// A JSON object is changed member by member. Set `ofModel` if `base` is `row` as a model
    /// encodes it; members that the model does not know are then kept.
    package static func applying(
        from base: Row,
        to edited: Row,
        onto row: Row,
        ofModel: Bool = false
    ) -> Row {
        var result = row
        for (name, value) in changes(from: base, to: edited) {
            result[name] = (row[name] ?? .null)
                .applying(from: base[name], to: value, ofModel: ofModel)
        }
        return result
    }

    /// Returns `server` with the differences between `sent` and `local` applied.
    ///
    /// `sent` is the local row at the time when the operation in flight was frozen.
    package static func rebase(local: Row, from sent: Row, onto server: Row) -> Row {
        applying(from: sent, to: local, onto: server)
    }

    /// Returns the columns that a request sends: all except `id` and the system columns.
    package static func payload(_ row: Row) -> Row {
        var result = Row()
        for (name, value) in row where !SystemColumn.names.contains(name) { result[name] = value }
        return result
    }

    /// Returns whether `server` has every value that a request sent.
    package static func holds(_ server: Row, _ payload: Row) -> Bool {
        payload.allSatisfy { name, value in
            SystemColumn.names.contains(name) || same(server[name], value)
        }
    }

    /// The result of merging two changes of one row.
    package enum Joined: Sendable, Hashable {
        /// The server's row with this device's changes; `isTheirs` is true if no change of this
        /// device is left in it.
        case joined(Row, isTheirs: Bool)
        /// Both sides changed these columns to different values; `faults` gives the reason for each
        /// column that cannot hold the value of its rule.
        case contested([String], faults: [String: String])
    }

    /// Merges two changes of a row, column by column; `base` is nil if both sides inserted the row.
    ///
    /// A rule does not apply if its column cannot hold the value that the rule returns. If
    /// `addsUp`, equal changes count as two changes, which a closure may add together.
    package static func join(
        mine: Row,
        base: Row?,
        theirs: Row,
        rules: [String: MergeRule],
        schema: TableSchema? = nil,
        addsUp: Bool = false
    ) -> Joined {
        let names = columns(of: [theirs, mine, base ?? Row()])
        var faults: [String: String] = [:]
        let outcome = ThreeWayMerge.merge(
            mine: names.map { mine[$0] ?? .null },
            base: names.map { name in base.map { $0[name] ?? .null } },
            theirs: names.map { theirs[$0] ?? .null },
            isSame: { _, one, two in isSame(one, two) },
            addsUp: { addsUp && rules[names[$0]]?.isClosure ?? false },
            resolve: { place, base, mine, theirs in
                let type = schema?.column(named: names[place])?.type
                guard let rule = rules[names[place]] else {
                    return members(base: base, mine: mine, theirs: theirs)
                }
                guard let value = rule.value(base: base, local: mine, server: theirs, in: type)
                else { return nil }
                if isSame(value, mine) || isSame(value, theirs) { return value }
                guard let fault = RowCheck.fault(of: value, in: type) else { return value }
                faults[names[place]] = fault
                return Optional.none
            }
        )
        let contested = Set(outcome.contested.map { names[$0] }).union(faults.keys)
        guard contested.isEmpty else {
            return .contested(names.filter(contested.contains), faults: faults)
        }
        var row = theirs
        var isTheirs = true
        for (name, change) in zip(names, outcome.changes) {
            guard let change else { continue }
            row[name] = change
            isTheirs = false
        }
        return .joined(row, isTheirs: isTheirs)
    }

    /// Merges two changes of a JSON object member by member; nil if both changed the same member,
    /// or if a value is not an object.
    private static func members(base: Value?, mine: Value, theirs: Value) -> Value? {
        guard case .json(let base)? = base, case .json(let mine) = mine,
            case .json(let theirs) = theirs
        else { return nil }
        return JSON.merged(base: base, mine: mine, theirs: theirs).map(Value.json)
    }

    /// Returns the columns in which two rows would differ in a request, without the system columns.
    package static func differing(_ one: Row, _ two: Row) -> [String] {
        columns(of: [one, two]).filter { !isSame(one[$0] ?? .null, two[$0] ?? .null) }
    }

    /// Returns the columns of several rows without duplicates and without the system columns.
    private static func columns(of rows: [Row]) -> [String] {
        var seen = Set(SystemColumn.names)
        return rows.flatMap(\.names).filter { seen.insert($0).inserted }
    }

    /// Returns whether two values are equal in a request: dates by their milliseconds, JSON values
    /// by content.
    private static func isSame(_ one: Value, _ two: Value) -> Bool {
        switch (one, two) {
        case (.json(let left), .json(let right)): JSON.isSame(left.text, right.text)
        case (.date(let left), .date(let right)):
            Timestamp(left).milliseconds == Timestamp(right).milliseconds
        default: ValueOrder.equal(one, two)
        }
    }
}
