// PageApply: stores a page's rows and removals, and updates the query membership of the rows.
//
// A row with pending operations is not changed. Instead, the server's row is stored separately, so
// that the cursor can advance without losing the row. A row is removed when no query holds it.

import TidelineCore

/// The application of pulled pages to one table, in the transaction that also stores the query's
/// cursor.
struct PageApply {
    let queue: QueueTransaction
    let table: String
    /// The bit of the query.
    let bit: Int64
    /// The bit to clear if the query no longer holds a row; 0 if other queries with the same bit
    /// may hold the row.
    private let leavingBit: Int64
    /// The bits of former reads, while a complete read is running; otherwise nil.
    let formerBits: Int64?
    /// The bits of all other queries of the table.
    private let otherBits: Int64
    private let store: any LocalStoreWriter
    private let pending: Set<ItemKey>
    /// The rows that a restored server has lost.
    private let lost: Set<ItemKey>
    /// The rows from before the server was restored; nil if there are none.
    private let former: FormerRows?
    private var hasFormer: Bool { former != nil }
    /// The bit that flagged rows keep at the end of a read because they may belong to another
    /// account; 0 if only one account uses the table.
    private let unclaimedBit: Int64

    init(queue: QueueTransaction, table: String, hold: QueryHold) throws {
        self.queue = queue
        self.table = table
        bit = hold.bit
        leavingBit = hold.isShared ? 0 : hold.bit
        formerBits = hold.formerBits
        otherBits = try queue.unmasked.taken(table) & ~hold.bit & ~(hold.formerBits ?? 0)
        store = queue.unmasked.inner
        pending = try queue.reader.pendingIDs(table)
        lost = try queue.reader.lostRecords.ids(in: table)
        former = try queue.reader.epochs.formerRows(of: table)
        let isShared = try former != nil && queue.reader.tableAccounts.isShared(table)
        unclaimedBit = isShared ? MembershipMask.withoutID : 0
    }

    /// The numbers of rows that were stored and removed.
    struct Counts: Sendable, Hashable {
        var applied = 0
        var removed = 0
        /// The number of rows without a usable id.
        var withoutID = 0
        /// The number of rows of which the restored server has only an older state.
        var lost = 0
        /// Whether anything was written, including writes that are not counted.
        var isWritten = false

        mutating func add(_ other: Counts) {
            applied += other.applied
            removed += other.removed
            withoutID += other.withoutID
            lost += other.lost
            isWritten = isWritten || other.isWritten
        }
    }

    /// Stores the rows of a page, in order; for `since`, see the method for an array of rows.
    func apply(_ page: PulledPage, since: Timestamp?) throws -> Counts {
        guard let cells = page.cells else { return try apply(page.rows, since: since) }
        // If the device has stored no facts that matter for these rows, the rows are stored
        // unchanged.
        guard formerBits != nil, since == nil, otherBits == 0, pending.isEmpty, lost.isEmpty,
            !hasFormer
        else {
            let schema = queue.catalog.schema(table)
            return try apply(PulledPage.rows(of: cells, schema: schema), since: since)
        }
        guard cells.rowCount > 0 else { return Counts() }
        let schema = queue.catalog.schema(table)
        try store.put(page: RowPage(cells, bits: bit, schema: schema), in: table)
        return Counts(applied: cells.rowCount, isWritten: true)
    }

    /// Stores rows, in order.
    ///
    /// `since` is the time from which the page was requested. The previous pull has already stored
    /// rows of exactly that time, so they count only if they differ. Rows that are already stored
    /// are not written again. Rows without a usable id are skipped and counted.
    func apply(_ rows: [Row], since: Timestamp?) throws -> Counts {
        var counts = Counts()
        var puts: [Row] = []
        puts.reserveCapacity(rows.count)
        var deletes: [Value] = []
        var (ids, deleted) = (RowMember(SystemColumn.id), RowMember(SystemColumn.deleted))
        var masks = MaskWriter()
        var (updatedAt, removed) = (RowMember(SystemColumn.updatedAt), RowMember(Removal.name))
        for row in rows {
            guard let id = ids.value(in: row), case .string(let text) = id, !text.isEmpty else {
                counts.withoutID += 1
                continue
            }
            let removal = removed.value(in: row).map(Removal.init)
            if !pending.isEmpty, pending.contains(ItemKey(text)) {
                try keep(row, removal, text, id, &counts)
                continue
            }
            if try isRecordedLost(text) {
                try meetLost(row, removal, text, &counts)
                continue
            }
            // Rows are stored and removed in runs, so that the later of two rows with the same id
            // wins.
            if removal == .changed {
                try store(&puts, &counts)
                try remove(&deletes, &counts)
                try release(id, leavingBit, &counts)
                continue
            }
            let isTombstone = deleted.value(in: row) == true
            if removal == .deleted || isTombstone {
                try store(&puts, &counts)
                if isTombstone, hasFormer, try isLost(row, id, &counts) { continue }
                deletes.append(id)
                continue
            }
            try remove(&deletes, &counts)
            var isBoundary = false
            if let since, case .date(let date) = updatedAt.value(in: row) {
                isBoundary = Timestamp(date) <= since
            }
            var bits = bit
            if formerBits == nil || isBoundary || otherBits != 0 || hasFormer {
                if hasFormer, try isLost(row, id, &counts) { continue }
                let stored = try store.row(id: id, in: table)
                let own = stored.flatMap(MembershipMask.bits) ?? 0
                if formerBits == nil || isBoundary, let version = stored?.version,
                    version == row.version, own & bit != 0, own & MembershipMask.former == 0
                {
                    // On a page of changes, this row is the result of this device's own push.
                    if !isBoundary { counts.applied += 1 }
                    continue
                }
                bits |= own & otherBits
            }
            puts.append(masks.row(deleted.removed(from: row), bits: bits))
        }
        try store(&puts, &counts)
        try remove(&deletes, &counts)
        return counts
    }

    /// Replaces the stored rows, whatever their state.
    func replace(_ rows: [Row]) throws {
        var deleted = RowMember(SystemColumn.deleted)
        let masked = try rows.map { row in
            let stored = try row["id"].flatMap { try store.row(id: $0, in: table) }
            var masked = deleted.removed(from: row)
            masked[MembershipMask.name] = .integer(
                bit | (stored.flatMap(MembershipMask.bits) ?? 0) & otherBits
            )
            return masked
        }
        try store.put(masked, in: table)
    }

    /// Clears bits in the masks of rows, and removes the rows that have no bit left.
    func release(_ ids: [String], bits: Int64) throws {
        var counts = Counts()
        for id in ids { try release(.string(id), bits, &counts) }
    }

    /// Removes rows that the server has deleted.
    func remove(deleted ids: [String]) throws {
        var (ids, counts) = (ids.map(Value.string), Counts())
        try remove(&ids, &counts)
    }

    private func store(_ rows: inout [Row], _ counts: inout Counts) throws {
        guard !rows.isEmpty else { return }
        try store.put(rows, in: table)
        counts.applied += rows.count
        counts.isWritten = true
        rows.removeAll(keepingCapacity: true)
    }

    /// Removes rows that the server has deleted, and applies the delete rules of local records that
    /// refer to them.
    private func remove(_ ids: inout [Value], _ counts: inout Counts) throws {
        guard !ids.isEmpty else { return }
        let removed = try store.delete(ids: ids, in: table)
        counts.removed += removed
        if removed > 0 { counts.isWritten = true }
        try LocalChildren(queue: queue).follow(deletesOf: ids.compactMap(\.text), in: table)
        ids.removeAll(keepingCapacity: true)
    }

    /// Returns a row of the table without the columns that stay on the device.
    private func synced(_ row: Row) -> Row { queue.catalog.synced(row, in: table) }

    private func isRecordedLost(_ id: String) throws -> Bool {
        if !lost.isEmpty, lost.contains(ItemKey(id)) { return true }
        // While there are rows from before a restore, any page may have recorded more lost rows.
        return try hasFormer && queue.reader.lostRecords.record(table, id) != nil
    }

    /// Returns whether the restored server has lost a row that was pulled before the restore.
    ///
    /// If so, records the loss together with the server's row, and leaves the local row unchanged.
    private func isLost(_ row: Row, _ id: Value, _ counts: inout Counts) throws -> Bool {
        guard let stored = try store.row(id: id, in: table), let own = MembershipMask.bits(stored),
            own & MembershipMask.former != 0,
            former?.restore.hasLost(synced(stored), server: synced(row)) == true
        else { return false }
        let isTombstone = row[SystemColumn.deleted] == true
        let record = LostRecord(
            table: table,
            itemID: id.text ?? "",
            account: queue.account.id,
            server: ServerState(row)
        )
        try queue.lostRecords.put(record)
        let mask = own & (otherBits | (formerBits ?? 0)) | (isTombstone ? 0 : bit)
        try store.setMask(mask, of: stored, in: table)
        counts.lost += 1
        counts.isWritten = true
        return true
    }

    /// Handles a row that is recorded as lost.
    ///
    /// If the server has a different state of the row, the row remains lost until the app decides.
    private func meetLost(
        _ row: Row,
        _ removal: Removal?,
        _ id: String,
        _ counts: inout Counts
    ) throws {
        counts.isWritten = true
        let key = Value.string(id)
        if removal == .changed { return try release(key, leavingBit, &counts) }
        guard let stored = try store.row(id: key, in: table),
            var record = try queue.reader.lostRecords.record(table, id)
        else { return try queue.lostRecords.remove(table, id) }
        let isTombstone = row[SystemColumn.deleted] == true
        if removal == .deleted || isTombstone && !stored.isLater(than: row) {
            // Either another device resent the row and it was deleted later, or the row was deleted
            // after the restore.
            try queue.lostRecords.remove(table, id)
            var deleted = [key]
            return try remove(&deleted, &counts)
        }
        var mask = (MembershipMask.bits(stored) ?? 0) & ~MembershipMask.former
        if !isTombstone { mask |= bit }
        let isSame = stored.version == row.version || synced(stored).hasValues(of: synced(row))
        if !isTombstone, isSame {
            try queue.lostRecords.remove(table, id)
            var masked = JSONRowReader.withoutDeleted(row)
            masked[MembershipMask.name] = .integer(mask)
            try store.put([masked], in: table)
            counts.applied += 1
            return
        }
        record.server = ServerState(row)
        record.isChecked = true
        try queue.lostRecords.put(record)
        try store.setMask(mask, of: stored, in: table)
    }

    /// Clears bits in a row's mask.
    ///
    /// If no bit is left, the row is removed, unless it has pending operations or is lost.
    private func release(_ id: Value, _ bits: Int64, _ counts: inout Counts) throws {
        guard let row = try store.row(id: id, in: table) else { return }
        let mask = MembershipMask.bits(row) ?? 0
        let isFormer = mask & MembershipMask.former != 0
        let rest = mask & ~(isFormer ? bits & ~unclaimedBit : bits)
        counts.isWritten = true
        let item = id.text ?? ""
        if rest == 0, !pending.contains(ItemKey(item)), try !isRecordedLost(item) {
            counts.removed += try store.delete(ids: [id], in: table)
        } else if rest != mask || row[MembershipMask.name] == .null {
            try store.setMask(rest, of: row, in: table)
        }
    }

    /// Stores the server's state of a row with pending operations.
    private func keep(
        _ row: Row,
        _ removal: Removal?,
        _ id: String,
        _ key: Value,
        _ counts: inout Counts
    ) throws {
        counts.isWritten = true
        if removal == .changed { return try release(key, leavingBit, &counts) }
        var basis = try queue.reader.basis(table, id) ?? RowBasis()
        if let stored = try store.row(id: key, in: table), removal == nil {
            // The server has returned the row since the restore, so the state that will replace the
            // operation is new. A tombstone that is older than the base row comes from the backup.
            // In that case the flag stays, so that the row is requested when its operations are
            // complete.
            let mask = MembershipMask.bits(stored) ?? 0
            let isOfBackup =
                mask & MembershipMask.former != 0 && row[SystemColumn.deleted] == true
                && basis.base?.isLater(than: row) == true
            let shown = isOfBackup ? mask : (mask | bit) & ~MembershipMask.former
            if shown != mask { try store.setMask(shown, of: stored, in: table) }
        }
        let server = removal == .deleted ? .pulledDeletion : ServerState(row)
        // This state replaces any earlier one, because no push runs during a pull and a page always
        // has the newest state. After a restore, the state may have an earlier time, or may even be
        // the base row.
        let latest = isBase(server, basis.base) ? nil : server
        guard latest != basis.latest else { return }
        basis.latest = latest
        try queue.put(basis, table, id)
    }

    /// Returns whether a state of the server is the base row.
    ///
    /// If a column is added or renamed, the server returns the same version with more values.
    private func isBase(_ server: ServerState, _ base: Row?) -> Bool {
        guard let base, let version = base.version, version == server.version else { return false }
        guard let row = server.row else { return true }
        return synced(base).hasValues(of: synced(row))
    }

    // MARK: - The end of a read

    /// Ends a complete read, and removes the rows that it did not return and that no other query
    /// holds.
    func endReading() throws -> Counts {
        var counts = Counts()
        guard let formerBits else { return counts }
        var conditions = Self.bits(formerBits).map(Self.holds)
        if try queue.reader.membership.knowsAllHolders(of: table) {
            conditions.append(Self.mask(.eq, .null))
            conditions.append(Self.mask(.eq, .integer(0)))
        }
        guard !conditions.isEmpty else { return counts }
        let filter = Filter(
            conditions.count == 1 ? conditions[0] : QueryExpression(.any(conditions))
        )
        let unsent = pending.isEmpty ? [] : try queue.reader.unsentInserts(table)
        try eachID(filter) { id in
            if unsent.contains(ItemKey(id.text ?? "")) {
                try hold(id, insteadOf: formerBits, &counts)
            } else {
                try release(id, formerBits, &counts)
            }
        }
        return counts
    }

    /// Sets the bit of this query for a row that only this device has.
    ///
    /// The read could not return the row. After the server has accepted the row, the query will
    /// return it.
    private func hold(_ id: Value, insteadOf bits: Int64, _ counts: inout Counts) throws {
        guard let row = try store.row(id: id, in: table) else { return }
        let mask = MembershipMask.bits(row) ?? 0
        let newMask = mask & ~bits | bit
        guard newMask != mask else { return }
        counts.isWritten = true
        try store.setMask(newMask, of: row, in: table)
    }

    /// Removes the rows that no query holds anymore after a response to a push.
    func removeRowsWithoutQuery() throws -> Counts {
        var counts = Counts()
        guard try queue.reader.membership.hasRowsWithoutQuery(table) else { return counts }
        try eachID(Filter(Self.mask(.eq, .integer(0)))) { try release($0, 0, &counts) }
        try queue.membership.setHasRowsWithoutQuery(false, table)
        counts.isWritten = true
        return counts
    }

    /// Ends a read without a query id, and removes the rows that match the filter and were not
    /// returned.
    ///
    /// Without a filter, this applies to every row that the account may see, regardless of the
    /// queries that hold it. A row that only this device has stays until a later read without a
    /// query id does not return it.
    func endReading(_ filter: Filter?, seen: PulledIDs) throws -> Counts {
        var counts = Counts()
        let otherAccountBits = try queue.unmasked.otherAccountBits(table)
        let unsent = pending.isEmpty ? [] : try queue.reader.unsentInserts(table)
        try eachID(filter) { id in
            guard let text = id.text, !seen.contains(text) else { return }
            guard !unsent.contains(ItemKey(text)) else {
                return try hold(id, insteadOf: 0, &counts)
            }
            try release(
                id,
                filter == nil ? ~(otherAccountBits | MembershipMask.former) : bit,
                &counts
            )
        }
        return counts
    }

    /// Calls `body` with batches of the ids that match a filter, so that `body` may remove the
    /// rows.
    private func eachID(_ filter: Filter?, _ body: (Value) throws -> Void) throws {
        var last: Value?
        while true {
            let behind = last.map { Filter.greater(SystemColumn.id, $0) }
            var query = TableQuery()
            query.filter = behind.map { behind in filter.map { $0 && behind } ?? behind } ?? filter
            query.order = [SortKey(column: SystemColumn.id)]
            query.select = [SystemColumn.id]
            query.limit = Self.idsAtOnce
            let ids = try store.rows(query, in: table).compactMap { $0[SystemColumn.id] }
            for id in ids { try body(id) }
            guard ids.count == Self.idsAtOnce else { return }
            last = ids.last
        }
    }

    private static let idsAtOnce = 1000

    private static func bits(_ mask: Int64) -> [Int64] {
        (0...QueryHold.shared).map { 1 << Int64($0) }.filter { mask & $0 != 0 }
    }

    private static func mask(_ comparison: Comparison, _ value: Value) -> QueryExpression {
        .compare(
            comparison,
            QueryExpression(.field(MembershipMask.name)),
            QueryExpression(.value(value))
        )
    }

    /// Returns a condition that tests whether a mask has a bit: the mask divided by the bit is odd.
    private static func holds(_ bit: Int64) -> QueryExpression {
        let mask = QueryExpression(.field(MembershipMask.name))
        let quotient = QueryExpression(
            .arithmetic(.div, mask, QueryExpression(.value(.integer(bit))))
        )
        let two = QueryExpression(.value(.integer(2)))
        let rest = QueryExpression(.arithmetic(.mod, quotient, two))
        return .compare(.eq, rest, QueryExpression(.value(.integer(1))))
    }
}

/// The reason why a page of changes reports a row as removed.
enum Removal: Hashable {
    /// The row is deleted on the server.
    case deleted
    /// The row no longer matches the query's filter or the caller's visibility filter.
    case changed

    /// The JSON member of a removed row.
    static let name = "@removed"

    init(_ value: Value) {
        guard case .json(let json) = value, let row = RowText.row(Array(json.text.utf8), nil),
            row["reason"]?.text == "deleted"
        else {
            self = .changed
            return
        }
        self = .deleted
    }
}

/// The rows that a read returned, as hashes of their ids with 16 bytes each.
struct PulledIDs: Sendable {
    private var hashes: Set<UInt64> = []

    mutating func insert(_ page: PulledPage) {
        for row in page.rows { hashes.insert(Self.hash(row.id.utf8)) }
        page.cells?.forEachID { hashes.insert(Self.hash($0)) }
    }

    /// Returns whether the read returned a row.
    ///
    /// Once in many millions of reads, a hash collision makes this true for a row that was not
    /// returned. The next read removes that row.
    func contains(_ id: String) -> Bool { hashes.contains(Self.hash(id.utf8)) }

    /// Returns the FNV-1a hash of bytes.
    private static func hash(_ id: some Sequence<UInt8>) -> UInt64 {
        var hash: UInt64 = 14_695_981_039_346_656_037
        for byte in id { hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211 }
        return hash
    }
}
