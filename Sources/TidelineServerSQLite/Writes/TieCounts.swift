// TieCounts: how many rows have left a millisecond since a list ended in it.
//
// Classic clients page by time: they ask for `updatedAt ge T`, T being the millisecond of the last
// row they have, and skip by `$skip` the rows of T that they have (classic-protocol.md 3.7.2). A
// row that is written moves to the end of the order. So if one of those was written meanwhile,
// `$skip` would skip a row that they do not have. The number of rows that left T is subtracted from
// it: at worst too much, and then a row comes twice, which does no harm.
//
// The order of events is what makes it right:
//
//     list:  mark() -> state of the table -> … -> watch(last millisecond, since: mark)
//     write: rowLeaves() -> commit -> transactionEnded()
//     list:  left() -> state of the table -> left() is still the same, else it is read again

import Synchronization
import TidelineSQLite

/// Belongs to one table.
///
/// Departures before the server started are not known, nor those from a millisecond that is not
/// watched any more: in these cases all rows are assumed to have left it. Before the start for a
/// day only: no pull is under way for longer.
package final class TieCounts: Sendable {
    private struct State {
        /// By the millisecond, for those that a list ended in.
        var left: [Int64: Int] = [:]
        /// The same milliseconds, the oldest first from `nextWatched` on.
        var watched: [Int64] = []
        var nextWatched = 0
        /// The milliseconds that rows left last; the number of a departure tells its place.
        var recent: [Int64] = []
        var departures = 0
        /// The departures whose transactions have ended.
        var departuresEnded = 0
        /// The last millisecond that was watched and is not any more.
        var forgotten = Int64.min
        /// The last millisecond before the start, and until when it matters, as uptime.
        var begun = Int64.min
        var begunEnd: UInt64 = 0

        func mayHaveLost(_ millisecond: Int64) -> Bool {
            millisecond <= forgotten
                || millisecond <= begun && QueryStart().nanoseconds < begunEnd
        }
    }

    /// How many milliseconds are watched: one for each pull that is under way, and more.
    private static let watchedMax = 4096
    /// How many departures may happen while a list is read.
    private static let recentMax = 4096
    /// More rows than a millisecond has.
    private static let all = Int(1000 / RowWrites.spacing)

    /// Longer than a pull is under way.
    private static let pullMax: Duration = .seconds(86_400)

    private let state = Mutex(State())

    package init() {}

    /// Says that the table was written to before, until this time.
    package func begin(after updatedAt: Int64) {
        state.withLock { state in
            state.begun = updatedAt / 1000
            state.begunEnd = QueryStart().adding(Self.pullMax)
        }
    }

    /// The departures that a state of the table read from now on has for certain.
    package func mark() -> Int { state.withLock { $0.departuresEnded } }

    /// Starts to count the rows that leave the millisecond, including those that have left it since
    /// the mark.
    package func watch(_ updatedAt: Int64, since mark: Int) {
        let millisecond = updatedAt / 1000
        state.withLock { state in
            guard state.left[millisecond] == nil, !state.mayHaveLost(millisecond) else { return }
            if state.watched.count < Self.watchedMax {
                state.watched.append(millisecond)
            } else {
                let oldest = state.watched[state.nextWatched]
                state.left[oldest] = nil
                state.forgotten = max(state.forgotten, oldest)
                state.watched[state.nextWatched] = millisecond
                state.nextWatched = (state.nextWatched + 1) % Self.watchedMax
            }
            guard state.departures - mark <= Self.recentMax else {
                state.left[millisecond] = Self.all
                return
            }
            state.left[millisecond] = (mark..<state.departures).count { number in
                state.recent[number % Self.recentMax] == millisecond
            }
        }
    }

    /// A row is about to get another time, or to go; said before the commit.
    package func rowLeaves(_ updatedAt: Int64) {
        let millisecond = updatedAt / 1000
        state.withLock { state in
            if state.recent.count < Self.recentMax {
                state.recent.append(millisecond)
            } else {
                state.recent[state.departures % Self.recentMax] = millisecond
            }
            state.departures += 1
            if !state.left.isEmpty, let count = state.left[millisecond] {
                state.left[millisecond] = count + 1
            }
        }
    }

    /// The transaction of all that was said has ended.
    package func transactionEnded() { state.withLock { $0.departuresEnded = $0.departures } }

    /// How many rows have left the millisecond since a list ended in it.
    package func left(_ millisecond: Int64) -> Int {
        state.withLock { state in
            state.mayHaveLost(millisecond) ? Self.all : state.left[millisecond] ?? 0
        }
    }
}
