// PostgresWriteTransaction: the handling of rows that other transactions have locked.
//
//     usual             waits for each of them for a short time, and fails if one wait takes longer
//     skipping locked   skips the rows that other transactions have locked (SKIP LOCKED): batches that need them wait

import TidelinePostgres
import TidelineServerCore

/// The error if another transaction has locked a row for longer than a transaction waits.
struct RowLockTimeout: Error {}

/// The error if another transaction has locked a table or its clock for longer than a transaction waits.
struct TableLockTimeout: Error {
    let clock: String
}

/// The statements at the beginning of a transaction that may wait for locks, by their indexes.
struct WaitingStatements {
    /// The statements that lock a table or its clock, with the clock's name.
    var tables: [Int: String] = [:]
    /// The statements that lock rows.
    var rows: Set<Int> = []

    /// Converts the timeout of a waiting statement to ``TableLockTimeout`` or ``RowLockTimeout``; keeps other errors.
    func refusal(_ error: PostgresError) -> any Error {
        guard error.isOverTime, let place = error.place else { return error }
        if let clock = tables[place] { return TableLockTimeout(clock: clock) }
        return rows.contains(place) ? RowLockTimeout() : error
    }
}

extension PostgresError {
    /// Whether a statement waited too long, for one lock or for several together.
    var isOverTime: Bool { isLockTimeout || isCanceled }
}

extension PostgresWriteTransaction {
    /// Records the existing rows that could not be locked, because another transaction has locked or just
    /// inserted them.
    mutating func noteLocked(_ ids: [String], _ table: PostgresTable, locked: PostgresResult) {
        let locked = Set((0..<locked.count).map { locked.text($0, 0) })
        for id in ids where !locked.contains(id) {
            let key = RowKey(table: table.clock, id: id)
            if state.rows[key]?.stored != nil { state.lockedRows.insert(key) }
        }
    }

    /// Returns the locks of rows that a batch needs and that other transactions hold.
    func missing(_ batch: PostgresBatch) -> Set<ContendedLock> {
        var locks = missingReferences(batch)
        for (group, tables) in zip(batch.batch.groups, batch.tables) {
            for (write, table) in zip(group.writes, tables) where !table.table.needsGrowth {
                let key = RowKey(table: table.clock, id: write.operation.id)
                let row = state.rows[key]?.stored
                // A caller who may not see a row must not learn from a wait that it exists; nothing is written to it.
                if let row, !row.isVisible(in: write.operation.view, of: table.table) { continue }
                if state.lockedRows.contains(key) { locks.insert(.row(key)) }
            }
        }
        return locks
    }
}
