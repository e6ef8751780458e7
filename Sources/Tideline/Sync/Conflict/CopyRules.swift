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
        /// The columns that a record which tells its state has set.
        var columnsSet: [String] = []
    }

    /// The row that a record makes of the stored one, and what it is based on.
    ///
    /// `normalized` is a row as the record's type encodes it; `state` is what the record says of its own.
    static func plan(
        _ edited: Row,
        stored: Row,
        state: RowState?,
        seen: SeenRow,
        normalized: (Row) -> Row
    ) -> Plan {
        let current = normalized(stored)
        guard let state else { return plan(edited, stored, current, seen, normalized) }
        let own = seen.ownState(state, before: stored)
        guard own != nil || state.isSaid(of: RowState(stored)) else {
            var row = applied(edited, to: stored, current) { _, _ in true }
            // A copy of this row is again one of that state, and never passes for the stored one.
            row.takeState(of: edited)
            return Plan(row: row, basisVersion: state.version ?? "")
        }
        // This copy has not seen the columns that an update of another kind changed since.
        let known = own?.row.map(normalized)
        var row = applied(edited, to: stored, current) { name, value in
            guard let own, let known, !own.columnsSet.contains(name) else { return true }
            return !RowMerge.same(known[name], value)
        }
        if let own, let known {
            for (name, value) in edited where !own.columnsSet.contains(name) {
                guard let now = stored[name],
                    let from = base(of: name, known[name], current[name], own.columnsSet)
                else { continue }
                row[name] = now.applying(from: from, to: value, ofModel: true)
            }
        }
        let changes = RowMerge.changes(from: stored, to: row)
        let set = changes.flatMap { places(of: $0.name, stored[$0.name], $0.value) }
        return Plan(row: row, columnsSet: set)
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

    /// A record that says nothing of its state.
    private static func plan(
        _ edited: Row,
        _ stored: Row,
        _ current: Row,
        _ seen: SeenRow,
        _ normalized: (Row) -> Row
    ) -> Plan {
        let oldest = seen.oldest.map(normalized)
        let isUnclear =
            seen.oldest == nil && seen.since != nil
            && seen.since != RowState(stored).mark
        var isConflict = false
        let row = applied(edited, to: stored, current) { name, value in
            if isUnclear || seen.mayBeReplaced(value, of: name) {
                isConflict = true
                return true
            }
            guard let oldest, !RowMerge.same(oldest[name], current[name]) else {
                return true
            }
            // Somebody else changed this column since.
            if RowMerge.same(oldest[name], value) { return false }
            isConflict = true
            return true
        }
        guard isConflict, stored.isFromServer else { return Plan(row: row) }
        let isKnown = !seen.contested.isAll && seen.oldestVersion != stored.version
        return Plan(row: row, basisVersion: isKnown ? seen.oldestVersion ?? "" : "")
    }

    /// The version that a delete of a copy is based on, where somebody else replaced that state.
    static func olderBasis(_ state: RowState?, stored: Row, seen: SeenRow) -> String? {
        guard let state, !state.isSaid(of: RowState(stored)),
            seen.ownState(state, before: stored) == nil
        else { return nil }
        return state.version ?? ""
    }

    /// The stored row with the columns of a record that differ from the current ones.
    private static func applied(
        _ edited: Row,
        to stored: Row,
        _ current: Row,
        where isEdit: (String, Value) -> Bool
    ) -> Row {
        var row = stored
        for (name, value) in RowMerge.changes(from: current, to: edited)
        where edited[name] != nil && isEdit(name, value) {
            row[name] = (stored[name] ?? .null)
                .applying(from: current[name], to: value, ofModel: true)
        }
        return row
    }
}
