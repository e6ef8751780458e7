// ReportedStamps: reports each commit timestamp of a table once, whichever program wrote it.

import Synchronization
import TidelinePostgres
import TidelineServerCore

/// The commit timestamps that were reported, each once, whichever program wrote it.
final class ReportedStamps: Sendable {
    private struct State {
        var stamps: [String: Int64] = [:]
        var report: (@Sendable ([TableStamp]) -> Void)?

        /// Returns whether the timestamp must be reported.
        mutating func take(_ clock: TableStamp) -> Bool {
            let last = stamps[clock.table] ?? -1
            // A clock that is far below its reported timestamp was reset by its operator.
            guard clock.stamp > last || last - clock.stamp > ReportedStamps.resetTime else {
                return false
            }
            stamps[clock.table] = clock.stamp
            return true
        }
    }

    /// The largest time by which reports of one clock can overtake each other, in microseconds.
    private static let resetTime: Int64 = 600_000_000

    private let state = Mutex(State())

    /// Sets the listener, which gets all known timestamps and then the new ones.
    func listen(_ report: @escaping @Sendable ([TableStamp]) -> Void) {
        state.withLock { state in
            state.report = report
            let stamps = state.stamps.map { TableStamp(table: $0.key, stamp: $0.value) }
            report(stamps.sorted { $0.table < $1.table })
        }
    }

    /// The highest reported timestamps by table, in lower case.
    var told: [String: Int64] { state.withLock(\.stamps) }

    /// Removes the reported timestamps, because the database has lost them and the next ones may be lower.
    func forget() { state.withLock { $0.stamps = [:] } }

    /// Reports the timestamps that are newer than the reported ones.
    ///
    /// The lock is held during the report, so that an older timestamp never follows a newer one.
    func report(_ clocks: [TableStamp]) {
        state.withLock { state in
            let news = clocks.filter { state.take($0) }
            if !news.isEmpty { state.report?(news) }
        }
    }
}

extension TableStamp {
    /// Returns the clocks in a result of ``PostgresSchema/readStamps``.
    static func read(_ result: PostgresResult) -> [TableStamp] {
        (0..<result.count).map {
            TableStamp(table: result.text($0, 0), stamp: result.integer($0, 1))
        }
    }
}
