// WriteTimes: how long a transaction waits, so that none holds up the others for ever.

/// How long a transaction waits, in milliseconds.
package struct WriteTimes: Sendable {
    /// For a lock.
    package var lock = 2000
    /// For a table or a row with writes that do not need it; its own writes wait as for any lock.
    package var heldLock = 100
    /// The same for the clock of a table, and for what goes from one transaction to the next: who waits in
    /// line gets it in the end.
    package var busyLock = 500
    /// For its server, before it is undone: a server that was stopped holds up nobody for longer.
    var idle = 5000
    /// For a statement but COMMIT; more than for a lock, which is told apart from it.
    package var statement = 10_000

    /// For a statement that locks several rows, one after the other.
    var heldStatement: Int { min(2 * heldLock, statement) }
}
