// WriteTimes: how long a transaction waits, so that none blocks the others forever.

/// How long a transaction waits, in milliseconds.
package struct WriteTimes: Sendable {
    /// For a lock.
    package var lock = 2000
    /// For the lock of a table or a row, while other writes wait that do not need it.
    package var heldLock = 100
    /// For the lock of a table's clock, and for locks that each transaction takes in turn: a transaction that
    /// waits in line gets the lock eventually.
    package var busyLock = 500
    /// For the next statement of its server, before PostgreSQL rolls it back: a server that stopped blocks no
    /// other one for longer.
    var idle = 5000
    /// For any statement except COMMIT.
    ///
    /// It is longer than for a lock, so that the two errors differ.
    package var statement = 10_000

    /// For a statement that locks several rows, one after the other.
    var heldStatement: Int { min(2 * heldLock, statement) }
}
