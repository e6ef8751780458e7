// LostRecords: the records in MS_TableLostRows of rows that a restored server lost.

import TidelineCore

extension QueueReader {
    /// The records of lost rows.
    var lostRecords: LostRecords { LostRecords(reader: self) }
}

extension QueueTransaction {
    /// The writer of the records of lost rows.
    var lostRecords: LostRecordChanges { LostRecordChanges(queue: self) }
}

/// A reader of the records of lost rows.
struct LostRecords {
    let reader: QueueReader

    /// Returns the record of a lost row; nil if the row is not lost.
    func record(_ table: String, _ itemID: String) throws -> LostRecord? {
        try reader.store.row(id: LostRecord.key(table, itemID), in: SystemTables.lost)
            .flatMap { LostRecord(storedRow: $0, reader.catalog) }
    }

    /// Returns the lost rows that `account` may see, ordered by table and id.
    func all(
        in table: String? = nil,
        of account: AccountView? = nil
    ) throws -> [LostRecord] {
        var query = TableQuery(filter: table.map { .equal("table", .string($0)) })
        query.order = [SortKey(column: "id")]
        return try reader.store.rows(query, in: SystemTables.lost)
            .compactMap { LostRecord(storedRow: $0, reader.catalog) }
            .filter { record in
                guard reader.catalog.schemas[record.table] != nil else { return false }
                guard let account else { return true }
                return account.id.map(ItemKey.init) == record.account.map(ItemKey.init)
            }
    }

    /// Returns the number of the account's lost rows.
    func count() throws -> Int {
        guard try reader.store.count(nil, in: SystemTables.lost) > 0 else { return 0 }
        return try all(of: reader.account).count
    }

    /// Returns the ids of the lost rows of a table.
    func ids(in table: String) throws -> Set<ItemKey> {
        guard try reader.store.count(nil, in: SystemTables.lost) > 0 else { return [] }
        return Set(try all(in: table).map { ItemKey($0.itemID) })
    }
}

/// A writer of the records of lost rows.
struct LostRecordChanges {
    let queue: QueueTransaction

    /// Stores the record of a lost row, or replaces it.
    func put(_ record: LostRecord) throws {
        try queue.store.put([record.storedRow], in: SystemTables.lost)
    }

    /// Removes the record of a row.
    func remove(_ table: String, _ itemID: String) throws {
        try queue.store.delete(ids: [LostRecord.key(table, itemID)], in: SystemTables.lost)
    }

    /// Records that the server has lost a row and has replaced it with another state.
    ///
    /// The next pull reports the loss.
    func lose(_ table: String, _ itemID: String, server row: Row) throws {
        guard let stored = try queue.unmasked.inner.row(id: .string(itemID), in: table) else {
            return
        }
        let mask = (MembershipMask.bits(stored) ?? 0) & ~MembershipMask.former
        try queue.unmasked.inner.setMask(mask, of: stored, in: table)
        try put(
            LostRecord(table: table, itemID: itemID, account: queue.account.id, server: .row(row))
        )
        let restore =
            try queue.reader.epochs.formerRows(of: table)?.restore ?? RestorePoint(commit: nil)
        try queue.epochs.setFormerRows(FormerRows(.found, restore: restore), of: table)
    }

    /// Returns whether a restored server may have lost the base row of an operation.
    ///
    /// This is the case if the server's newest known state is earlier than the base row, or if the
    /// server has no row and has not sent one since the restore.
    func mayHaveLostBase(of operation: QueuedOperation) throws -> Bool {
        let table = operation.table
        guard operation.kind != .insert, let base = operation.basis.base else { return false }
        switch operation.basis.latest {
        case .row(let row):
            // The restore point is not used, because the base row may come from a response of the
            // restored server.
            let isLost = RestorePoint(commit: nil)
                .hasLost(
                    queue.catalog.synced(base, in: table),
                    server: queue.catalog.synced(row, in: table)
                )
            return try isLost && queue.reader.epochs.isKnown(for: table)
        case .deleted(let version, _):
            let tombstone: Row = ["version": version.map(Value.string) ?? .null]
            // A device deleted the row later and on purpose.
            if let mine = base.commit, let theirs = tombstone.commit, theirs > mine { return false }
            let id = Value.string(operation.itemID)
            let stored = try queue.unmasked.inner.row(id: id, in: table)
            let mask = stored.flatMap(MembershipMask.bits) ?? 0
            return mask & MembershipMask.former != 0
        case nil:
            return false
        }
    }

    /// Replaces the local row with the base row of a removed operation, because a restored server
    /// may have lost the base row.
    ///
    /// If the server has an older state, the row becomes a lost row. If the server has no row, the
    /// next pull requests it and finds out whether it is lost.
    func keepBase(of operation: QueuedOperation) throws {
        guard let base = operation.basis.base else { return }
        let table = operation.table
        // If the row was deleted here, membership changes that queries reported after that were not
        // stored.
        if try queue.store.row(id: .string(operation.itemID), in: table) == nil {
            try queue.pullState.resetCursors(of: table)
        }
        try queue.store.put([JSONRowReader.withoutDeleted(base)], in: table)
        guard case .row(let row) = operation.basis.latest else { return }
        try lose(table, operation.itemID, server: row)
    }

    /// Queues a lost row, so that it is sent to the server again.
    func sendAgain(_ record: LostRecord) throws {
        let (table, id) = (record.table, record.itemID)
        defer { queue.watch?.changed(1, in: table) }
        guard try queue.store.row(id: .string(id), in: table) != nil,
            try queue.reader.operations(table, id).isEmpty
        else { return try remove(table, id) }
        let change = QueuedOperation(table: table, itemID: id, kind: .update)
        try queue.append(try takeOver(record, for: change))
    }

    /// Replaces the record of a lost row with an operation that is based on the restored server's
    /// state.
    func takeOver(_ record: LostRecord, for change: QueuedOperation) throws -> QueuedOperation {
        let (table, id) = (record.table, record.itemID)
        try remove(table, id)
        if var row = try queue.unmasked.inner.row(id: .string(id), in: table) {
            // Every query will report the row, as it does for any row that is written on this
            // device.
            let bits = try queue.unmasked.newBits(table)
            row[MembershipMask.name] = bits == 0 ? .null : .integer(bits)
            try queue.unmasked.inner.put([row], in: table)
        }
        return record.based(change)
    }

    /// Replaces a lost row with the server's row.
    func discard(_ record: LostRecord) throws {
        let (table, id) = (record.table, Value.string(record.itemID))
        defer { queue.watch?.changed(1, in: table) }
        try remove(table, record.itemID)
        guard try queue.reader.operations(table, record.itemID).isEmpty else { return }
        guard case .row(let row) = record.server,
            let stored = try queue.unmasked.inner.row(id: id, in: table)
        else {
            try queue.store.delete(ids: [id], in: table)
            if case .deleted = record.server {
                try LocalChildren(queue: queue).follow(deletesOf: [record.itemID], in: table)
            }
            return
        }
        var server = JSONRowReader.withoutDeleted(row)
        let mask = (MembershipMask.bits(stored) ?? 0) & ~MembershipMask.former
        server[MembershipMask.name] = .integer(mask)
        try queue.unmasked.inner.put([server], in: table)
        try queue.membership.confirmHolders(of: row, table)
        try queue.membership.removeRowWithoutQuery(record.itemID, table)
    }

    /// - Throws: ``SyncError`` with code `otherAccount` if the row is a lost row of another
    ///   account, because this device may have the only copy.
    func checkAccount(_ table: String, _ itemID: String) throws {
        guard queue.account != .unused,
            let lost = try queue.reader.lostRecords.record(table, itemID),
            lost.belongsToOther(than: queue.account)
        else { return }
        throw SyncError.lostByOtherAccount(table: table, id: itemID)
    }
}

extension SyncError {
    fileprivate static func lostByOtherAccount(table: String, id: String) -> SyncError {
        SyncError(
            .otherAccount,
            """
            The restored server has lost row '\(id)' of table '\(table)', and another account has to decide about it. \
            Sign in with that account to send or discard the row, or purge the account with 'force: true'.
            """
        )
    }
}
