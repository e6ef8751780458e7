// AccountChanges: the account that is signed in, the adoption of operations that belong to no account, and the
// removal of an account's data.

import TidelineCore

/// The client's actions after a sign-in or sign-out, and on operations that belong to no account.
struct AccountChanges {
    let engine: SyncEngine

    /// Reacts to a change of the account, its token or its rights.
    ///
    /// Operations that the server rejected for a missing right are sent again. If the store cannot be written now,
    /// the next push with a new token does the same.
    func accountChanged() async {
        _ = try? await engine.parkedOperations.release(hasNewRights: true)
        engine.accountHub.publish([""])
    }

    /// Adopts or drops the operations that were made while no account was signed in.
    ///
    /// - Returns: The number of these operations.
    func adopt(_ isWanted: Bool) async throws -> Int {
        try await engine.transaction { queue in
            guard let account = queue.account.id else { throw SyncError.notSignedIn() }
            let operations = try queue.reader.operations(of: nil)
            guard isWanted else {
                try queue.drop(operations)
                return operations.count
            }
            for var operation in operations {
                operation.account = account
                try queue.put(operation)
                if operation.kind == .insert { try queue.adoptRow(of: operation) }
            }
            return operations.count
        }
    }
}

extension QueueReader {
    /// Returns the operations of an account, in order; for nil, those that belong to no account.
    func operations(of account: String?) throws -> [QueuedOperation] {
        try operations().filter { $0.account.map(ItemKey.init) == account.map(ItemKey.init) }
    }

    /// Returns the bits of a table's queries that belong to this account, or of those that do not.
    func bits(of account: AccountView, _ table: String, isOwn: Bool) throws -> Int64 {
        let query = TableQuery(filter: .equal("table", .string(table)))
        var bits: Int64 = 0
        for row in try store.rows(query, in: SystemTables.config) {
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
}

extension QueueTransaction {
    /// Gives a row that was inserted without an account the membership of a row that this account inserts.
    ///
    /// Otherwise, the row would stay when the account's data is purged.
    fileprivate func adoptRow(of operation: QueuedOperation) throws {
        let table = operation.table
        guard catalog.names(tableOf: operation),
            let row = try unmasked.inner.row(id: .string(operation.itemID), in: table)
        else { return }
        let others = try unmasked.otherAccountBits(table)
        let mask = try (MembershipMask.bits(row) ?? 0) & ~others | unmasked.newBits(table)
        let value = mask == 0 ? Value.null : .integer(mask)
        try unmasked.inner.set(
            MembershipMask.name,
            to: value,
            ofRow: row[SystemColumn.id] ?? .null,
            in: table
        )
    }

    /// - Throws: ``SyncError`` with code `otherAccount` if one of the operations belongs to another account: a
    ///   change can neither be merged into it nor follow it.
    func checkAccount(_ operations: [QueuedOperation]) throws {
        guard let other = operations.first(where: { !account.owns($0) }) else { return }
        throw SyncError.otherAccount(other)
    }

    /// Removes operations from the queue, and replaces their rows with the newest known rows of the server.
    ///
    /// If `keepsLostBases`, base rows that a restored server may have lost are kept instead.
    func drop(_ operations: [QueuedOperation], keepsLostBases: Bool = true) throws {
        // The last operation of a row is handled first, so that no operation follows the remaining ones.
        for operation in operations.reversed() {
            try watch?.check()
            try discard(operation, keepsLostBases: keepsLostBases)
        }
    }

    /// Clears the bits of an account's queries, and removes the rows that no other account's query contains.
    ///
    /// - Returns: The number of removed rows.
    func release(
        _ account: AccountView,
        _ table: String,
        _ events: SyncEvents? = nil
    ) throws -> Int {
        var (removed, reported) = (0, 0)
        let own = try reader.bits(of: account, table, isOwn: true)
        let others = try reader.bits(of: account, table, isOwn: false)
        // The remaining lost rows belong to other accounts.
        let pending = try reader.pendingIDs(table).union(reader.lostRecords.ids(in: table))
        var last: Value?
        while true {
            try watch?.check()
            var query = TableQuery()
            query.filter = last.map { Filter.greater(SystemColumn.id, $0) }
            query.order = [SortKey(column: SystemColumn.id)]
            query.select = [SystemColumn.id]
            query.limit = Self.rowsAtOnce
            let ids = try unmasked.inner.rows(query, in: table).compactMap { $0[SystemColumn.id] }
            for id in ids {
                guard let row = try unmasked.inner.row(id: id, in: table) else { continue }
                let mask = MembershipMask.bits(row) ?? 0
                if mask & others == 0, !pending.contains(ItemKey(id.text ?? "")) {
                    removed += try unmasked.inner.delete(ids: [id], in: table)
                } else if mask & own != 0 {
                    try unmasked.inner.setMask(mask & ~own, of: row, in: table)
                }
            }
            if removed - reported >= Self.rowsAtOnce {
                events?.send(.rowsRemoved(table: table, removed: removed))
                reported = removed
            }
            guard ids.count == Self.rowsAtOnce else { break }
            last = ids.last
        }
        try unmasked.setTaken(try unmasked.taken(table) & (others | 1), table)
        // Rows that left before the purge may also have states.
        try ownStates.forget(in: table) { id in
            if pending.contains(ItemKey(id)) { return true }
            return try unmasked.inner.row(id: .string(id), in: table) != nil
        }
        try forgetQueries(of: account, table)
        try tableAccounts.forget(table)
        return removed
    }

    private static var rowsAtOnce: Int { SyncEvent.rowsAtOnce }

    private func forgetQueries(of account: AccountView, _ table: String) throws {
        var types = Set(PullCursor.Part.allCases.map { Int64($0.rawValue) })
        types.formUnion([Int64(QueryHold.numberType), Int64(QueryHold.formerType)])
        let query = TableQuery(filter: .equal("table", .string(table)))
        let ids = try store.rows(query, in: SystemTables.config).compactMap { row -> Value? in
            guard case .integer(let type) = row["keyType"], types.contains(type),
                let key = row["key"]?.text, account.owns(key: key)
            else { return nil }
            return row["id"]
        }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.config) }
    }
}

extension SyncError {
    /// No account is signed in, and operations are pending.
    static func signedOut() -> SyncError {
        SyncError(
            .unauthorized,
            """
            No account is signed in, so nothing was sent. Sign in and push again. To also send \
            changes made while no account was signed in, call adopt(anonymousWork:).
            """
        )
    }

    fileprivate static func notSignedIn() -> SyncError {
        SyncError(
            .unauthorized,
            "No account is signed in. Sign in, then call adopt(anonymousWork:) again."
        )
    }

    /// The account changed during a push or pull.
    static func accountChanged() -> SyncError {
        SyncError(
            .otherAccount,
            """
            Another account signed in during the call, so nothing more was sent or stored for the \
            previous one. Sync again.
            """
        )
    }

    static func otherAccount(_ operation: QueuedOperation) -> SyncError {
        let origin =
            operation.account == nil
            ? "while no account was signed in. Call adopt(anonymousWork:) first."
            : "by another account. Sign in with that account, or call purge(account:force:) for it."
        return SyncError(
            .otherAccount,
            """
            Row '\(operation.itemID)' of table '\(operation.table)' has pending changes that were made \
            \(origin)
            """
        )
    }

    static func pendingOfAccount() -> SyncError {
        SyncError(
            .pendingOperations,
            """
            The account has pending changes. Push while it is signed in, or purge with 'force: true', \
            which discards them.
            """
        )
    }
}
