// WriteRetry: whether a transaction that failed begins anew, and how.

import TidelinePostgres
import TidelineServerCore

/// What becomes of a transaction that failed.
///
/// Pure: how long to wait comes out.
struct WriteRetry {
    enum Action {
        /// From its beginning, after so many seconds.
        case again(after: Double)
        case refuse(any Error)
    }

    /// Whether each group has a savepoint, as something is wrong with one of them.
    private(set) var isApart = false
    /// Whether rows that other transactions hold are skipped.
    private(set) var passesHeld: Bool
    /// The tables that are left out, by the names of their clocks: somebody has them, or their clocks.
    private(set) var heldTables: Set<String>
    private var tries = 0
    private var lostConnections = 0

    private static let triesMax = 5

    init(passesHeld: Bool, without heldTables: Set<String>) {
        self.passesHeld = passesHeld
        self.heldTables = heldTables
    }

    mutating func failed(_ error: any Error, isBroken: Bool) -> Action {
        if error is HeldTimeout {
            guard !passesHeld else { return .refuse(ServerError.writesWait) }
            passesHeld = true
            return .again(after: 0)
        }
        if let held = error as? HeldTable {
            passesHeld = true
            let isNew = heldTables.insert(held.clock).inserted
            return isNew ? .again(after: 0) : .refuse(ServerError.writesWait)
        }
        guard let error = error as? PostgresError else { return .refuse(error) }
        if error.isConnectionLost || isBroken {
            // It may have been gone before the transaction began.
            lostConnections += 1
            return lostConnections > 1 ? .refuse(ServerError.databaseAway) : .again(after: 0)
        }
        if error.isTransient || error.isUniqueViolation {
            tries += 1
            if tries < Self.triesMax { return .again(after: 0.002 * Double(tries * tries)) }
            if error.isTransient { return .refuse(ServerError.notCommitted) }
        }
        let refusal = PostgresRefusal.ofWrite(error)
        // A table or a column may be what a trigger of others names.
        let states = ["54000", "P0001", "P0004", "42P01", "42703"]
        let isOfARow = ["22", "23"].contains(error.category) || states.contains(error.state)
        if isApart || !(isOfARow || !(refusal is ServerError)) { return .refuse(refusal) }
        isApart = true
        return .again(after: 0)
    }
}
