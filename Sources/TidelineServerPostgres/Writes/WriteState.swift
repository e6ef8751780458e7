// WriteState: plans writes in memory.
//
// Rows are planned in memory, on top of the rows that were read and planned before. Nothing is sent until all writes
// are planned, so a group that fails is undone by restoring the state.

import TidelineCore
import TidelineServerCore

/// The identity of a row in a transaction: its table and its id.
struct RowKey: Hashable, Sendable {
    /// The table's name in lower case.
    let table: String
    let id: String
}

/// The rows, clocks and keys that a transaction has read, and its planned writes.
struct WriteState {
    /// A row as it is in the database and as it is after the transaction.
    struct Cell {
        var stored: RowImage?
        var planned: RowImage?
    }

    struct Clock {
        /// The last assigned timestamp.
        var timestamp: Int64
        /// When a list last ended within a millisecond whose rows its reader counts.
        var counted: Int64
        /// Whether this transaction has assigned a timestamp.
        var hasMoved = false
    }

    struct Departure: Hashable {
        var clock: String
        var millisecond: Int64
    }

    /// The rows that were read; a row that does not exist has no image.
    var rows: [RowKey: Cell] = [:]
    /// The rows that other transactions have locked, if they are skipped.
    var lockedRows: Set<RowKey> = []
    var clocks: [String: Clock] = [:]
    /// The schema versions of the tables, if they are known.
    var forms: [String: Int64] = [:]
    /// The former schema versions of tables that the transaction has changed.
    var formsBefore: [String: Int64] = [:]
    /// The tables to which the transaction has added columns, by their clocks.
    var grownTables: [String: PostgresTable] = [:]
    /// Whether external triggers, rules or foreign keys may change rows of the transaction, or prevent changes.
    var hasExternalEffects = false
    /// The ledger's entries for the keys of this transaction; nil for a key without an entry.
    var ledger: [LedgerKey: LedgerEntry?] = [:]
    var ledgerHorizons: [String: Int64] = [:]
    /// The bytes of the entries of this transaction, by caller.
    var charges: [String: Int] = [:]

    // The planned writes.
    var tables: [String: PostgresTable] = [:]
    var touched: Set<RowKey> = []
    /// The changed rows in the order of their first change.
    var order: [RowKey] = []
    var puts: [(key: LedgerKey, received: Int64, entry: LedgerEntry)] = []
    var logged: [(table: PostgresTable, timestamp: Int64, isDeleted: Bool, image: RowImage)] = []
    var bases: [(table: PostgresTable, image: RowImage)] = []
    var droppedBases: [RowKey] = []
    var departures: [Departure: Int64] = [:]
    /// The audit entries; each belongs to a change that advances a clock.
    var audits: [AuditEntry] = []
    /// The clocks that were advanced since the last flush.
    var moved: Set<String> = []
    /// The deleted rows whose children are pending.
    var cascades: [PendingCascade] = []
    /// Such rows of a dry run, which are never stored: a sequence would keep the position of a row that is undone.
    var rehearsedCascades: [PendingCascade] = []
    /// The positions of pending cascades that have ended.
    var endedCascades: [Int64] = []

    /// Whether no other transaction can check references until this one ends.
    ///
    /// The lock is part of the state, because a rollback to a savepoint releases it.
    var holdsNewParents = false
    /// The rows that refer to other rows.
    var children = KnownChildren()
    /// The tables with pending cascades in the database, in lower case; nil until they were read.
    var pendingTables: Set<String>?

    /// Whether there is nothing to write.
    var isEmpty: Bool {
        touched.isEmpty && puts.isEmpty && logged.isEmpty && moved.isEmpty && bases.isEmpty
            && droppedBases.isEmpty && departures.isEmpty && cascades.isEmpty
            && endedCascades.isEmpty
    }

    /// Records that the planned writes were sent in the transaction.
    mutating func flushed() {
        for key in touched {
            let planned = rows[key]?.planned
            rows[key]?.stored = planned
        }
        touched = []
        order = []
        puts = []
        logged = []
        bases = []
        droppedBases = []
        departures = [:]
        audits = []
        moved = []
        pendingTables?.formUnion(cascades.map { $0.table.lowercased() })
        cascades = []
        endedCascades = []
    }

    /// Discards the rows, because tables with a new schema version have to be read again.
    mutating func forgetRows() {
        rows = [:]
        children = KnownChildren()
    }

    /// Adds the plan for a row.
    mutating func take(
        _ change: WritePlan.Change,
        timestamp: Int64,
        of table: PostgresTable,
        now: Int64
    ) {
        let clock = table.clock
        switch change {
        case .nothing: return
        case .insert(let image): put(image, image.id, of: table)
        case .update(let image, _, let old):
            leaves(old, clock, now)
            if table.keepsBases {
                if image.isDeleted, table.table.definition.tombstones == .bare {
                    forgetBases(of: old.id, table)
                } else {
                    bases.append((table, old))
                }
            }
            if table.log.isNeeded(for: old, image) {
                logged.append((table, timestamp, image.isDeleted, table.log.loggedPart(old)))
            }
            put(image, old.id, of: table)
        case .remove(let old):
            leaves(old, clock, now)
            logged.append((table, timestamp, true, table.log.loggedPart(old)))
            put(nil, old.id, of: table)
            if table.keepsBases { forgetBases(of: old.id, table) }
        }
        clocks[clock]?.timestamp = timestamp
        clocks[clock]?.hasMoved = true
        moved.insert(clock)
    }

    private mutating func forgetBases(of id: String, _ table: PostgresTable) {
        bases.removeAll { $0.table.clock == table.clock && $0.image.id == id }
        droppedBases.append(RowKey(table: table.clock, id: id))
    }

    private mutating func put(_ image: RowImage?, _ id: String, of table: PostgresTable) {
        let key = RowKey(table: table.clock, id: id)
        tables[table.clock] = table
        rows[key, default: Cell()].planned = image
        if let image { children.plan(image, of: table) }
        if touched.insert(key).inserted { order.append(key) }
    }

    /// Records that a row is about to be removed or to get another time.
    private mutating func leaves(_ old: RowImage, _ clock: String, _ now: Int64) {
        guard isCounted(clock, now) else { return }
        let place = Departure(clock: clock, millisecond: old.updatedAt / 1000)
        departures[place, default: 0] += 1
    }

    func isCounted(_ clock: String, _ now: Int64) -> Bool {
        guard let counted = clocks[clock]?.counted, counted > 0 else { return false }
        return now - counted < PostgresClock.countedTime
    }
}
