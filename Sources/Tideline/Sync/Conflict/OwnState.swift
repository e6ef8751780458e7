// OwnState: a state of a row on the server that an accepted push of this device replaced. A record that
// was read in such a state counts as current (docs/local-rows.md, "Updates of older records").

import Foundation
import TidelineCore

/// A state of a row on the server, and the version with which this device's accepted push replaced it.
///
/// The states of a row form a chain, oldest first: each was replaced by the next one. They are valid only if
/// the last one was replaced by the row's current version.
struct OwnState: Sendable, Hashable {
    /// The key in the store; 0 before it is stored.
    var id: Int64 = 0
    /// The version and time of the state; neither for a row that the app inserted and that was not pushed.
    var state: RowState
    /// The state that replaced this one.
    var next = Successor.none
    /// The former values of the columns that changed when the state was replaced.
    var former = Row()
    /// The columns, and members of JSON objects, that records read in this state have set.
    var columnsSet: Set<String> = []

    var isInserted: Bool { state == .inserted }

    /// The replacement of a state.
    enum Successor: Sendable, Hashable {
        /// No state: this one is current, and an update has set some of its columns.
        case none
        /// An accepted push of this device, which resulted in this version.
        case version(String)
        /// Another writer, or the replacement is not known.
        case otherWriter
    }
}

/// The relation of the state in which a record was read to the stored row.
enum RecordAge: Sendable, Hashable {
    /// The record was read in the stored row's state.
    case current
    /// Only accepted pushes of this device have replaced the state; `row` is the row in that state.
    ///
    /// This also applies to the server's current state, if an unsent update of an older record gave the stored
    /// row the older state.
    case own(OwnState, row: Row)
    /// Another writer has replaced the state, or that is not known; the version is empty if the record has
    /// none.
    case older(version: String)

    /// Compares a record's state with the stored row and its own states.
    ///
    /// A record without a state is the inserted one if this device inserted the row; otherwise it counts as
    /// current.
    ///
    /// - Parameters:
    ///   - record: The state of the record; nil if it has none.
    ///   - stored: The stored row.
    ///   - base: The base of the row's first operation.
    ///   - own: The own states of the row, oldest first.
    init(of record: RowState?, stored: Row, base: Row?, own: [OwnState]) {
        let now = RowState(stored)
        if record?.matches(now) ?? !stored.isFromServer {
            self = .current
            return
        }
        if let record, let base, record.matches(RowState(base)) {
            let noted = own.last { $0.next == .none && record.matches($0.state) }
            self = .own(noted ?? OwnState(state: RowState(base)), row: base)
            return
        }
        let index = own.firstIndex { record?.matches($0.state) ?? $0.isInserted }
        guard let index else {
            self = record.map { .older(version: $0.version ?? "") } ?? .current
            return
        }
        let following = own[index...]
        guard following.isChain(to: now.version), own[index].next != .none else {
            // The record of an insert is as old as the version that its push got.
            let inserted = if case .version(let version) = own[index].next { version } else { "" }
            self = .older(version: record.map { $0.version ?? "" } ?? inserted)
            return
        }
        // The local row may have unsent changes.
        var row = base.flatMap { $0.version == now.version ? $0 : nil } ?? stored
        for state in following.reversed() {
            for (name, value) in state.former { row[name] = value }
        }
        self = .own(own[index], row: row)
    }
}

extension Collection<OwnState> {
    /// Returns whether only pushes of this device led from the first state to a version.
    fileprivate func isChain(to version: String?) -> Bool {
        var place: String?
        for (offset, own) in enumerated() {
            if offset > 0, own.state.version != place { return false }
            switch own.next {
            case .version(let next): place = next
            // Only the last state has no successor.
            case .none: place = own.state.version
            case .otherWriter: return false
            }
        }
        return !isEmpty && place == version
    }
}

extension [OwnState] {
    /// The state of a row that the app inserted and that has not been accepted yet, if it is the last state.
    var pendingInsert: OwnState? { last.flatMap { $0.isInserted && $0.next == .none ? $0 : nil } }

    /// Returns whether the last state has a version, or was replaced by it.
    fileprivate func leads(to version: String?) -> Bool { suffix(1).isChain(to: version) }
}

// MARK: - Changes

extension OwnState {
    /// The maximum number of states of one row.
    ///
    /// The oldest one is kept, because an app's editor may show it for a long time.
    static let statesMax = 100

    /// Creates the state that an accepted operation replaced; nil if it is not known.
    ///
    /// `sent` is the row that was sent, and `after` is the row that the server has now.
    init?(replacedBy operation: QueuedOperation, sent: Row?, after: Row) {
        // Only versions link the states.
        guard let replacement = after.version else { return nil }
        next = .version(replacement)
        let version = operation.basisVersion ?? operation.basis.base?.version
        let known = [operation.basis.base, operation.basis.latest?.row]
        let base = known.lazy.compactMap { $0 }.first { $0.version == version }
        if let base, version != nil {
            state = RowState(base)
            former = RowMerge.changes(from: after, to: base)
        } else if let sent, operation.basis.base == nil,
            operation.kind == .insert ? version == nil : operation.revives
        {
            // This includes an insert that undeletes a row of the server.
            state = .inserted
            former = RowMerge.changes(from: after, to: sent)
        } else {
            return nil
        }
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
    /// Records that the app inserted a row after other operations with the same id.
    ///
    /// From now on, a record without a state belongs to the inserted row.
    func noteInsert(of key: RowKey) throws {
        try forget(reader.ownStates(of: key), of: key, keepsInserted: false)
        try put(OwnState(state: .inserted), of: key)
    }

    /// Stores the state of an inserted row.
    ///
    /// `sent` is the row that the accepted push sent, `after` is the server's row, and `states` are the stored
    /// states.
    func keepInsert(
        _ inserted: OwnState,
        replacedBy after: Row,
        _ sent: Row,
        among states: [OwnState],
        of key: RowKey
    ) throws {
        guard let version = after.version else { return }
        var kept = inserted
        kept.next = .version(version)
        kept.former = RowMerge.changes(from: after, to: sent)
        try forget(states.filter { $0.id != inserted.id }, of: key, keepsInserted: false)
        try put(kept, of: key)
    }

    /// Stores a state that an accepted push of this device replaced; `states` are the stored states.
    func keep(_ new: OwnState, behind states: [OwnState], of key: RowKey) throws {
        var (new, earlier) = (new, states)
        if let last = states.last, last.next == .none, last.state.version == new.state.version {
            (new.id, new.columnsSet) = (last.id, last.columnsSet)
            earlier.removeLast()
        }
        if new.isInserted || !states.leads(to: new.state.version) {
            try forget(earlier, of: key, keepsInserted: !new.isInserted)
        } else {
            try join(earlier, of: key)
        }
        try put(new, of: key)
    }

    /// Merges the second oldest state into the oldest, if there are too many.
    private func join(_ states: [OwnState], of key: RowKey) throws {
        let chain = states.filter { $0.next != .otherWriter }
        guard chain.count >= OwnState.statesMax else { return }
        var first = chain[0]
        first.next = chain[1].next
        first.former = chain[1].former
        for (name, value) in chain[0].former { first.former[name] = value }
        try store.delete(ids: [.integer(chain[1].id)], in: SystemTables.ownStates)
        try put(first, of: key)
    }

    /// Records the columns that a record has set in the stored row; `age` is that of the record.
    func note(
        _ columns: Set<String>,
        setBy age: RecordAge,
        of stored: Row,
        _ states: [OwnState],
        _ key: RowKey
    ) throws {
        switch age {
        case .older: return
        case .own(var state, _):
            guard !columns.isSubset(of: state.columnsSet) else { return }
            if state.id == 0, !states.leads(to: state.state.version) {
                try forget(states, of: key)
            }
            state.columnsSet.formUnion(columns)
            try put(state, of: key)
        case .current:
            // Only versions link the states; a row without version and time is an insert.
            guard stored.version != nil || !stored.isFromServer else { return }
            var current = OwnState(state: RowState(stored))
            if !states.leads(to: stored.version) {
                try forget(states, of: key, keepsInserted: true)
            } else if let last = states.last, last.next == .none {
                current = last
            }
            guard current.id == 0 || !columns.isSubset(of: current.columnsSet) else { return }
            current.columnsSet.formUnion(columns)
            try put(current, of: key)
        }
    }

    /// Records that another writer's row replaced an inserted one, so that records of the insert are older.
    func loseInserted(_ states: [OwnState], of key: RowKey) throws {
        if states.contains(where: { $0.isInserted && $0.next == .otherWriter }) { return }
        try forget(states, of: key, keepsInserted: false)
        try put(OwnState(state: .inserted, next: .otherWriter), of: key)
    }

    /// Records that an insert was removed from the queue without being accepted.
    ///
    /// Its records do not belong to a row that gets the same id later.
    func endInsert(_ operation: QueuedOperation) throws {
        guard operation.kind == .insert, operation.damage == nil else { return }
        let states = try reader.ownStates(of: operation.row)
        // No other device has a row with an id that was generated and never sent.
        let mayExist =
            operation.knownUntil != nil || operation.frozen != nil || operation.outcomeUnknown
            || operation.basis.lastKnown?.row != nil
        if mayExist {
            try loseInserted(states, of: operation.row)
        } else {
            try forget(states, of: operation.row)
        }
    }

    /// Removes the states of the rows that a purge removes.
    func forgetOwnStates(of ids: [String], in table: String) throws {
        for (key, states) in try reader.ownStates(of: ids.map { RowKey(table, $0) }) {
            try forget(states, of: key)
        }
    }

    /// Removes the states of a table, including those of rows that are no longer stored.
    ///
    /// `isKept` returns whether the states of a row are kept, by its id.
    func forgetOwnStates(in table: String, unless isKept: (String) throws -> Bool) throws {
        var last: Int64 = 0
        while true {
            try watch?.check()
            let isNext = Filter.greater(SystemColumn.id, .integer(last))
            let page = try reader.ownStates(
                .equal("table", .string(table)) && isNext,
                limit: Self.ownStatesAtOnce
            )
            guard let newest = page.last else { return }
            for (key, state) in page where try !isKept(key.itemID) {
                try forget([state], of: key)
            }
            last = newest.state.id
        }
    }

    /// Removes states; if `keepsInserted`, records of the inserted row still count as older ones.
    func forget(
        _ states: [OwnState],
        of key: RowKey,
        keepsInserted: Bool = true
    ) throws {
        var ids = states.map { Value.integer($0.id) }
        if keepsInserted, var inserted = states.first(where: \.isInserted) {
            ids.removeAll { $0 == .integer(inserted.id) }
            if inserted.next != .otherWriter {
                (inserted.next, inserted.former) = (.otherWriter, Row())
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
        let surplus = try store.count(nil, in: SystemTables.ownStates) - count
        guard surplus > 0 else { return }
        var query = TableQuery()
        query.order = [SortKey(column: SystemColumn.id)]
        query.select = [SystemColumn.id]
        query.limit = min(surplus, Self.ownStatesAtOnce)
        let ids = try store.rows(query, in: SystemTables.ownStates).compactMap { $0["id"] }
        try store.delete(ids: ids, in: SystemTables.ownStates)
    }

    /// A number that exceeds the number of states that a push adds in one transaction.
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
        row["next"] =
            switch next {
            case .none: .null
            case .version(let version): .string(version)
            case .otherWriter: ""
            }
        row["columns"] = columnsSet.isEmpty ? .null : .string(Self.text(columnsSet))
        if id > 0 { row["id"] = .integer(id) }
        return row
    }

    /// Creates the state from a row of the store; nil if another program changed the row.
    fileprivate init?(storedRow row: Row, schema: TableSchema?) {
        guard case .integer(let id)? = row["id"], let text = row["state"]?.text,
            var known = RowText.row(Data(text.utf8), schema)
        else { return nil }
        self.id = id
        state = RowState(known)
        for name in [SystemColumn.version, SystemColumn.updatedAt] { known[name] = nil }
        former = known
        next =
            switch row["next"]?.text {
            case nil: .none
            case ""?: .otherWriter
            case let version?: .version(version)
            }
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
