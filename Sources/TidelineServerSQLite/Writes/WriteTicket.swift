// WriteTicket: the place of a write in the queue, for the time when its caller leaves.

import Synchronization
import TidelineSQLite

/// Where a write waits, for the time when its caller leaves.
final class WriteTicket: Sendable {
    /// Set when the caller of the write has left.
    let stop = QueryStop()
    /// Negative before it is in the queue; changed with the queue only.
    let place = Atomic<Int>(-1)
}
