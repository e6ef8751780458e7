// TransactionState: whether SQLite rolled back the transaction of a connection before its end.

/// The state of the transaction that a connection runs, which it shares with its statements.
final class TransactionState {
    /// Whether ``Database/transaction(isFlushed:_:)`` or ``Database/snapshot(_:)`` is running.
    private var isRunning = false
    /// The error at which SQLite rolled back the running transaction.
    private(set) var rolledBackBy: SQLiteError?

    /// Called after the transaction began.
    func begin() { isRunning = true }

    /// Called after an error that left no transaction open.
    func failed(_ error: SQLiteError) {
        if isRunning, rolledBackBy == nil { rolledBackBy = error }
    }

    /// Called at the end of the transaction.
    func end() { (isRunning, rolledBackBy) = (false, nil) }

    /// Throws the error that ended the transaction, because a further statement would not be part of it.
    @inline(__always)
    func check() throws {
        if let rolledBackBy { throw rolledBackBy }
    }
}
