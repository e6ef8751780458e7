// LockTimeouts: the errors of a transaction that waits for rows and tables that other transactions have locked.
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
    func rejection(_ error: PostgresError) -> any Error {
        guard error.isOverTime, let place = error.place else { return error }
        if let clock = tables[place] { return TableLockTimeout(clock: clock) }
        return rows.contains(place) ? RowLockTimeout() : error
    }
}

extension PostgresError {
    /// Whether a statement waited too long, for one lock or for several together.
    var isOverTime: Bool { isLockTimeout || isCanceled }
}
