// TableEpochs: the epoch of each table, and the rows from before a restore of the server.
//
// While a table has rows from a former epoch, their masks have the bit `MembershipMask.former`. No
// query can remove such a row before the client has requested it from the server.

import TidelineCore

extension QueueReader {
    /// The epochs of the tables.
    var epochs: TableEpochs { TableEpochs(reader: self) }
}

extension QueueTransaction {
    /// The writer of the epochs of the tables.
    var epochs: TableEpochChanges { TableEpochChanges(queue: self) }
}

/// A reader of the epochs of tables and of their rows from before a restore.
struct TableEpochs {
    let reader: QueueReader

    /// Returns the facts about a table's rows from before a restore; nil if there are no such rows.
    func formerRows(of table: String) throws -> FormerRows? {
        try reader.config(table, "", PullCursor.formerRowsType).map(FormerRows.init)
    }

    /// Returns whether the table has ever been pulled, from any endpoint.
    func wasPulled(_ table: String) throws -> Bool {
        let types = [PullCursor.Part.endpoint.rawValue, PullCursor.tableEpochType]
        let kept: Filter = .isIn("keyType", types.map { .integer(Int64($0)) })
        return try reader.store.count(
            kept && .equal("table", .string(table)),
            in: SystemTables.config
        ) > 0
    }

    /// Returns whether a server at any endpoint has sent an epoch for the table's rows.
    func isKnown(for table: String) throws -> Bool {
        let types = [
            PullCursor.Part.epoch.rawValue, PullCursor.tableEpochType,
            PullCursor.firstSentEpochType,
        ]
        let isEpoch: Filter = .isIn("keyType", types.map { .integer(Int64($0)) })
        let query: Filter = isEpoch && .equal("table", .string(table))
        return try reader.store.count(query, in: SystemTables.config) > 0
    }

    /// Returns the epoch of a table's rows at an endpoint.
    ///
    /// A store from an older version has epochs only in its cursors. If these differ, an epoch
    /// other than `epoch` takes precedence.
    func epoch(of table: String, endpoint: String, otherThan epoch: String?) throws -> String? {
        if let known = try reader.config(table, endpoint, PullCursor.tableEpochType) {
            return known
        }
        let query = TableQuery(filter: .equal("table", .string(table)))
        var (epochs, endpoints) = ([String: String](), [String: String]())
        for row in try reader.store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, let value = row["value"]?.text,
                case .integer(let type) = row["keyType"]
            else { continue }
            if type == PullCursor.Part.epoch.rawValue { epochs[key] = value }
            if type == PullCursor.Part.endpoint.rawValue { endpoints[key] = value }
        }
        let known = epochs.keys.sorted()
            .filter { endpoints[$0].map(ItemKey.init) == ItemKey(endpoint) }
            .compactMap { epochs[$0] }
        return known.first { $0 != epoch } ?? known.first
    }

    /// Returns the ids of the rows that only queries from before the restore hold, and of the lost
    /// rows to request again.
    func idsToCheck(in table: String) throws -> [String] {
        let pending = try reader.pendingIDs(table)
        let records = try reader.lostRecords.all(in: table)
        let lost = Set(records.map { ItemKey($0.itemID) })
        var query = TableQuery(filter: .equal(MembershipMask.name, .integer(MembershipMask.former)))
        query.select = [SystemColumn.id]
        let rows = try reader.store.rows(query, in: table).map(\.id)
            .filter { !lost.contains(ItemKey($0)) && !pending.contains(ItemKey($0)) }
        return rows + records.filter { !$0.isChecked }.map(\.itemID)
    }

    /// Returns whether there are still rows from before the restore, including rows that other
    /// queries hold.
    func hasRowsToCheck(in table: String) throws -> Bool {
        let former = Filter.greater(MembershipMask.name, .integer(MembershipMask.former - 1))
        if try reader.store.count(former, in: table) > 0 { return true }
        return try reader.lostRecords.all(in: table).contains { !$0.isChecked }
    }
}

/// A writer of the epochs of tables.
struct TableEpochChanges {
    let queue: QueueTransaction

    /// Handles the epoch of a page before the page is stored.
    ///
    /// If the rows of the table have a different epoch, all of them get the bit of former rows, and
    /// the lost rows are requested again. The same applies to rows that this device sent before it
    /// pulled the table for the first time. They may have been sent in several epochs, or to a
    /// server that sends no epoch in responses to writes.
    func handle(_ epoch: String?, endpoint: String, of table: String) throws {
        try queue.tableAccounts.noteReader(of: table)
        guard let epoch else { return }
        let known = try queue.reader.epochs.epoch(of: table, endpoint: endpoint, otherThan: epoch)
        if let known, known != epoch {
            try markFormerRows(table, keepsUnclaimed: queue.reader.tableAccounts.isShared(table))
            for var record in try queue.reader.lostRecords.all(in: table) where record.isChecked {
                record.isChecked = false
                try queue.lostRecords.put(record)
            }
            // Rows that remain from an earlier restore are compared with the earlier restore point.
            // Rows that were sent before the first pull are no longer requested.
            let former = try queue.reader.epochs.formerRows(of: table)
            let earlier = former?.cause == .sent ? nil : former.map { $0.restore.commit }
            let commit = RestorePoint(epoch: epoch).commit
            let point: Int64? =
                if let earlier {
                    if let earlier, let commit { min(earlier, commit) } else { nil }
                } else {
                    commit
                }
            try setFormerRows(
                FormerRows(.found, restore: RestorePoint(commit: point)),
                of: table
            )
        } else if known == nil, try !queue.reader.epochs.wasPulled(table),
            try markFormerRows(table) > 0
        {
            // A restore is reported only if rows are lost. The restore point is unknown.
            try setFormerRows(
                FormerRows(.sent, restore: RestorePoint(commit: nil)),
                of: table
            )
        }
        _ = try queue.setConfig(epoch, table, endpoint, PullCursor.tableEpochType)
    }

    /// Handles the new epochs in responses to a push, before the rows of these responses are
    /// stored.
    func handle(_ new: NewEpochs?) throws {
        guard let new else { return }
        for (table, epoch) in new.epochs.sorted(by: { $0.key < $1.key }) {
            try handle(epoch, endpoint: new.endpoint, of: table)
        }
    }

    /// Sets the bit of former rows, and returns the number of rows.
    ///
    /// If `keepsUnclaimed` is true, a row that no query with an id holds also gets the bit of pulls
    /// without a query id, which no read clears. Such a row may belong to any account on the
    /// device, so it is not requested by its id.
    @discardableResult
    private func markFormerRows(_ table: String, keepsUnclaimed: Bool = false) throws -> Int {
        var last: Value?
        var count = 0
        while true {
            var query = TableQuery(filter: last.map { .greater(SystemColumn.id, $0) })
            query.order = [SortKey(column: SystemColumn.id)]
            query.limit = Self.rowsAtOnce
            let rows = try queue.unmasked.inner.rows(query, in: table)
            for row in rows where row.isFromServer {
                var mask = (MembershipMask.bits(row) ?? 0) | MembershipMask.former
                if keepsUnclaimed, mask == MembershipMask.former {
                    mask |= MembershipMask.withoutID
                }
                try queue.unmasked.inner.setMask(mask, of: row, in: table)
                count += 1
            }
            guard rows.count == Self.rowsAtOnce else { return count }
            last = rows.last?["id"]
        }
    }

    private static let rowsAtOnce = 1000

    /// Clears the bit of former rows if the response to a push contains a later state than any
    /// state known on the device.
    ///
    /// The epoch is known, so the response comes from the restored server. If the bit stayed, the
    /// row would count as lost after a later change by another device.
    func clearFormerBits(of decidedOperations: [DecidedOperation]) throws {
        var former: [String: Bool] = [:]
        for decided in decidedOperations {
            let operation = decided.operation
            guard let row = decided.serverRow else { continue }
            let hasFormer =
                try former[operation.table]
                ?? (queue.reader.epochs.formerRows(of: operation.table) != nil)
            former[operation.table] = hasFormer
            guard hasFormer,
                let stored = try queue.unmasked.inner.row(
                    id: .string(operation.itemID),
                    in: operation.table
                ),
                let mask = MembershipMask.bits(stored), mask & MembershipMask.former != 0
            else { continue }
            let known = [stored, operation.basis.base, operation.basis.latest?.row]
            guard known.allSatisfy({ $0?.isLater(than: row) != true }) else { continue }
            try queue.unmasked.inner.setMask(
                mask & ~MembershipMask.former,
                of: stored,
                in: operation.table
            )
        }
    }

    /// Stores the facts about a table's rows from before a restore; nil removes them.
    func setFormerRows(_ rows: FormerRows?, of table: String) throws {
        _ = try queue.setConfig(rows?.text, table, "", PullCursor.formerRowsType)
    }
}

extension DecidedOperation {
    /// The server's row, if the response contains it.
    fileprivate var serverRow: Row? {
        switch decision {
        case .accepted(let state), .conflict(let state, _), .undeleted(let state): state.row
        case .rejected: nil
        }
    }
}
