// SeenRows: which states of a row the app may hold, so that an old copy never overwrites what
// somebody else wrote (docs/SYNC.md, "Updates from a copy").
//
// A memory with an end: it keeps two generations of rows, and says when it may have forgotten. An
// edit of a row that it does not know is at worst a conflict. A row that was forgotten and handed out
// again is known by its new state alone: a copy older than that is not told from it.

import Foundation
import Synchronization
package import TidelineCore

/// What of a record tells the state that it was read in.
package enum RecordIdentity: Sendable {
    case version
    case updatedAt
    case nothing
}

package final class SeenRows: Sendable {
    /// What an update comes to.
    package struct Plan: Sendable, Hashable {
        package var row: Row
        /// The older state that the update is based on; empty where its version is not known.
        package var basisVersion: String?
    }

    /// A state of a row that only this device replaced.
    private struct OwnState {
        var version: String?
        var updatedAt: Value?
        /// The row in this state; nil where it is not known.
        var row: Row?
        /// The columns that a record of this state has set.
        var columnsSet: Set<String> = []
    }

    private struct Entry {
        /// The oldest state that was handed out without a version, with what this device itself
        /// changed since.
        var oldest: Row?
        /// The version of the row when `oldest` was handed out.
        var oldestVersion: String?
        /// Whether another state was handed out since.
        var isAmbiguous = false
        /// States of which each was replaced by an accepted push of this device, the newest last.
        var own: [OwnState] = []
    }

    private struct Memory {
        var young: [RowKey: Entry] = [:]
        var old: [RowKey: Entry] = [:]
        /// The tables of which rows were forgotten.
        var forgot: Set<String> = []

        mutating func change(_ key: RowKey, _ limit: Int, _ body: (inout Entry) -> Void) {
            if let kept = old.removeValue(forKey: key) { young[key] = kept }
            body(&young[key, default: Entry()])
            guard young.count > limit else { return }
            for key in old.keys { forgot.insert(key.table) }
            old = young
            young = [:]
        }
    }

    private let state = Mutex(Memory())
    private let limit: Int

    /// How many states of one row are kept; the oldest of all stays, as an editor may hold it long.
    private static let statesMax = 100

    /// `limit`: how many rows a generation has.
    package init(limit: Int) { self.limit = limit }

    private func change(_ key: RowKey, _ body: (inout Entry) -> Void) {
        state.withLock { $0.change(key, limit, body) }
    }

    private func entry(_ key: RowKey) -> (entry: Entry?, mayBeForgotten: Bool) {
        state.withLock { memory in
            (memory.young[key] ?? memory.old[key], memory.forgot.contains(key.table))
        }
    }

    // MARK: - What happens to rows

    /// Records that do not tell their state went out, each with the version of its stored row.
    package func handedOut(_ records: [(row: Row, version: String?)], table: String) {
        state.withLock { memory in
            for (record, version) in records {
                memory.change(RowKey(table, record.id), limit) { entry in
                    if let oldest = entry.oldest {
                        entry.isAmbiguous = entry.isAmbiguous || oldest != record
                    } else {
                        entry.oldest = record
                        entry.oldestVersion = version
                    }
                }
            }
        }
    }

    /// This device itself changed a row.
    package func edited(_ stored: Row, to row: Row, table: String) {
        let key = RowKey(table, stored.id)
        guard entry(key).entry?.oldest != nil else { return }
        change(key) { entry in
            for (name, value) in RowMerge.changes(from: stored, to: row)
            where entry.oldest?[name] != nil {
                entry.oldest?[name] = value
            }
        }
    }

    /// The server accepted a push of this device: `after` replaced the state of version `before`.
    package func accepted(
        _ after: Row,
        before: String?,
        base: Row?,
        sent: Row?,
        table: String
    ) {
        change(RowKey(table, after.id)) { entry in
            if let oldest = entry.oldest {
                for (name, value) in RowMerge.changes(from: sent ?? base ?? after, to: after)
                where oldest[name] != nil {
                    entry.oldest?[name] = value
                }
                if entry.oldestVersion == before { entry.oldestVersion = after.version }
            }
            guard before != nil else {
                entry.own = []
                return
            }
            if entry.own.last?.version != before { entry.own = [OwnState(version: before)] }
            let last = entry.own.count - 1
            entry.own[last].updatedAt = base?[SystemColumn.updatedAt]
            entry.own[last].row = base
            entry.own.append(
                OwnState(version: after.version, updatedAt: after[SystemColumn.updatedAt])
            )
            if entry.own.count > Self.statesMax { entry.own.remove(at: 1) }
        }
    }

    package func forget(_ table: String) {
        state.withLock { memory in
            memory.young = memory.young.filter { $0.key.table != table }
            memory.old = memory.old.filter { $0.key.table != table }
            memory.forgot.remove(table)
        }
    }

    // MARK: - What a copy may change

    /// The row that a record makes of the stored one, and what it is based on.
    ///
    /// `current` is the stored row as the record's type encodes it.
    package func plan(
        _ edited: Row,
        stored: Row,
        current: Row,
        table: String,
        identity: RecordIdentity
    ) -> Plan {
        let key = RowKey(table, stored.id)
        let (entry, mayBeForgotten) = entry(key)
        if let state = Self.state(edited, identity) {
            let isCurrent = state.isSame(stored)
            let own = entry.flatMap { Self.ownState(state, in: $0.own, before: stored) }
            guard isCurrent || own != nil else {
                return Plan(
                    row: Self.applied(edited, to: stored, current) { _, _ in true },
                    basisVersion: state.version ?? ""
                )
            }
            let row = Self.applied(edited, to: stored, current) { name, value in
                // What an update of another kind changed since, this copy has only not seen.
                guard let own, let seen = own.row, !own.columnsSet.contains(name) else {
                    return true
                }
                return !RowMerge.same(seen[name], value)
            }
            noteSet(RowMerge.changes(from: stored, to: row).names, by: state, stored, key)
            return Plan(row: row, basisVersion: nil)
        }
        guard let entry, let oldest = entry.oldest else {
            let row = Self.applied(edited, to: stored, current) { _, _ in true }
            let isRisk = mayBeForgotten && stored.version != nil && row != stored
            return Plan(row: row, basisVersion: isRisk ? "" : nil)
        }
        var isConflict = false
        let row = Self.applied(edited, to: stored, current) { name, value in
            guard !RowMerge.same(oldest[name], current[name]) else { return true }
            // Somebody else changed this column since.
            if !entry.isAmbiguous, RowMerge.same(oldest[name], value) { return false }
            isConflict = true
            return true
        }
        return Plan(row: row, basisVersion: isConflict ? entry.oldestVersion ?? "" : nil)
    }

    /// The version that a delete of a copy is based on, where somebody else replaced that state.
    package func olderBasis(
        of record: Row,
        stored: Row,
        table: String,
        identity: RecordIdentity
    ) -> String? {
        guard let state = Self.state(record, identity), !state.isSame(stored) else { return nil }
        let own = entry(RowKey(table, stored.id)).entry?.own ?? []
        return Self.ownState(state, in: own, before: stored) == nil ? state.version ?? "" : nil
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

    private func noteSet(
        _ columns: [String],
        by state: SeenState,
        _ stored: Row,
        _ key: RowKey
    ) {
        guard !columns.isEmpty else { return }
        change(key) { entry in
            if entry.own.last?.version != stored.version {
                entry.own = [
                    OwnState(version: stored.version, updatedAt: stored[SystemColumn.updatedAt])
                ]
            }
            for index in entry.own.indices where state.isSame(entry.own[index]) {
                entry.own[index].columnsSet.formUnion(columns)
            }
        }
    }

    // MARK: - States

    /// What a record says of its state.
    private struct SeenState {
        var version: String?
        var updatedAt: Value?

        func isSame(_ row: Row) -> Bool {
            version.map { $0 == row.version } ?? (updatedAt == row[SystemColumn.updatedAt])
        }

        func isSame(_ own: OwnState) -> Bool {
            version.map { $0 == own.version } ?? (updatedAt == own.updatedAt)
        }
    }

    private static func state(_ record: Row, _ identity: RecordIdentity) -> SeenState? {
        switch identity {
        case .version:
            return record.version.map { SeenState(version: $0) }
        case .updatedAt:
            guard let time = record[SystemColumn.updatedAt], !time.isNull else { return nil }
            return SeenState(updatedAt: time)
        case .nothing:
            return nil
        }
    }

    /// The state of a copy, when only pushes of this device lie between it and the stored row.
    private static func ownState(
        _ seen: SeenState,
        in own: [OwnState],
        before stored: Row
    ) -> OwnState? {
        guard let index = own.firstIndex(where: seen.isSame),
            let now = own.lastIndex(where: { $0.version == stored.version }), index <= now
        else { return nil }
        return own[index]
    }
}
