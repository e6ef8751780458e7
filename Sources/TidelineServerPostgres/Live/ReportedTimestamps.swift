// ReportedTimestamps: reports each commit timestamp of a table once, whichever program wrote it.

import Synchronization
import TidelinePostgres
import TidelineServerCore

/// The last reported commit timestamp of each table, by which each timestamp is reported once.
final class ReportedTimestamps: Sendable {
    private struct State {
        var timestamps: [String: Int64] = [:]
        var report: (@Sendable ([TableTimestamp]) -> Void)?

        /// Returns whether the timestamp must be reported.
        mutating func take(_ clock: TableTimestamp) -> Bool {
            let last = timestamps[clock.table] ?? -1
            // A clock that is far below its reported timestamp was reset by an operator.
            guard clock.timestamp > last || last - clock.timestamp > ReportedTimestamps.resetTime
            else {
                return false
            }
            timestamps[clock.table] = clock.timestamp
            return true
        }
    }

    /// How far a timestamp must be below the last one for its table clock to count as reset, in microseconds.
    private static let resetTime: Int64 = 600_000_000

    private let state = Mutex(State())

    /// Sets the listener, which gets all known timestamps and then the new ones.
    func listen(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) {
        state.withLock { state in
            state.report = report
            let timestamps = state.timestamps.map {
                TableTimestamp(table: $0.key, timestamp: $0.value)
            }
            report(timestamps.sorted { $0.table < $1.table })
        }
    }

    /// The highest reported timestamps by table, in lower case.
    var reported: [String: Int64] { state.withLock(\.timestamps) }

    /// Removes the reported timestamps, because the database has lost them and the next ones may be lower.
    func forget() { state.withLock { $0.timestamps = [:] } }

    /// Reports the timestamps that are newer than the reported ones.
    ///
    /// The lock is held during the report, so that an older timestamp never follows a newer one.
    func report(_ clocks: [TableTimestamp]) {
        state.withLock { state in
            let news = clocks.filter { state.take($0) }
            if !news.isEmpty { state.report?(news) }
        }
    }
}

extension TableTimestamp {
    /// Returns the clocks in a result of ``PostgresSchema/readTimestamps``.
    static func read(_ result: PostgresResult) -> [TableTimestamp] {
        (0..<result.count).map {
            TableTimestamp(table: result.text($0, 0), timestamp: result.integer($0, 1))
        }
    }
}
