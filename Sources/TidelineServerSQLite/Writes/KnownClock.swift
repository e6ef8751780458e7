// KnownClock: a table's clock in memory, which saves a query when the table has not changed.
//
// The file has one server, so its writer knows every commit. The clock moves on after the commit
// and before the write is answered; the horizon rises before the commit, for a reader that sees the
// deletes gone has to see it risen. Nothing is known until the database was asked once.

import Synchronization
import TidelineSQLite
import TidelineServerCore

final class KnownClock: Sendable {
    private struct State {
        var clock = TableClock()
        /// Whether the database was asked.
        var isKnown = false

        mutating func rise(to other: TableClock) {
            clock.stamp = max(clock.stamp, other.stamp)
            clock.horizon = max(clock.horizon, other.horizon)
        }
    }

    private let state = Mutex(State())

    /// Nil before the database was asked.
    var known: TableClock? { state.withLock { $0.isKnown ? $0.clock : nil } }

    /// Takes what the database said, which may be older than what commits said meanwhile.
    func learn(_ clock: TableClock) -> TableClock {
        state.withLock { state in
            state.rise(to: clock)
            state.isKnown = true
            return state.clock
        }
    }

    /// A write with this stamp was committed.
    func advance(to stamp: Int64) { state.withLock { $0.rise(to: TableClock(stamp: stamp)) } }

    /// Deletes up to this time are about to be forgotten.
    func raiseHorizon(to stamp: Int64) {
        state.withLock { $0.rise(to: TableClock(horizon: stamp)) }
    }

    /// The clock in the database; that of a table which is not there stands at its beginning.
    static func read(_ table: String, _ database: Database) throws -> TableClock {
        let statement = try database.prepare(ServerSchema.readClock)
        defer { statement.reset() }
        statement.bind(1, text: table)
        guard try statement.step() else { return TableClock() }
        return TableClock(stamp: statement.integer(0), horizon: statement.integer(1))
    }
}
