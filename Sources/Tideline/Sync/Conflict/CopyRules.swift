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
    /// `current` is the stored row as the record's type encodes it; `state` is what the record says
    /// of its own.
    static func plan(
        _ edited: Row,
        stored: Row,
        current: Row,
        state: RowState?,
        seen: SeenRow
    ) -> Plan {
        guard let state else { return plan(edited, stored, current, seen) }
        let own = seen.ownState(state, before: stored)
        guard own != nil || state.isSaid(of: RowState(stored)) else {
            var row = applied(edited, to: stored, current) { _, _ in true }
            // A copy of this row is again one of that state, and never passes for the stored one.
            row.takeState(of: edited)
            return Plan(row: row, basisVersion: state.version ?? "")
        }
        let row = applied(edited, to: stored, current) { name, value in
            // What an update of another kind changed since, this copy has only not seen.
            guard let own, let seen = own.row, !own.columnsSet.contains(name) else { return true }
            return !RowMerge.same(seen[name], value)
        }
        return Plan(row: row, columnsSet: RowMerge.changes(from: stored, to: row).names)
    }

    /// A record that says nothing of its state.
    private static func plan(
        _ edited: Row,
        _ stored: Row,
        _ current: Row,
        _ seen: SeenRow
    ) -> Plan {
        let isUnclear =
            seen.oldest == nil && seen.since != nil
            && seen.since != RowState(stored).mark
        var isConflict = false
        let row = applied(edited, to: stored, current) { name, value in
            if isUnclear || seen.mayBeReplaced(value, of: name) {
                isConflict = true
                return true
            }
            guard let oldest = seen.oldest, !RowMerge.same(oldest[name], current[name]) else {
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
            row[name] = value
        }
        return row
    }
}
