// WriteRound: what a transaction does with rows that other transactions hold.
//
//     normally       waits for each of them, for a moment, and fails if a wait takes longer
//     passing held   skips the rows that other transactions hold: batches that need them are missing locks

import TidelinePostgres
import TidelineServerCore

/// Another transaction held a row for longer than a transaction waits for that.
struct HeldTimeout: Error {}

/// Another transaction held a table, or its clock, for longer than a transaction waits for that.
struct HeldTable: Error {
    let clock: String
}

/// The statements of a transaction's beginning that may wait, by their indexes.
struct WaitingStatements {
    /// The statements that lock a table, or its clock; by the name of the clock.
    var tables: [Int: String] = [:]
    /// The statements that lock rows.
    var rows: Set<Int> = []

    /// Returns what the failure of a statement means.
    func refusal(_ error: PostgresError) -> any Error {
        guard error.isOverTime, let place = error.place else { return error }
        if let clock = tables[place] { return HeldTable(clock: clock) }
        return rows.contains(place) ? HeldTimeout() : error
    }
}

extension PostgresError {
    /// Whether it waited for too long: for one lock, or for several that each came in time.
    var isOverTime: Bool { isLockTimeout || isCanceled }
}

extension WriteRound {
    /// Marks the rows that exist and were not locked: another transaction holds them, or they were inserted a moment
    /// ago.
    mutating func markHeld(_ ids: [String], _ table: PostgresTable, locked: PostgresResult) {
        let locked = Set((0..<locked.count).map { locked.text($0, 0) })
        for id in ids where !locked.contains(id) {
            let key = RowKey(table: table.clock, id: id)
            if state.rows[key]?.stored != nil { state.heldRows.insert(key) }
        }
    }

    /// Returns the rows that a batch needs and that other transactions hold.
    func missing(_ job: PostgresJob) -> Set<HeldLock> {
        var locks: Set<HeldLock> = []
        for write in job.groups.lazy.joined() where !write.table.table.needsGrowth {
            let key = RowKey(table: write.table.clock, id: write.operation.id)
            let row = state.rows[key]?.stored
            // A caller who does not see a row must not learn from a wait that it exists; nothing is written.
            if let row, !row.isVisible(in: write.operation.view, of: write.table.table) { continue }
            if state.heldRows.contains(key) { locks.insert(.row(key)) }
        }
        return locks
    }
}
