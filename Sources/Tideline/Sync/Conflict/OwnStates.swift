// OwnStates: the row states that this device's accepted pushes have replaced, stored in
// MS_TableOwnStates.

import TidelineCore

extension QueueReader {
    /// The row states that this device's accepted pushes have replaced.
    var ownStates: OwnStates { OwnStates(reader: self) }
}

extension QueueTransaction {
    /// The writer of the row states that this device's accepted pushes have replaced.
    var ownStates: OwnStateChanges { OwnStateChanges(queue: self) }
}

/// A reader of the row states that this device's accepted pushes have replaced.
struct OwnStates {
    let reader: QueueReader

    /// Returns the stored states of a row, oldest first.
    func states(of key: RowKey) throws -> [OwnState] {
        try states(.equal("itemId", .string(key.itemID)) && .equal("table", .string(key.table)))
            .map(\.state)
    }

    /// Returns the stored states of several rows.
    func states(of keys: [RowKey]) throws -> [RowKey: [OwnState]] {
        var result: [RowKey: [OwnState]] = [:]
        for (table, keys) in Dictionary(grouping: keys, by: \.table) {
            for start in stride(from: 0, to: keys.count, by: Self.rowsAtOnce) {
                let part = keys[start..<min(keys.count, start + Self.rowsAtOnce)]
                let ids: Filter = .isIn("itemId", part.map { .string($0.itemID) })
                for (key, state) in try states(ids && .equal("table", .string(table))) {
                    result[key, default: []].append(state)
                }
            }
        }
        return result
    }

    private static let rowsAtOnce = 250

    fileprivate func states(
        _ filter: Filter,
        limit: Int? = nil
    ) throws -> [(key: RowKey, state: OwnState)] {
        var query = TableQuery(filter: filter)
        query.order = [SortKey(column: SystemColumn.id)]
        query.limit = limit
        return try reader.store.rows(query, in: SystemTables.ownStates).compactMap { row in
            guard let table = row["table"]?.text, let itemID = row["itemId"]?.text,
                let state = OwnState(storedRow: row, schema: reader.catalog.schema(table))
            else { return nil }
            return (RowKey(table, itemID), state)
        }
    }
}

/// A writer of the row states that this device's accepted pushes have replaced.
struct OwnStateChanges {
    let queue: QueueTransaction

    /// Records that the app inserted a row whose id had other operations before.
    ///
    /// From then on, a record without a state belongs to the inserted row.
    func noteInsert(of key: RowKey) throws {
        try forget(queue.reader.ownStates.states(of: key), of: key, keepsInserted: false)
        try put(OwnState(state: .inserted), of: key)
    }

    /// Stores the state of an inserted row after its push was accepted.
    ///
    /// `sent` is the row that the push sent, `after` is the server's row, and `states` are the
    /// row's stored states.
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

    /// Stores a state that an accepted push of this device replaced; `states` are the row's stored
    /// states.
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

    /// Merges the second oldest state into the oldest one if a row has too many states.
    private func join(_ states: [OwnState], of key: RowKey) throws {
        let chain = states.filter { $0.next != .otherWriter }
        guard chain.count >= OwnState.statesMax else { return }
        var first = chain[0]
        first.next = chain[1].next
        first.former = chain[1].former
        for (name, value) in chain[0].former { first.former[name] = value }
        try queue.store.delete(ids: [.integer(chain[1].id)], in: SystemTables.ownStates)
        try put(first, of: key)
    }

    /// Records the columns that the app has set in the stored row with a record; `age` is the age
    /// of the record.
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
            // States are linked only by versions. A row without a version that is not from the
            // server is an insert.
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

    /// Records that another writer's row replaced an inserted row, so that records of the insert
    /// count as older.
    func loseInsert(_ states: [OwnState], of key: RowKey) throws {
        if states.contains(where: { $0.isInserted && $0.next == .otherWriter }) { return }
        try forget(states, of: key, keepsInserted: false)
        try put(OwnState(state: .inserted, next: .otherWriter), of: key)
    }

    /// Records that an insert was removed from the queue before the server accepted it.
    ///
    /// Its records do not belong to a later row with the same id.
    func endInsert(_ operation: QueuedOperation) throws {
        guard operation.kind == .insert, operation.damage == nil else { return }
        let states = try queue.reader.ownStates.states(of: operation.row)
        // If the id was generated and never sent, no other device has a row with it.
        let mayExist =
            operation.knownUntil != nil || operation.frozen != nil || operation.outcomeUnknown
            || operation.basis.lastKnown?.row != nil
        if mayExist {
            try loseInsert(states, of: operation.row)
        } else {
            try forget(states, of: operation.row)
        }
    }

    /// Removes the states of rows that a purge removes.
    func forget(_ ids: [String], in table: String) throws {
        for (key, states) in try queue.reader.ownStates.states(of: ids.map { RowKey(table, $0) }) {
            try forget(states, of: key)
        }
    }

    /// Removes the states of a table's rows, including rows that are no longer stored.
    ///
    /// The states of a row are kept if `isKept` returns true for the row's id.
    func forget(in table: String, unless isKept: (String) throws -> Bool) throws {
        var last: Int64 = 0
        while true {
            try queue.watch?.check()
            let isNext = Filter.greater(SystemColumn.id, .integer(last))
            let page = try queue.reader.ownStates.states(
                .equal("table", .string(table)) && isNext,
                limit: Self.statesAtOnce
            )
            guard let newest = page.last else { return }
            for (key, state) in page where try !isKept(key.itemID) {
                try forget([state], of: key)
            }
            last = newest.state.id
        }
    }

    /// Removes states; if `keepsInserted`, records of the inserted row continue to count as older.
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
        if !ids.isEmpty { try queue.store.delete(ids: ids, in: SystemTables.ownStates) }
    }

    private func put(_ state: OwnState, of key: RowKey) throws {
        let row = state.storedRow(key)
        if state.id == 0 {
            _ = try queue.store.append(row, in: SystemTables.ownStates)
        } else {
            try queue.store.put([row], in: SystemTables.ownStates)
        }
    }

    /// Removes the oldest states of all rows if there are more than `count`.
    func limit(to count: Int) throws {
        let surplus = try queue.store.count(nil, in: SystemTables.ownStates) - count
        guard surplus > 0 else { return }
        var query = TableQuery()
        query.order = [SortKey(column: SystemColumn.id)]
        query.select = [SystemColumn.id]
        query.limit = min(surplus, Self.statesAtOnce)
        let ids = try queue.store.rows(query, in: SystemTables.ownStates).compactMap { $0["id"] }
        try queue.store.delete(ids: ids, in: SystemTables.ownStates)
    }

    /// The size of a page, which is more than the number of states that a push adds in one
    /// transaction.
    private static let statesAtOnce = 2000
}
