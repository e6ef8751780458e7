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
    /// Whether rows and clocks of owners that somebody else has are left out.
    private(set) var passesHeld: Bool
    private var tries = 0
    private var lostConnections = 0

    private static let triesMax = 5

    init(passesHeld: Bool) { self.passesHeld = passesHeld }

    mutating func failed(_ error: any Error, isBroken: Bool) -> Action {
        if error is HeldTimeout {
            guard !passesHeld else { return .refuse(ServerError.writesWait) }
            passesHeld = true
            return .again(after: 0)
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
        let isOfARow = error.category == "22" || error.category == "23" || error.state == "54000"
        if isApart || !(isOfARow || !(refusal is ServerError)) { return .refuse(refusal) }
        isApart = true
        return .again(after: 0)
    }
}
