// WriteTimes: the timeouts of a transaction, which prevent it from blocking others forever.

/// The timeouts of a transaction, in milliseconds.
package struct WriteTimes: Sendable {
    /// The timeout for a lock.
    package var lock = 2000
    /// The timeout for the lock of a table or a row, if writes wait that do not need it.
    package var briefLock = 100
    /// The timeout for the lock of a table's clock, for contended locks, and for the locks that the writes themselves
    /// need, such as those of foreign keys: a transaction that waits in PostgreSQL's queue gets such a lock eventually.
    package var contendedLock = 500
    /// How long PostgreSQL waits for the next statement before it rolls the transaction back, so that a server that
    /// stopped responding blocks the others for no longer.
    var idle = 5000
    /// The timeout for any statement except COMMIT.
    ///
    /// It is longer than that for a lock, so that the two errors differ.
    package var statement = 10_000

    /// The timeout for a statement that locks several rows, one after the other.
    var rowLocksStatement: Int { min(2 * briefLock, statement) }
}
