// LostRecords: the rows of MS_TableLostRows, which name the rows that a restored server lost, and the
// epoch of each table.
//
// While a table has rows of a former epoch, their masks have the bit `MembershipMask.former`: no query can
// release such a row before the client has requested it from the server.

import Foundation
import TidelineCore

/// A row that a restored server has lost.
struct LostRecord: Sendable, Hashable {
    var table: String
    var itemID: String
    /// The account that was signed in when the loss was found.
    var account: String?
    /// The restored server's state of the row; nil if it has none.
    var server: ServerState?
    /// Whether `server` is current; false after another restore.
    var isChecked = true

    static func key(_ table: String, _ itemID: String) -> Value { .string("\(table)/\(itemID)") }

    fileprivate var row: Row {
        [
            "id": Self.key(table, itemID), "table": .string(table), "itemId": .string(itemID),
            "account": account.map(Value.string) ?? .null,
            "server": server.map { .string(RowText.json($0.stored).text) } ?? .null,
            "checked": .bool(isChecked),
        ]
    }

    fileprivate init?(_ row: Row, _ catalog: TableCatalog) {
        guard let table = row["table"]?.text, let itemID = row["itemId"]?.text else { return nil }
        self.init(table: table, itemID: itemID, account: row["account"]?.text)
        server = row["server"]?.text
            .flatMap { RowText.row(Data($0.utf8), catalog.schema(table)) }
            .map { ServerState($0) }
        isChecked = row["checked"] == true
    }

    init(table: String, itemID: String, account: String?, server: ServerState? = nil) {
        (self.table, self.itemID, self.account) = (table, itemID, account)
        self.server = server
    }

    /// Returns whether the lost row belongs to another account, which decides about it.
    ///
    /// Lost rows that were found while no account was signed in belong to every account.
    func belongsToOther(than view: AccountView) -> Bool {
        guard view != .unused, let account else { return false }
        return view.id.map(ItemKey.init) != ItemKey(account)
    }

    /// Returns the operation that updates the restored server's row, or inserts the row.
    func based(_ change: QueuedOperation) -> QueuedOperation {
        var operation = change
        switch server {
        case .row(let row):
            operation.basis = RowBasis(base: row)
        case .deleted(let version?, _) where operation.kind != .delete:
            operation.kind = .update
            operation.revives = true
            operation.sendsWholeRow = true
            operation.basisVersion = version
        case .deleted, nil:
            operation.kind = operation.kind == .delete ? .delete : .insert
            operation.basisVersion = nil
            operation.sendsWholeRow = false
        }
        return operation
    }
}

/// The latest commit of a restored server, which is part of the epoch.
package struct RestorePoint: Hashable, Sendable {
    /// The time of the latest commit, in microseconds since 1970; nil if the epoch does not contain it.
    package var commit: Int64?

    /// - Parameter epoch: A `Tideline-Epoch`: its name, a dot, and the commit in hexadecimal digits.
    package init(epoch: String?) {
        let parts = epoch?.split(separator: ".", omittingEmptySubsequences: false) ?? []
        commit = parts.count == 2 ? Int64(parts[1], radix: 16).flatMap { $0 > 0 ? $0 : nil } : nil
    }

    init(commit: Int64?) { self.commit = commit }

    /// Returns whether the restored server never had a state of a row, so that its later states do not include
    /// it.
    func isBefore(_ row: Row) -> Bool {
        guard let commit else { return false }
        if let timestamp = row.commit { return timestamp > commit }
        guard case .date(let date) = row[SystemColumn.updatedAt] else { return false }
        return Timestamp(date).milliseconds > commit / 1000
    }

    /// Returns whether a state of a row that was pulled before the restore is lost.
    ///
    /// The server's state may be a later commit of a device that never received this one. After a later
    /// deletion the row is not lost, because a device deleted it on purpose. Neither row has columns that stay on the
    /// device.
    func hasLost(_ local: Row, server: Row) -> Bool {
        guard local.version != server.version else { return false }
        guard server[SystemColumn.deleted] != true else { return local.isLater(than: server) }
        guard !local.hasValues(of: server) else { return false }
        return local.isLater(than: server) || isBefore(local)
    }
}

extension MembershipMask {
    /// The bit of a row that was pulled before a restore and that no page has returned since.
    static let former: Int64 = 1 << 62

    /// The bit of all pulls without an id, which may be those of any account.
    static let withoutID: Int64 = 1 << Int64(QueryHold.withoutID)
}

extension Row {
    /// Whether two states of a row have the same values, regardless of their membership masks.
    func hasValues(of other: Row) -> Bool {
        RowMerge.differing(self, other).allSatisfy { $0 == MembershipMask.name }
    }

    /// Returns whether this state of a row was committed later than another one, as far as the times show.
    ///
    /// If the milliseconds are equal, the versions are compared if a Tideline server wrote them, because they
    /// contain microseconds. Otherwise this state counts as later.
    func isLater(than other: Row) -> Bool {
        guard case .date(let mine) = self[SystemColumn.updatedAt],
            case .date(let theirs) = other[SystemColumn.updatedAt]
        else { return false }
        let (first, second) = (Timestamp(mine).milliseconds, Timestamp(theirs).milliseconds)
        guard first == second else { return first > second }
        guard let mine = commit, let theirs = other.commit else { return version != other.version }
        return mine > theirs
    }

    /// The microseconds since 1970 that a version of a Tideline server represents.
    fileprivate var commit: Int64? {
        guard let bytes = version.flatMap({ Data(base64Encoded: $0) }), bytes.count == 8 else {
            return nil
        }
        return bytes.reduce(0) { $0 << 8 | Int64($1) }
    }
}

extension QueueReader {
    func lost(_ table: String, _ itemID: String) throws -> LostRecord? {
        try store.row(id: LostRecord.key(table, itemID), in: SystemTables.lost)
            .flatMap { LostRecord($0, catalog) }
    }

    /// Returns the lost rows that `account` may see, by table and id.
    func lostRecords(
        _ table: String? = nil,
        account: AccountView? = nil
    ) throws -> [LostRecord] {
        var query = TableQuery(filter: table.map { .equal("table", .string($0)) })
        query.order = [SortKey(column: "id")]
        return try store.rows(query, in: SystemTables.lost)
            .compactMap { LostRecord($0, catalog) }
            .filter { record in
                guard catalog.schemas[record.table] != nil else { return false }
                guard let account else { return true }
                return account.id.map(ItemKey.init) == record.account.map(ItemKey.init)
            }
    }

    /// Returns the number of lost rows of the account.
    func lostCount() throws -> Int {
        guard try store.count(nil, in: SystemTables.lost) > 0 else { return 0 }
        return try lostRecords(account: account).count
    }

    func lostIDs(_ table: String) throws -> Set<ItemKey> {
        guard try store.count(nil, in: SystemTables.lost) > 0 else { return [] }
        return Set(try lostRecords(table).map { ItemKey($0.itemID) })
    }

    /// Returns the facts about a table's rows from before a restore; nil if there are none.
    func former(_ table: String) throws -> FormerRows? {
        try config(table, "", PullCursor.formerRowsType).map(FormerRows.init)
    }

    /// Returns whether the table was ever pulled, from any endpoint.
    func wasPulled(_ table: String) throws -> Bool {
        let types = [PullCursor.Part.endpoint.rawValue, PullCursor.tableEpochType]
        let kept: Filter = .isIn("keyType", types.map { .integer(Int64($0)) })
        return try store.count(kept && .equal("table", .string(table)), in: SystemTables.config) > 0
    }

    /// Returns whether the server sent an epoch of the table's rows, from any endpoint.
    func knowsEpoch(of table: String) throws -> Bool {
        let types = [
            PullCursor.Part.epoch.rawValue, PullCursor.tableEpochType,
            PullCursor.firstSentEpochType,
        ]
        let isEpoch: Filter = .isIn("keyType", types.map { .integer(Int64($0)) })
        let query: Filter = isEpoch && .equal("table", .string(table))
        return try store.count(query, in: SystemTables.config) > 0
    }

    /// Returns the epoch of a table's rows at an endpoint.
    ///
    /// A store from an older version has it only in its cursors; an epoch other than `epoch` then takes
    /// precedence.
    func epoch(_ table: String, endpoint: String, otherThan epoch: String?) throws -> String? {
        if let known = try config(table, endpoint, PullCursor.tableEpochType) { return known }
        let query = TableQuery(filter: .equal("table", .string(table)))
        var (epochs, endpoints) = ([String: String](), [String: String]())
        for row in try store.rows(query, in: SystemTables.config) {
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
}

/// The fact that a table may have rows from before a restore.
struct FormerRows: Hashable, Sendable {
    enum Cause: String {
        /// The epoch changed.
        case found
        /// The epoch changed, and the event was sent to the app.
        case reported
        /// Rows were sent before the table was pulled for the first time, so that a restore is possible, but
        /// not known.
        case sent
    }

    var cause: Cause
    var restore: RestorePoint

    init(_ cause: Cause, restore: RestorePoint) {
        self.cause = cause
        self.restore = restore
    }

    /// Parses the stored string: a word, a space, and the commit of the restore.
    init(_ text: String) {
        let parts = text.split(separator: " ")
        cause = parts.first.flatMap { Cause(rawValue: String($0)) } ?? .found
        restore = RestorePoint(commit: parts.count == 2 ? Int64(parts[1]) : nil)
    }

    var text: String { cause.rawValue + (restore.commit.map { " \($0)" } ?? "") }
}

extension QueueTransaction {
    func put(_ record: LostRecord) throws {
        try store.put([record.row], in: SystemTables.lost)
    }

    func removeLost(_ table: String, _ itemID: String) throws {
        try store.delete(ids: [LostRecord.key(table, itemID)], in: SystemTables.lost)
    }

    /// Handles the epoch of a page before the page is stored.
    ///
    /// If the rows of the table have a different epoch, all of them get the bit of former rows, and the lost rows are
    /// requested again. The same applies to rows that this device sent before it pulled the table for the first time,
    /// because they may have been sent to several epochs, or to a server that sends no epoch with responses to writes.
    func meet(_ epoch: String?, endpoint: String, _ table: String) throws {
        try noteReader(of: table)
        guard let epoch else { return }
        let known = try reader.epoch(table, endpoint: endpoint, otherThan: epoch)
        if let known, known != epoch {
            try markFormerRows(table, keepsUnclaimed: reader.isShared(table))
            for var record in try reader.lostRecords(table) where record.isChecked {
                record.isChecked = false
                try put(record)
            }
            // Rows that remain from an earlier restore are compared with that restore. Rows that were sent
            // before the first pull are no longer requested.
            let former = try reader.former(table)
            let earlier = former?.cause == .sent ? nil : former.map { $0.restore.commit }
            let commit = RestorePoint(epoch: epoch).commit
            let point: Int64? =
                if let earlier {
                    if let earlier, let commit { min(earlier, commit) } else { nil }
                } else {
                    commit
                }
            try setFormer(
                FormerRows(.found, restore: RestorePoint(commit: point)),
                table
            )
        } else if known == nil, try !reader.wasPulled(table), try markFormerRows(table) > 0 {
            // A restore is reported only if rows are lost. Its latest commit is unknown.
            try setFormer(
                FormerRows(.sent, restore: RestorePoint(commit: nil)),
                table
            )
        }
        _ = try set(epoch, table, endpoint, PullCursor.tableEpochType)
    }

    /// Handles the epochs that responses to a push have shown, before their rows are stored.
    func meet(_ new: NewEpochs?) throws {
        guard let new else { return }
        for (table, epoch) in new.epochs.sorted(by: { $0.key < $1.key }) {
            try meet(epoch, endpoint: new.endpoint, table)
        }
    }

    /// Sets the bit of former rows, and returns the number of rows.
    ///
    /// If `keepsUnclaimed`, a row that no query with an id holds also gets the bit of pulls without an id, which
    /// no read clears. Such a row may belong to any account of the device, so that it is not requested by its id.
    @discardableResult
    private func markFormerRows(_ table: String, keepsUnclaimed: Bool = false) throws -> Int {
        var last: Value?
        var count = 0
        while true {
            var query = TableQuery(filter: last.map { .greater(SystemColumn.id, $0) })
            query.order = [SortKey(column: SystemColumn.id)]
            query.limit = Self.rowsAtOnce
            let rows = try unmasked.inner.rows(query, in: table)
            for row in rows where row.isFromServer {
                var mask = (MembershipMask.bits(row) ?? 0) | MembershipMask.former
                if keepsUnclaimed, mask == MembershipMask.former {
                    mask |= MembershipMask.withoutID
                }
                try unmasked.inner.setMask(mask, of: row, in: table)
                count += 1
            }
            guard rows.count == Self.rowsAtOnce else { return count }
            last = rows.last?["id"]
        }
    }

    private static let rowsAtOnce = 1000

    /// Clears the bit of former rows if responses to a push contain a later state than any that is known here.
    ///
    /// The epoch is known, so these responses come from the restored server.
    /// If the bit remained, the row would count as lost after a later change of another device.
    func noteAnswered(_ decidedOperations: [DecidedOperation]) throws {
        var former: [String: Bool] = [:]
        for decided in decidedOperations {
            let operation = decided.operation
            guard let row = decided.serverRow else { continue }
            let hasFormer = try former[operation.table] ?? (reader.former(operation.table) != nil)
            former[operation.table] = hasFormer
            guard hasFormer,
                let stored = try unmasked.inner.row(
                    id: .string(operation.itemID),
                    in: operation.table
                ),
                let mask = MembershipMask.bits(stored), mask & MembershipMask.former != 0
            else { continue }
            let known = [stored, operation.basis.base, operation.basis.latest?.row]
            guard known.allSatisfy({ $0?.isLater(than: row) != true }) else { continue }
            try unmasked.inner.setMask(
                mask & ~MembershipMask.former,
                of: stored,
                in: operation.table
            )
        }
    }

    /// Stores that the server has lost a row, and has replaced it with another state.
    ///
    /// The next pull reports it.
    func lose(_ table: String, _ itemID: String, server row: Row) throws {
        guard let stored = try unmasked.inner.row(id: .string(itemID), in: table) else { return }
        let mask = (MembershipMask.bits(stored) ?? 0) & ~MembershipMask.former
        try unmasked.inner.setMask(mask, of: stored, in: table)
        try put(
            LostRecord(table: table, itemID: itemID, account: account.id, server: .row(row))
        )
        let restore = try reader.former(table)?.restore ?? RestorePoint(commit: nil)
        try setFormer(FormerRows(.found, restore: restore), table)
    }

    /// Returns whether a restored server may have lost the base row of an operation.
    ///
    /// The server's newest known state is earlier than the base row, or the server has no row and has not sent one
    /// since the restore.
    func mayHaveLostBase(of operation: QueuedOperation) throws -> Bool {
        let table = operation.table
        guard operation.kind != .insert, let base = operation.basis.base else { return false }
        switch operation.basis.latest {
        case .row(let row):
            // The restore point is not compared, because the base row may be a response of the restored server.
            let isLost = RestorePoint(commit: nil)
                .hasLost(catalog.synced(base, in: table), server: catalog.synced(row, in: table))
            return try isLost && reader.knowsEpoch(of: table)
        case .deleted(let version, _):
            let tombstone: Row = ["version": version.map(Value.string) ?? .null]
            // A device deleted the row later, on purpose.
            if let mine = base.commit, let theirs = tombstone.commit, theirs > mine { return false }
            let id = Value.string(operation.itemID)
            let stored = try unmasked.inner.row(id: id, in: table)
            let mask = stored.flatMap(MembershipMask.bits) ?? 0
            return mask & MembershipMask.former != 0
        case nil:
            return false
        }
    }

    /// Replaces the local row with the base row of a removed operation, because a restored server may have
    /// lost the base row.
    ///
    /// If the server has an older state, the row becomes a lost row. If the server has no row, the next
    /// pull requests the row, and finds out whether it is lost.
    func keepBase(of operation: QueuedOperation) throws {
        guard let base = operation.basis.base else { return }
        let table = operation.table
        // If the row was deleted here, membership changes that queries reported in the meantime were not stored.
        if try store.row(id: .string(operation.itemID), in: table) == nil {
            try resetCursors(table)
        }
        try store.put([JSONRowReader.withoutDeleted(base)], in: table)
        guard case .row(let row) = operation.basis.latest else { return }
        try lose(table, operation.itemID, server: row)
    }

    func setFormer(_ rows: FormerRows?, _ table: String) throws {
        _ = try set(rows?.text, table, "", PullCursor.formerRowsType)
    }

    /// Sends a lost row again.
    func sendLostAgain(_ record: LostRecord) throws {
        let (table, id) = (record.table, record.itemID)
        defer { watch?.changed(1, in: table) }
        guard try store.row(id: .string(id), in: table) != nil,
            try reader.operations(table, id).isEmpty
        else { return try removeLost(table, id) }
        let change = QueuedOperation(table: table, itemID: id, kind: .update)
        try append(try takeOver(record, for: change))
    }

    /// Replaces the record of a lost row with an operation that is based on the restored server's state.
    func takeOver(_ record: LostRecord, for change: QueuedOperation) throws -> QueuedOperation {
        let (table, id) = (record.table, record.itemID)
        try removeLost(table, id)
        if var row = try unmasked.inner.row(id: .string(id), in: table) {
            // As for any row that is written on this device, every query will report it.
            let bits = try unmasked.newBits(table)
            row[MembershipMask.name] = bits == 0 ? .null : .integer(bits)
            try unmasked.inner.put([row], in: table)
        }
        return record.based(change)
    }

    /// Replaces a lost row with the server's row.
    func discardLost(_ record: LostRecord) throws {
        let (table, id) = (record.table, Value.string(record.itemID))
        defer { watch?.changed(1, in: table) }
        try removeLost(table, record.itemID)
        guard try reader.operations(table, record.itemID).isEmpty else { return }
        guard case .row(let row) = record.server,
            let stored = try unmasked.inner.row(id: id, in: table)
        else {
            try store.delete(ids: [id], in: table)
            if case .deleted = record.server {
                try LocalChildren(queue: self).follow(deletesOf: [record.itemID], in: table)
            }
            return
        }
        var server = JSONRowReader.withoutDeleted(row)
        let mask = (MembershipMask.bits(stored) ?? 0) & ~MembershipMask.former
        server[MembershipMask.name] = .integer(mask)
        try unmasked.inner.put([server], in: table)
        try confirmHolders(of: row, table)
        try removeRowWithoutQuery(record.itemID, table)
    }
}

extension QueueTransaction {
    /// Renames the lost rows of tables whose names differ from the app's in letter case.
    func takeOverRenamedLostRows() throws {
        for row in try store.rows(TableQuery(), in: SystemTables.lost) {
            guard let table = row["table"]?.text, let itemID = row["itemId"]?.text,
                let name = catalog.schema(table)?.name, name != table, let id = row["id"],
                try reader.lost(name, itemID) == nil
            else { continue }
            var renamed = row
            renamed["id"] = LostRecord.key(name, itemID)
            renamed["table"] = .string(name)
            try store.delete(ids: [id], in: SystemTables.lost)
            try store.put([renamed], in: SystemTables.lost)
        }
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
