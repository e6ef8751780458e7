// UpdateRules: determines what an update with a whole record changes.
//
// Pure; the decision table is in docs/local-rows.md, "Updates of older records".

import TidelineCore

/// The rules that determine which columns an update with a whole record changes, and which version
/// it is based on.
enum UpdateRules {
    /// The result of an update.
    struct Plan: Sendable, Hashable {
        var row: Row
        /// The older version that the update is based on; empty if the version is not known.
        var basisVersion: String?
        /// The columns, and members of JSON objects, that the record sets.
        var columnsSet: Set<String> = []
    }

    /// Returns the new row and the version that the update is based on.
    ///
    /// `normalized` encodes a row as the record's type does.
    static func plan(
        _ edited: Row,
        stored: Row,
        age: RecordAge,
        normalized: (Row) -> Row
    ) -> Plan {
        let current = normalized(stored)
        var row = stored
        var set: [String] = []
        switch age {
        case .older(let version):
            apply(edited, to: &row, current) { _, _ in true }
            // The stored row now has the older state, and so do the records that are read from it.
            row.takeState(of: edited)
            return Plan(row: row, basisVersion: version)
        case .current:
            apply(edited, to: &row, current) { _, _ in true }
        case .own(let state, let former):
            // If the record still has a column's former value, the column is out of date, not
            // edited.
            let known = normalized(former)
            let columnsSet = state.columnsSet
            apply(edited, to: &row, current) { name, value in
                columnsSet.contains(name) || !RowMerge.same(known[name], value)
            }
            for (name, value) in edited where !columnsSet.contains(name) {
                guard let now = stored[name],
                    let from = base(of: name, known[name], current[name], columnsSet)
                else { continue }
                row[name] = now.applying(from: from, to: value, ofModel: true)
            }
            set += RowMerge.changes(from: known, to: edited).flatMap { name, value in
                edited[name] == nil ? [] : places(of: name, known[name], value)
            }
        }
        set += RowMerge.changes(from: stored, to: row).flatMap { name, value in
            places(of: name, stored[name], value)
        }
        return Plan(row: row, columnsSet: Set(set))
    }

    /// Returns the JSON object that a record started from; nil if the value is not an object.
    ///
    /// The object has the values that were read, except for members that records of this state have
    /// set. These have their current values.
    private static func base(
        of column: String,
        _ known: Value?,
        _ current: Value?,
        _ columnsSet: Set<String>
    ) -> Value? {
        guard case .json(let old)? = known, case .json(let new)? = current,
            let before = JSONDocument(old), let now = JSONDocument(new)
        else { return nil }
        var base = before
        for path in JSONDocument.differences(before, now) {
            // One of the two values is not an object.
            if path.isEmpty { return nil }
            if columnsSet.contains(place(of: column, path)) {
                base = base.setting(now.value(at: path), at: path)
            }
        }
        return .json(base.json)
    }

    /// Returns the name of the column that an edit sets, or the names of the members that it sets
    /// in a JSON object.
    private static func places(of column: String, _ old: Value?, _ new: Value) -> [String] {
        guard case .json(let old)? = old, case .json(let new) = new, let before = JSONDocument(old),
            let after = JSONDocument(new)
        else { return [column] }
        return JSONDocument.differences(before, after).map { place(of: column, $0) }
    }

    private static func place(of column: String, _ path: [[UInt8]]) -> String {
        ([Array(column.utf8)] + path).map { String(decoding: $0, as: UTF8.self) }
            .joined(separator: "\0")
    }

    /// Changes the columns in which a record differs from the current row.
    private static func apply(
        _ edited: Row,
        to row: inout Row,
        _ current: Row,
        where isEdit: (String, Value) -> Bool
    ) {
        let stored = row
        for (name, value) in RowMerge.changes(from: current, to: edited)
        where edited[name] != nil && isEdit(name, value) {
            row[name] = (stored[name] ?? .null)
                .applying(from: current[name], to: value, ofModel: true)
        }
    }
}
