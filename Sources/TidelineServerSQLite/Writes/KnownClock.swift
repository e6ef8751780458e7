// KnownClock: cached table clocks.
//
// Only one server uses the file, so its writer knows every commit. The clock advances after the commit and before the
// write is answered. The horizon rises before the commit, because a reader that no longer sees deleted rows must see
// the new horizon. The cache is empty until the clock was read once.

import Synchronization
import TidelineSQLite
import TidelineServerCore

/// A cache of a table's clock, which saves a query if the table has not changed.
final class KnownClock: Sendable {
    private struct State {
        var clock = TableClock()
        /// Whether the clock was read from the database.
        var isKnown = false

        mutating func rise(to other: TableClock) {
            clock.timestamp = max(clock.timestamp, other.timestamp)
            clock.horizon = max(clock.horizon, other.horizon)
        }
    }

    private let state = Mutex(State())

    /// The clock; nil until it was read from the database.
    var known: TableClock? { state.withLock { $0.isKnown ? $0.clock : nil } }

    /// Merges a clock that was read with later commits that are already known.
    func learn(_ clock: TableClock) -> TableClock {
        state.withLock { state in
            state.rise(to: clock)
            state.isKnown = true
            return state.clock
        }
    }

    /// Records that a write with this commit timestamp was committed.
    func advance(to timestamp: Int64) {
        state.withLock { $0.rise(to: TableClock(timestamp: timestamp)) }
    }

    /// Records that deletes up to this time are about to be forgotten.
    func raiseHorizon(to timestamp: Int64) {
        state.withLock { $0.rise(to: TableClock(horizon: timestamp)) }
    }

    /// Reads the clock from the database; a missing table has the initial one.
    static func read(_ table: String, _ database: Database) throws -> TableClock {
        let statement = try database.prepare(ServerSchema.readClock)
        defer { statement.reset() }
        statement.bind(1, text: table)
        guard try statement.step() else { return TableClock() }
        return TableClock(timestamp: statement.integer(0), horizon: statement.integer(1))
    }
}
