// TransactionState: records whether SQLite rolled back a connection's transaction before its end.

/// The state of a connection's running transaction, which the connection shares with its
/// statements.
final class TransactionState {
    /// Whether ``Database/transaction(isFlushed:_:)`` or ``Database/snapshot(_:)`` is running.
    private var isRunning = false
    /// The error that made SQLite roll back the running transaction.
    private(set) var rolledBackBy: SQLiteError?

    /// The connection calls this method after the transaction began.
    func begin() { isRunning = true }

    /// The connection calls this method after an error that left no transaction open.
    func failed(_ error: SQLiteError) {
        if isRunning, rolledBackBy == nil { rolledBackBy = error }
    }

    /// The connection calls this method at the end of the transaction.
    func end() { (isRunning, rolledBackBy) = (false, nil) }

    /// Throws the error that ended the transaction, because further statements would not be part of
    /// the transaction.
    @inline(__always)
    func check() throws {
        if let rolledBackBy { throw rolledBackBy }
    }
}
