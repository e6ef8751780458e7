// CopyRules: what an update from a copy that was read before changes, and what it is based on.
//
// Pure; the table is in docs/SYNC.md, "Updates from a copy".

import TidelineCore

enum CopyRules {
    /// What an update comes to.
    struct Plan: Sendable, Hashable {
        var row: Row
        /// The older version that the update is based on; empty where it is not known.
        var basisVersion: String?
        /// The columns, and members of JSON objects, that the record has set.
        var columnsSet: Set<String> = []
    }

    /// The row that a record makes of the stored one, and what it is based on.
    ///
    /// `normalized` is a row as the record's type encodes it.
    static func plan(
        _ edited: Row,
        stored: Row,
        age: CopyAge,
        normalized: (Row) -> Row
    ) -> Plan {
        let current = normalized(stored)
        var row = stored
        switch age {
        case .older(let version):
            apply(edited, to: &row, current) { _, _ in true }
            // A copy of this row is again one of that state, and never passes for the stored one.
            row.takeState(of: edited)
            return Plan(row: row, basisVersion: version)
        case .current:
            apply(edited, to: &row, current) { _, _ in true }
        case .own(let state, let former):
            // This copy has not seen the columns that an update of another kind changed since.
            let known = normalized(former)
            apply(edited, to: &row, current) { name, value in
                state.columnsSet.contains(name) || !RowMerge.same(known[name], value)
            }
            for (name, value) in edited where !state.columnsSet.contains(name) {
                guard let now = stored[name],
                    let from = base(of: name, known[name], current[name], state.columnsSet)
                else { continue }
                row[name] = now.applying(from: from, to: value, ofModel: true)
            }
        }
        let changes = RowMerge.changes(from: stored, to: row)
        let set = changes.flatMap { places(of: $0.name, stored[$0.name], $0.value) }
        return Plan(row: row, columnsSet: Set(set))
    }

    /// The JSON object that a copy started from; nil for other values.
    ///
    /// It is as it was seen, and in the members that the copy has set since as it is now.
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
            // One of the two is not an object.
            if path.isEmpty { return nil }
            if columnsSet.contains(place(of: column, path)) {
                base = base.setting(now.value(at: path), at: path)
            }
        }
        return .json(base.json)
    }

    /// Names the column that an edit has set, or the members of its JSON object.
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
