// WriteTimes: the timeouts of a transaction, which prevent it from blocking others forever.

/// The timeouts of a transaction, in milliseconds.
package struct WriteTimes: Sendable {
    /// The timeout for a lock.
    package var lock = 2000
    /// The timeout for the lock of a table or a row, if writes wait that do not need it.
    package var briefLock = 100
    /// The timeout for the lock of a table's clock, and for contended locks: a transaction that waits in PostgreSQL's
    /// queue gets such a lock eventually.
    package var contendedLock = 500
    /// The timeout for the locks that a group's statements take, such as those of the rows that foreign keys refer to,
    /// while another transaction is known to hold such locks for long.
    var groupLock = 100
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
