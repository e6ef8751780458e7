// SeenRow: what is remembered of one row that was handed out to the app. Pure.

import TidelineCore

struct SeenRow: Sendable {
    /// A state of the row that only this device replaced.
    struct OwnState: Sendable {
        var state: RowState
        /// The row in this state; nil where it is not known.
        var row: Row?
        /// The columns that a record of this state has set.
        var columnsSet: Set<String> = []
    }

    /// The oldest record that was handed out without a version, with what this device itself changed
    /// since.
    var oldest: Row?
    /// The version of the stored row when `oldest` was handed out.
    var oldestVersion: String?
    /// The state since which records without a version are held; nil: there are none.
    var since: RowState.Mark?
    /// The columns that somebody else may have changed between two records that are held.
    var contested = ContestedColumns.none
    /// Values that somebody else replaced, and that records which are held may still have.
    var replaced = ReplacedValues()
    /// States of which each was replaced by an accepted push of this device, the newest last.
    var own: [OwnState] = []

    /// How many states of one row are kept; the oldest of all stays, as an editor may hold it long.
    private static let statesMax = 100

    /// Whether a record may be held that does not tell its state.
    var isHeld: Bool { since != nil || !contested.isNone }

    /// Whether a record that does not tell its state may have a value of this column that somebody else
    /// has replaced.
    func mayBeReplaced(_ value: Value?, of column: String) -> Bool {
        contested.contains(column) || replaced.contains(value, of: column)
    }

    /// Nothing is known of the records that are held, but that the row is in this state now.
    mutating func contest(_ now: RowState) {
        contested = .all
        since = now.mark
    }

    /// A record that does not tell its state went out; `state` is that of its stored row.
    mutating func handOut(_ record: Row, _ state: RowState) {
        if let oldest {
            for (name, value) in RowMerge.changes(from: oldest, to: record) {
                contested.add([name])
                replaced.add(oldest[name], of: name)
                replaced.add(value, of: name)
            }
            return
        }
        if since != nil, since != state.mark { contest(state) }
        oldest = record
        oldestVersion = state.version
        since = state.mark
    }

    /// This device itself changed columns of the row, which was in a state and had other values in
    /// them before: what a copy has there is older, and nobody else's, unless somebody else had
    /// replaced it.
    mutating func edit(_ changes: Row, from before: Row, _ state: RowState) {
        if oldest == nil, since != state.mark { contest(state) }
        for (name, value) in changes {
            if let held = oldest?[name], !RowMerge.same(held, before[name]) {
                replaced.add(held, of: name)
            }
            replaced.remove(before[name], of: name)
            replaced.remove(value, of: name)
            contested.remove([name])
            if oldest?[name] != nil { oldest?[name] = value }
        }
    }

    /// This device itself made the row anew: nothing in it is anybody else's.
    mutating func insert(_ new: Row) {
        contested = .none
        replaced = ReplacedValues()
        since = RowState(new).mark
        oldestVersion = new.version
        guard let names = oldest?.names else { return }
        for name in names where !SystemColumn.names.contains(name) {
            oldest?[name] = new[name] ?? .null
        }
    }

    /// The server accepted a push of this device.
    mutating func accept(_ push: AcceptedPush) {
        if let oldest {
            for (name, value) in push.changesOfServer where oldest[name] != nil {
                self.oldest?[name] = value
            }
        }
        if since == push.before.mark {
            since = RowState(push.after).mark
            oldestVersion = push.after.version
        }
        guard push.before.version != nil else {
            own = []
            return
        }
        if own.last?.state.version != push.before.version { own = [OwnState(state: push.before)] }
        own[own.count - 1].state = push.before
        own[own.count - 1].row = push.base
        own.append(OwnState(state: RowState(push.after)))
        if own.count > Self.statesMax { own.remove(at: 1) }
    }

    /// A record of a state has set columns of the stored row.
    mutating func set(_ columns: [String], in state: RowState, stored: RowState) {
        if own.last?.state.version != stored.version { own = [OwnState(state: stored)] }
        for index in own.indices where state.isSaid(of: own[index].state) {
            own[index].columnsSet.formUnion(columns)
        }
    }

    /// The state of a copy, when only pushes of this device lie between it and the stored row.
    func ownState(_ copy: RowState, before stored: Row) -> OwnState? {
        guard let index = own.firstIndex(where: { copy.isSaid(of: $0.state) }),
            let now = own.lastIndex(where: { $0.state.version == stored.version }), index <= now
        else { return nil }
        return own[index]
    }
}

/// A push of this device that the server accepted.
struct AcceptedPush: Sendable {
    /// What the server has now.
    var after: Row
    /// The state that it replaced; without a version for an insert.
    var before: RowState
    /// The row in that state, where it is known.
    var base: Row?
    /// The local row as it was sent.
    var sent: Row?

    /// What the server itself made of the row with this push.
    ///
    /// A column that it had otherwise than was sent before already is somebody else's. Where the state before is not
    /// known, nothing counts: at worst a copy that was not touched meets a conflict.
    fileprivate var changesOfServer: Row {
        guard let known = sent ?? base else { return Row() }
        let changes = RowMerge.changes(from: known, to: after)
        guard before.version != nil else { return changes }
        guard let base else { return Row() }
        let replaced = RowMerge.changes(from: base, to: after)
        var own = Row()
        for (name, value) in changes where replaced[name] != nil { own[name] = value }
        return own
    }
}

/// A few values of each column, and of one with more of them any value.
struct ReplacedValues: Sendable {
    private var values: [String: [Value?]] = [:]

    private static let valuesMax = 16

    var isEmpty: Bool { values.isEmpty }

    func contains(_ value: Value?, of column: String) -> Bool {
        guard let values = values[column] else { return false }
        return values.count > Self.valuesMax || values.contains { RowMerge.same($0, value) }
    }

    mutating func add(_ value: Value?, of column: String) {
        if !contains(value, of: column) { values[column, default: []].append(value) }
    }

    mutating func remove(_ value: Value?, of column: String) {
        guard let known = values[column], known.count <= Self.valuesMax else { return }
        let left = known.filter { !RowMerge.same($0, value) }
        values[column] = left.isEmpty ? nil : left
    }
}

/// Some columns, or all but some.
struct ContestedColumns: Sendable, Hashable {
    private var columns: Set<String> = []
    private(set) var isAll = false

    static let none = ContestedColumns()
    static let all = ContestedColumns(isAll: true)

    private init(isAll: Bool = false) { self.isAll = isAll }

    var isNone: Bool { !isAll && columns.isEmpty }

    func contains(_ column: String) -> Bool { columns.contains(column) != isAll }

    mutating func add(_ more: [String]) {
        if isAll { columns.subtract(more) } else { columns.formUnion(more) }
    }

    mutating func remove(_ fewer: [String]) {
        if isAll { columns.formUnion(fewer) } else { columns.subtract(fewer) }
    }
}
