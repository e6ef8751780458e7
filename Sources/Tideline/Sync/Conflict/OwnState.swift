// OwnState: a state of a row on the server that an accepted push of this device replaced. A record that
// was read in such a state counts as current (docs/SYNC.md, "Updates from a copy").

import Foundation
import TidelineCore

/// A state of a row on the server, and the version by which this device's accepted push replaced it.
///
/// The states of a row form a chain, oldest first: each was replaced by the next one. They count only if the
/// last one leads to the version that the row has now.
struct OwnState: Sendable, Hashable {
    /// The key in the store; 0 before it is stored.
    var id: Int64 = 0
    /// Version and time of the state; neither for a row that the app had inserted and not pushed.
    var state: RowState
    /// The version that replaced it; nil for the current state, empty if another writer's version replaced it.
    var next: String?
    /// The former values of the columns that changed when the state was replaced.
    var former = Row()
    /// The columns, and members of JSON objects, that records of this state have set.
    var columnsSet: Set<String> = []

    var isInserted: Bool { state == .inserted }

    /// The `next` of a state that another writer's state replaced.
    static let lost = ""
}

/// How the state in which a record was read relates to the stored row.
enum CopyAge: Sendable, Hashable {
    /// It is the stored row's state.
    case current
    /// Only accepted pushes of this device have replaced it; `row` is the row in that state.
    case own(OwnState, row: Row)
    /// Another writer has replaced it, or it is not known; the version is empty if the record has none.
    case older(version: String)

    /// Compares the state that a record names, nil if it names none, with the row and its own states.
    ///
    /// A record without a state is one that the app inserted, if this device inserted the row; else it counts
    /// as current.
    init(of copy: RowState?, stored: Row, base: Row?, own: [OwnState]) {
        let now = RowState(stored)
        if copy?.isSaid(of: now) ?? !stored.isFromServer {
            self = .current
            return
        }
        let index = own.firstIndex { copy?.isSaid(of: $0.state) ?? $0.isInserted }
        guard let index else {
            self = copy.map { .older(version: $0.version ?? "") } ?? .current
            return
        }
        guard own.leads(to: now.version), let next = own[index].next, next != OwnState.lost else {
            // The record of an insert is as old as the version that its push got.
            let version = copy == nil ? own[index].next : copy?.version
            self = .older(version: version ?? "")
            return
        }
        // The local row may have unsent changes.
        var row = base.flatMap { $0.version == now.version ? $0 : nil } ?? stored
        for state in own[index...].reversed() {
            for (name, value) in state.former { row[name] = value }
        }
        self = .own(own[index], row: row)
    }
}

extension [OwnState] {
    /// Returns whether only pushes of this device lie between the states and a version.
    func leads(to version: String?) -> Bool {
        guard let last else { return false }
        return last.next.map { $0 == version } ?? (last.state.version == version)
    }
}

// MARK: - Changes

extension OwnState {
    /// How many states of one row are kept; the oldest of all stays, as an editor may hold it long.
    static let statesMax = 100

    /// The state that an accepted operation replaced; nil if it is not known.
    ///
    /// `sent` is the row that an insert sent, and `after` the server's row now.
    init?(replacedBy operation: QueuedOperation, sent: Row?, after: Row) {
        let version = operation.basisVersion ?? operation.basis.base?.version
        if operation.kind == .insert, version == nil {
            guard let sent else { return nil }
            state = .inserted
            former = RowMerge.changes(from: after, to: sent)
        } else {
            let known = [operation.basis.base, operation.basis.latest?.row]
            let base = known.lazy.compactMap { $0 }.first { $0.version == version }
            guard version != nil, let base else { return nil }
            state = RowState(base)
            former = RowMerge.changes(from: after, to: base)
        }
        next = after.version
        // Versions are all that links the states.
        if next == nil { return nil }
    }
}

extension QueueReader {
    /// The states of a row that this device's pushes have replaced, oldest first.
    func ownStates(of key: RowKey) throws -> [OwnState] {
        try ownStates(.equal("itemId", .string(key.itemID)) && .equal("table", .string(key.table)))
            .map(\.state)
    }

    /// The states of several rows.
    func ownStates(of keys: [RowKey]) throws -> [RowKey: [OwnState]] {
        var result: [RowKey: [OwnState]] = [:]
        for (table, keys) in Dictionary(grouping: keys, by: \.table) {
            for start in stride(from: 0, to: keys.count, by: Self.ownStateRowsAtOnce) {
                let part = keys[start..<min(keys.count, start + Self.ownStateRowsAtOnce)]
                let ids: Filter = .isIn("itemId", part.map { .string($0.itemID) })
                for (key, state) in try ownStates(ids && .equal("table", .string(table))) {
                    result[key, default: []].append(state)
                }
            }
        }
        return result
    }

    private static let ownStateRowsAtOnce = 250

    fileprivate func ownStates(
        _ filter: Filter,
        limit: Int? = nil
    ) throws -> [(key: RowKey, state: OwnState)] {
        var query = TableQuery(filter: filter)
        query.order = [SortKey(column: SystemColumn.id)]
        query.limit = limit
        return try store.rows(query, in: SystemTables.ownStates).compactMap { row in
            guard let table = row["table"]?.text, let itemID = row["itemId"]?.text,
                let state = OwnState(storedRow: row, schema: catalog.schema(table))
            else { return nil }
            return (RowKey(table, itemID), state)
        }
    }
}

extension QueueTransaction {
    /// Keeps a state that an accepted push of this device replaced; `states` are those that are kept.
    func keep(_ new: OwnState, behind states: [OwnState], of key: RowKey) throws {
        var new = new
        guard !new.isInserted, states.leads(to: new.state.version), let last = states.last else {
            try forget(states, of: key, keepsInserted: !new.isInserted)
            return try put(new, of: key)
        }
        if last.next == nil {
            (new.id, new.columnsSet) = (last.id, last.columnsSet)
        } else {
            try join(states, of: key)
        }
        try put(new, of: key)
    }

    /// Makes room for a state: the second oldest one becomes part of the oldest.
    private func join(_ states: [OwnState], of key: RowKey) throws {
        let chain = states.filter { $0.next != OwnState.lost }
        guard chain.count >= OwnState.statesMax else { return }
        var first = chain[0]
        first.next = chain[1].next
        first.former = chain[1].former
        for (name, value) in chain[0].former { first.former[name] = value }
        try store.delete(ids: [.integer(chain[1].id)], in: SystemTables.ownStates)
        try put(first, of: key)
    }

    /// Notes the columns that a record has set in the stored row; `age` is that of the record.
    func note(
        _ columns: Set<String>,
        setBy age: CopyAge,
        of stored: Row,
        _ states: [OwnState],
        _ key: RowKey
    ) throws {
        switch age {
        case .older: return
        case .own(var state, _):
            guard !columns.isSubset(of: state.columnsSet) else { return }
            state.columnsSet.formUnion(columns)
            try put(state, of: key)
        case .current:
            guard stored.version != nil else { return }
            var current = OwnState(state: RowState(stored))
            if !states.leads(to: stored.version) {
                try forget(states, of: key, keepsInserted: true)
            } else if let last = states.last, last.next == nil {
                current = last
            }
            guard current.id == 0 || !columns.isSubset(of: current.columnsSet) else { return }
            current.columnsSet.formUnion(columns)
            try put(current, of: key)
        }
    }

    /// Notes that another writer's row replaced an inserted one, so that records of the insert are older.
    func loseInserted(_ states: [OwnState], of key: RowKey) throws {
        if states.contains(where: { $0.isInserted && $0.next == OwnState.lost }) { return }
        try forget(states, of: key, keepsInserted: false)
        try put(OwnState(state: .inserted, next: OwnState.lost), of: key)
    }

    /// Removes the states of a table's rows: a purge removes these rows.
    func forgetOwnStates(of table: String) throws {
        var last: Int64 = 0
        while true {
            let isNext = Filter.greater(SystemColumn.id, .integer(last))
            let states = try reader.ownStates(
                .equal("table", .string(table)) && isNext,
                limit: Self.ownStatesAtOnce
            )
            guard let newest = states.last else { return }
            for (key, state) in states { try forget([state], of: key) }
            last = newest.state.id
        }
    }

    /// Removes states; `keepsInserted`: a record of the inserted row stays an older one.
    func forget(
        _ states: [OwnState],
        of key: RowKey,
        keepsInserted: Bool = true
    ) throws {
        var ids = states.map { Value.integer($0.id) }
        if keepsInserted, var inserted = states.first(where: \.isInserted) {
            ids.removeAll { $0 == .integer(inserted.id) }
            if inserted.next != OwnState.lost {
                (inserted.next, inserted.former) = (OwnState.lost, Row())
                try put(inserted, of: key)
            }
        }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.ownStates) }
    }

    private func put(_ state: OwnState, of key: RowKey) throws {
        let row = state.storedRow(key)
        if state.id == 0 {
            _ = try store.append(row, in: SystemTables.ownStates)
        } else {
            try store.put([row], in: SystemTables.ownStates)
        }
    }

    /// Removes the oldest states if there are more than the limit.
    func limitOwnStates(to count: Int) throws {
        var query = TableQuery()
        query.order = [SortKey(column: SystemColumn.id, ascending: false)]
        query.select = [SystemColumn.id]
        query.limit = 1
        guard
            case .integer(let last)? = try store.rows(query, in: SystemTables.ownStates).first?[
                "id"
            ],
            last > Int64(count)
        else { return }
        query.filter = .less(SystemColumn.id, .integer(last - Int64(count) + 1))
        query.order = [SortKey(column: SystemColumn.id)]
        query.limit = Self.ownStatesAtOnce
        let ids = try store.rows(query, in: SystemTables.ownStates).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.ownStates) }
    }

    /// More than a transaction of a push adds.
    private static let ownStatesAtOnce = 2000
}

// MARK: - Stored form

extension OwnState {
    fileprivate func storedRow(_ key: RowKey) -> Row {
        var known = former
        known[SystemColumn.version] = state.version.map(Value.string)
        known[SystemColumn.updatedAt] = state.updatedAt
        var row: Row = [
            "table": .string(key.table), "itemId": .string(key.itemID),
            "state": .string(RowText.json(known).text),
        ]
        row["next"] = next.map(Value.string) ?? .null
        row["columns"] = columnsSet.isEmpty ? .null : .string(Self.text(columnsSet))
        if id > 0 { row["id"] = .integer(id) }
        return row
    }

    /// Nil if another program changed the row.
    fileprivate init?(storedRow row: Row, schema: TableSchema?) {
        guard case .integer(let id)? = row["id"], let text = row["state"]?.text,
            var known = RowText.row(Data(text.utf8), schema)
        else { return nil }
        self.id = id
        state = RowState(known)
        for name in [SystemColumn.version, SystemColumn.updatedAt] { known[name] = nil }
        former = known
        next = row["next"]?.text
        columnsSet = Self.columns(row["columns"]?.text)
    }

    private static func text(_ columns: Set<String>) -> String {
        (try? JSONEncoder().encode(columns.sorted())).map { String(decoding: $0, as: UTF8.self) }
            ?? "[]"
    }

    private static func columns(_ text: String?) -> Set<String> {
        guard let text, let names = try? JSONDecoder().decode([String].self, from: Data(text.utf8))
        else { return [] }
        return Set(names)
    }
}
