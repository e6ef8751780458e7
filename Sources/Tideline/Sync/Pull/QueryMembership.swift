// QueryMembership: the queries that hold rows, and changes of membership masks outside of pulls.
//
// A row that was written on this device has the bits of all queries until the queries report it. If
// a response shows the server's earlier row (because the server won a conflict, or an edit was
// discarded), no query will report it. Therefore the bits of the queries whose filters the row does
// not match are cleared immediately. Rows without any bit are removed at the end of the next pull.

import TidelineCore

/// A pull query of a table that has an id.
struct HoldingQuery {
    var bit: Int64
    /// The filter; nil if the query returns all rows.
    var filter: Filter?
}

extension QueueReader {
    /// The queries that hold rows.
    var membership: QueryMembership { QueryMembership(reader: self) }
}

extension QueueTransaction {
    /// The writer of membership masks.
    var membership: QueryMembershipChanges { QueryMembershipChanges(queue: self) }
}

/// A reader of the queries that hold the rows of tables.
struct QueryMembership {
    let reader: QueueReader

    /// Returns the queries of a table that may hold rows, except for queries whose filters the
    /// device cannot read.
    func queries(of table: String) throws -> [HoldingQuery] {
        var (numbers, filters) = ([String: Int](), [String: String]())
        let query = TableQuery(filter: .equal("table", .string(table)))
        for row in try reader.store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, let value = row["value"]?.text,
                case .integer(let type) = row["keyType"]
            else { continue }
            if type == PullCursor.Part.fingerprint.rawValue { filters[key] = value }
            if type == QueryHold.numberType { numbers[key] = Int(value) }
        }
        return numbers.compactMap { key, number in
            guard (1..<QueryHold.shared).contains(number), let text = filters[key],
                let query = try? Query<Row>(odata: text)
            else { return nil }
            return HoldingQuery(bit: 1 << Int64(number), filter: query.table.filter)
        }
    }

    /// Returns the bits of a table's queries that belong to this account, or of those that do not
    /// if `isOwn` is false.
    func bits(of account: AccountView, _ table: String, isOwn: Bool) throws -> Int64 {
        let query = TableQuery(filter: .equal("table", .string(table)))
        var bits: Int64 = 0
        for row in try reader.store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, account.owns(key: key) == isOwn,
                let value = row["value"]?.text, case .integer(let type) = row["keyType"]
            else { continue }
            switch Int(exactly: type) {
            case QueryHold.numberType:
                guard let number = Int(value), (1...QueryHold.shared).contains(number) else {
                    continue
                }
                bits |= 1 << Int64(number)
            case QueryHold.formerType: bits |= Int64(value) ?? 0
            default: continue
            }
        }
        return bits
    }

    /// Returns the bits of other accounts' queries.
    func otherAccountBits(_ table: String) throws -> Int64 {
        try reader.account == .unused ? 0 : bits(of: reader.account, table, isOwn: false)
    }

    /// Returns the id and the membership mask of a row.
    func maskedRow(_ id: String, in table: String) throws -> Row? {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.select = [SystemColumn.id, MembershipMask.name]
        return try reader.store.rows(query, in: table).first
    }

    /// Returns whether there may be rows that no query holds.
    func hasRowsWithoutQuery(_ table: String) throws -> Bool {
        try reader.config(table, "", QueryHold.rowsWithoutQueryType) != nil
    }

    /// Returns whether every query of a table that has a cursor has been read completely since
    /// membership masks were introduced.
    func knowsAllHolders(of table: String) throws -> Bool {
        let query = TableQuery(filter: .equal("table", .string(table)))
        var (fingerprints, numbers) = (Set<String>(), Set<String>())
        for row in try reader.store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, case .integer(let type) = row["keyType"] else {
                continue
            }
            if type == PullCursor.Part.fingerprint.rawValue { fingerprints.insert(key) }
            if type == QueryHold.numberType { numbers.insert(key) }
        }
        return fingerprints.isSubset(of: numbers)
    }
}

/// A writer of membership masks, for changes that no page reports.
struct QueryMembershipChanges {
    let queue: QueueTransaction

    /// Clears the bits of the queries that the server's row does not match.
    func confirmHolders(of server: Row, _ table: String) throws {
        let id = Value.string(server.id)
        guard try queue.unmasked.taken(table) != 0,
            let stored = try queue.unmasked.inner.row(id: id, in: table),
            let mask = MembershipMask.bits(stored)
        else { return }
        // The row was removed from the last query that held it while it had operations.
        if mask == 0 { return try setHasRowsWithoutQuery(true, table) }
        var rest = mask
        for query in try queue.unmasked.holdingQueries(table, queue.reader)
        where rest & query.bit != 0 {
            if let filter = query.filter, !matches(server, filter, table) { rest &= ~query.bit }
        }
        guard rest != mask else { return }
        try queue.unmasked.inner.setMask(rest, of: stored, in: table)
        if rest == 0 { try setHasRowsWithoutQuery(true, table) }
    }

    /// Returns whether the row matches the filter, or the device cannot evaluate the filter.
    private func matches(_ row: Row, _ filter: Filter, _ table: String) -> Bool {
        guard let schema = queue.catalog.schema(table) else { return true }
        var query = TableQuery(filter: filter)
        query.includesDeleted = true
        guard let checked = try? FilterChecker(onDevice: schema).query(query) else { return true }
        return !checked.apply(to: [row]).rows.isEmpty
    }

    /// Removes a row if it was removed from every query while its operation was pending.
    func removeRowWithoutQuery(_ id: String, _ table: String) throws {
        guard let row = try queue.unmasked.inner.row(id: .string(id), in: table),
            MembershipMask.bits(row) == 0
        else { return }
        try queue.store.delete(ids: [.string(id)], in: table)
    }

    /// Stores whether there may be rows that no query holds.
    func setHasRowsWithoutQuery(_ hasRowsWithoutQuery: Bool, _ table: String) throws {
        _ = try queue.setConfig(
            hasRowsWithoutQuery ? "1" : nil,
            table,
            "",
            QueryHold.rowsWithoutQueryType
        )
    }

    /// Gives a row that was inserted without an account the membership of a row that this account
    /// inserts.
    ///
    /// Without this, the row would stay on the device when the account's data is purged.
    func adoptRow(of operation: QueuedOperation) throws {
        let table = operation.table
        guard queue.catalog.names(tableOf: operation),
            let row = try queue.unmasked.inner.row(id: .string(operation.itemID), in: table)
        else { return }
        let others = try queue.unmasked.otherAccountBits(table)
        let mask = try (MembershipMask.bits(row) ?? 0) & ~others | queue.unmasked.newBits(table)
        let value = mask == 0 ? Value.null : .integer(mask)
        try queue.unmasked.inner.set(
            MembershipMask.name,
            to: value,
            ofRow: row[SystemColumn.id] ?? .null,
            in: table
        )
    }

    /// Clears the bits of an account's queries, and removes the rows that no other account's query
    /// holds.
    ///
    /// - Returns: The number of removed rows.
    func release(
        _ account: AccountView,
        _ table: String,
        _ events: SyncEvents? = nil
    ) throws -> Int {
        var (removed, reported) = (0, 0)
        let own = try queue.reader.membership.bits(of: account, table, isOwn: true)
        let others = try queue.reader.membership.bits(of: account, table, isOwn: false)
        // The remaining lost rows belong to other accounts.
        let pending = try queue.reader.pendingIDs(table).union(
            queue.reader.lostRecords.ids(in: table)
        )
        var last: Value?
        while true {
            try queue.watch?.check()
            var query = TableQuery()
            query.filter = last.map { Filter.greater(SystemColumn.id, $0) }
            query.order = [SortKey(column: SystemColumn.id)]
            query.select = [SystemColumn.id]
            query.limit = Self.rowsAtOnce
            let ids = try queue.unmasked.inner.rows(query, in: table).compactMap {
                $0[SystemColumn.id]
            }
            for id in ids {
                guard let row = try queue.unmasked.inner.row(id: id, in: table) else { continue }
                let mask = MembershipMask.bits(row) ?? 0
                if mask & others == 0, !pending.contains(ItemKey(id.text ?? "")) {
                    removed += try queue.unmasked.inner.delete(ids: [id], in: table)
                } else if mask & own != 0 {
                    try queue.unmasked.inner.setMask(mask & ~own, of: row, in: table)
                }
            }
            if removed - reported >= Self.rowsAtOnce {
                events?.send(.rowsRemoved(table: table, removed: removed))
                reported = removed
            }
            guard ids.count == Self.rowsAtOnce else { break }
            last = ids.last
        }
        try queue.unmasked.setTaken(try queue.unmasked.taken(table) & (others | 1), table)
        // There may still be states of rows that were removed before the purge.
        try queue.ownStates.forget(in: table) { id in
            if pending.contains(ItemKey(id)) { return true }
            return try queue.unmasked.inner.row(id: .string(id), in: table) != nil
        }
        try queue.pullState.removeQueries(of: account, table)
        try queue.tableAccounts.forget(table)
        return removed
    }

    private static var rowsAtOnce: Int { SyncEvent.rowsAtOnce }
}
