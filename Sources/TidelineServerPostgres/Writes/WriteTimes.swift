// WriteTimes: the timeouts of a transaction, which prevent it from blocking others forever.

/// The timeouts of a transaction, in milliseconds.
package struct WriteTimes: Sendable {
    /// The timeout for a lock.
    package var lock = 2000
    /// The timeout for the lock of a table or a row, if other writes are waiting that do not need it.
    package var briefLock = 100
    /// The timeout for the lock of a table clock, and for contended locks.
    ///
    /// A transaction that waits in PostgreSQL's queue eventually gets such a lock.
    package var contendedLock = 500
    /// The timeout for the locks of a group's statements while another transaction is known to hold such locks for
    /// long.
    ///
    /// Examples are the locks of rows that foreign keys reference.
    var groupLock = 100
    /// How long PostgreSQL waits for the next statement before it rolls the transaction back.
    ///
    /// A server that stopped responding then no longer blocks the others.
    var idle = 5000
    /// The timeout for any statement except COMMIT.
    ///
    /// It is longer than the lock timeout, so that the two errors can be distinguished.
    package var statement = 10_000

    /// The timeout for a statement that locks several rows, one after the other.
    var rowLocksStatement: Int { min(2 * briefLock, statement) }
}
