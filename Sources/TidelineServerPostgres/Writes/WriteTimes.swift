// WriteTimes: how long a transaction waits, so that none holds up the others for ever.

/// How long a transaction waits, in milliseconds.
package struct WriteTimes: Sendable {
    /// For a lock.
    package var lock = 2000
    /// For the clock of an owner with the writes of other owners; its own wait as for any lock.
    package var ownerClock = 100
    /// For its server, before it is undone: a server that was stopped holds up nobody for longer.
    var idle = 5000
    /// For a statement but COMMIT; more than for a lock, which is told apart from it.
    package var statement = 10_000
}
