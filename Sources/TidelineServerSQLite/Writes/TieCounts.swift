// TieCounts: counts the rows that have left a millisecond since a list ended in it.
//
// Classic clients page by time: they request `updatedAt ge T`, where T is the millisecond of the last row that they
// have, and skip the rows of T that they have by `$skip` (classic-protocol.md 3.7.2). A row that is written moves to
// the end of the order. So if one of the skipped rows was written in the meantime, `$skip` would skip a row that they
// do not have. The number of rows that left T is subtracted from it. If the number is too large, a row is sent twice,
// which does no harm.
//
// The result is correct because of the order of events:
//
//     list:  mark() -> state of the table -> … -> watch(last millisecond, since: mark)
//     write: rowLeaves() -> commit -> transactionEnded()
//     list:  left() -> state of the table -> left() is still the same, else it is read again

import Synchronization
import TidelineSQLite

/// The counts of rows that left a millisecond of a table.
///
/// If a millisecond is no longer watched, or is from before the start of the server, all of its rows are assumed to
/// have left it. After the first day, the start no longer matters, because no pull takes longer.
package final class TieCounts: Sendable {
    private struct State {
        /// The number of departed rows, by millisecond in which a list ended.
        var left: [Int64: Int] = [:]
        /// The milliseconds in `left`, as a ring buffer whose oldest element is at `nextWatched`.
        var watched: [Int64] = []
        var nextWatched = 0
        /// The milliseconds that rows left most recently, as a ring buffer indexed by the number of the departure.
        var recent: [Int64] = []
        var departures = 0
        /// The number of departures whose transactions have ended.
        var departuresEnded = 0
        /// The last millisecond that is no longer watched.
        var forgotten = Int64.min
        /// The last millisecond before the start, and the uptime until which it is relevant.
        var begun = Int64.min
        var begunEnd: UInt64 = 0

        func mayHaveLost(_ millisecond: Int64) -> Bool {
            millisecond <= forgotten
                || millisecond <= begun && QueryStart().nanoseconds < begunEnd
        }
    }

    /// The maximum number of watched milliseconds, which is more than the pulls in progress need.
    private static let watchedMax = 4096
    /// The maximum number of departures while a list is read.
    private static let recentMax = 4096
    /// The maximum number of rows per millisecond.
    private static let all = Int(1000 / SQLiteWriteTransaction.spacing)

    /// A duration longer than any pull.
    private static let pullMax: Duration = .seconds(86_400)

    private let state = Mutex(State())

    package init() {}

    /// Records that the table was written to before the start, until this time.
    package func begin(after updatedAt: Int64) {
        state.withLock { state in
            state.begun = updatedAt / 1000
            state.begunEnd = QueryStart().adding(Self.pullMax)
        }
    }

    /// Returns the number of departures that every later snapshot includes.
    package func departureCount() -> Int { state.withLock { $0.departuresEnded } }

    /// Begins to count the rows that leave the millisecond, including those since that number.
    package func watch(_ updatedAt: Int64, since count: Int) {
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
            guard state.departures - count <= Self.recentMax else {
                state.left[millisecond] = Self.all
                return
            }
            state.left[millisecond] = (count..<state.departures).count { number in
                state.recent[number % Self.recentMax] == millisecond
            }
        }
    }

    /// Records, before the commit, that a row is about to be removed or to get another time.
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

    /// Records that the transaction of the recorded departures has ended.
    package func transactionEnded() { state.withLock { $0.departuresEnded = $0.departures } }

    /// Returns the number of rows that have left the millisecond since a list ended in it.
    package func left(_ millisecond: Int64) -> Int {
        state.withLock { state in
            state.mayHaveLost(millisecond) ? Self.all : state.left[millisecond] ?? 0
        }
    }
}
