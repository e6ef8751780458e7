// ReportedStamps: tells how far tables have come, each stamp once, whoever wrote it.

import Synchronization
import TidelineServerCore

final class ReportedStamps: Sendable {
    private struct State {
        var stamps: [String: Int64] = [:]
        var report: (@Sendable ([TableStamp]) -> Void)?
    }

    private let state = Mutex(State())

    /// Hears of all that is known, and of what comes.
    func listen(_ report: @escaping @Sendable ([TableStamp]) -> Void) {
        state.withLock { state in
            state.report = report
            report(
                state.stamps.sorted { $0.key < $1.key }
                    .map { TableStamp(table: $0.key, stamp: $0.value) }
            )
        }
    }

    /// How far what was told goes, by table.
    var told: [String: Int64] { state.withLock { $0.stamps } }

    /// Forgets what was told: it is not there any more, and the next stamps may be lower.
    func forget() { state.withLock { $0.stamps = [:] } }

    /// Tells what is newer than what was told.
    ///
    /// Under the lock, so that an older stamp never comes behind a newer one.
    func report(_ stamps: [TableStamp]) {
        state.withLock { state in
            let news = stamps.filter { $0.stamp > state.stamps[$0.table] ?? -1 }
            guard !news.isEmpty else { return }
            for stamp in news { state.stamps[stamp.table] = stamp.stamp }
            state.report?(news)
        }
    }
}
