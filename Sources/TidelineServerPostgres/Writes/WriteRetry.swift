// WriteRetry: decides whether and how a failed transaction is repeated.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The state of a transaction that may be retried.
///
/// It only decides: the caller waits and repeats the transaction.
struct WriteRetry {
    enum Action {
        /// Retry the transaction after this many seconds.
        case retry(after: Double)
        case reject(any Error)
    }

    /// Whether each group has a savepoint, because one of them failed or waited too long for a lock.
    private(set) var isApart: Bool
    /// Whether each group waits only briefly for locks.
    private(set) var limitsGroupLocks: Bool
    /// Whether rows that other transactions have locked are skipped.
    private(set) var skipsLocked: Bool
    /// The clocks of the tables that are skipped, because another transaction has locked the table or its
    /// clock.
    private(set) var lockedTables: Set<String>
    private var tries = 0
    private var lostConnections = 0

    private static let triesMax = 5

    init(skipsLocked: Bool, without lockedTables: Set<String>, limitsGroupLocks: Bool = false) {
        isApart = limitsGroupLocks
        self.limitsGroupLocks = limitsGroupLocks
        self.skipsLocked = skipsLocked
        self.lockedTables = lockedTables
    }

    mutating func failed(_ error: any Error, isBroken: Bool) -> Action {
        if error is RowLockTimeout {
            guard !skipsLocked else { return .reject(ServerError.writesWait) }
            skipsLocked = true
            return .retry(after: 0)
        }
        if let timeout = error as? TableLockTimeout {
            skipsLocked = true
            let isNew = lockedTables.insert(timeout.clock).inserted
            return isNew ? .retry(after: 0) : .reject(ServerError.writesWait)
        }
        if error is NeedsSavepoints, !isApart {
            isApart = true
            return .retry(after: 0)
        }
        guard let error = error as? PostgresError else { return .reject(error) }
        if error.isConnectionLost || isBroken {
            // The connection may have been lost before the transaction began.
            lostConnections += 1
            return lostConnections > 1 ? .reject(ServerError.databaseAway) : .retry(after: 0)
        }
        // Another transaction may have inserted the same id or key; equal values of a row remain.
        let isOfRow = error.isUniqueViolation && error.constraint != SystemColumn.id
        if error.isTransient || error.isUniqueViolation && !(isOfRow && error.isOfDeclaredTable) {
            tries += 1
            if tries < Self.triesMax { return .retry(after: 0.002 * Double(tries * tries)) }
            if error.isTransient { return .reject(ServerError.notCommitted) }
        }
        if error.isLockTimeout, !limitsGroupLocks {
            // Repeats with savepoints, so that only the groups that need the lock are rejected.
            isApart = true
            limitsGroupLocks = true
            return .retry(after: 0)
        }
        let rejection = PostgresRejection.ofWrite(error)
        // A trigger may name a table or a column that does not exist.
        let states = ["54000", "P0001", "P0004", "42P01", "42703"]
        let isRowError = ["22", "23"].contains(error.category) || states.contains(error.state)
        if isApart || !(isRowError || !(rejection is ServerError)) { return .reject(rejection) }
        isApart = true
        return .retry(after: 0)
    }
}

extension PostgresError {
    /// Whether the error is about a table that is not one of the server's own.
    fileprivate var isOfDeclaredTable: Bool { relation.map { $0.schema != "tideline" } ?? false }
}
