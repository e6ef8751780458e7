// ReportedStamps: reports the commit timestamps of tables, each once, whichever program wrote it.
//
// If owners have clocks of their own, the table has no commit timestamp: the time when this server learned of
// a change replaces it. So an id from another server, or from the previous one, means at worst a pull that
// finds nothing.

import Synchronization
import TidelineServerCore

final class ReportedStamps: Sendable {
    private struct State {
        var stamps: [ClockKey: Int64] = [:]
        /// The times that replace the commit timestamps of tables with clocks of owners.
        var listenerTimes: [String: Int64] = [:]
        /// More stamps than these are looked through for old ones.
        var bound = ReportedStamps.stampsMax
        var report: (@Sendable ([TableStamp]) -> Void)?

        mutating func take(_ clock: ClockStamp, _ now: Int64) -> TableStamp? {
            let key = clock.key
            if clock.isOfOwners == true {
                guard listenerTimes[key.table] == nil else { return nil }
                return listenerTime(key.table, now)
            }
            if clock.isOfOwners == false, listenerTimes.removeValue(forKey: key.table) != nil {
                // The clocks of owners have ended, and their timestamps are before the table's.
                stamps = stamps.filter { $0.key.table != key.table || $0.key.owner == nil }
            }
            let last = stamps[key] ?? -1
            // A clock that is far below its reported timestamp was reset by its operator.
            guard clock.stamp > last || last - clock.stamp > ReportedStamps.resetTime else {
                return nil
            }
            stamps[key] = clock.stamp
            guard key.owner == nil else { return listenerTime(key.table, now) }
            return TableStamp(table: key.table, stamp: clock.stamp)
        }

        /// Returns the time that replaces the commit timestamp of a table with clocks of owners.
        mutating func listenerTime(_ table: String, _ now: Int64) -> TableStamp {
            let next = max((listenerTimes[table] ?? 0) + 1, now)
            listenerTimes[table] = next
            return TableStamp(table: table, stamp: next)
        }

        /// Owners' stamps that no look finds any more are forgotten.
        mutating func forgetOld() {
            guard stamps.count > bound else { return }
            let newest = stamps.values.max() ?? 0
            stamps = stamps.filter { key, stamp in
                key.owner == nil || newest - stamp < ReportedStamps.ownersTime
            }
            // Not again for each one that comes where all of them are young.
            bound = max(ReportedStamps.stampsMax, 2 * stamps.count)
        }
    }

    private static let stampsMax = 50_000
    /// Reports of one clock overtake each other by less than this, in microseconds.
    private static let resetTime: Int64 = 600_000_000
    /// How far below the newest one a timestamp of an owner is kept then, in microseconds.
    private static let ownersTime: Int64 = 300_000_000

    private let state = Mutex(State())
    /// The time in microseconds.
    private let now: @Sendable () -> Int64

    init(now: @escaping @Sendable () -> Int64) { self.now = now }

    /// Sets the listener, which gets all known timestamps and then the new ones.
    func listen(_ report: @escaping @Sendable ([TableStamp]) -> Void) {
        state.withLock { state in
            state.report = report
            let tables = state.stamps.filter { $0.key.owner == nil }
                .map { TableStamp(table: $0.key.table, stamp: $0.value) }
            let times = state.listenerTimes.map { TableStamp(table: $0.key, stamp: $0.value) }
            report((tables + times).sorted { $0.table < $1.table })
        }
    }

    /// The highest reported timestamps.
    var told: [ClockKey: Int64] { state.withLock(\.stamps) }

    /// Forgets the reported timestamps: they are gone from the database, and the next ones may be lower.
    ///
    /// Listeners to a table with clocks of owners are notified at once, because later reads may not find these
    /// clocks again.
    func forget() {
        state.withLock { $0.stamps = [:] }
        tellListeners()
    }

    /// Notifies the listeners to tables with clocks of owners that there may be changes.
    func tellListeners() {
        let now = now()
        state.withLock { state in
            let news = state.listenerTimes.keys.sorted().map { state.listenerTime($0, now) }
            if !news.isEmpty { state.report?(news) }
        }
    }

    /// Reports the timestamps that are newer than the reported ones.
    ///
    /// Under the lock, so that an older timestamp never comes after a newer one.
    func report(_ clocks: [ClockStamp]) {
        let now = clocks.contains { $0.isOfOwners == true || $0.key.owner != nil } ? now() : 0
        state.withLock { state in
            var news: [TableStamp] = []
            for clock in clocks {
                guard let change = state.take(clock, now) else { continue }
                // Of many owners of a table the last one is enough.
                if let place = news.firstIndex(where: { $0.table == change.table }) {
                    news[place] = change
                } else {
                    news.append(change)
                }
            }
            state.forgetOld()
            if !news.isEmpty { state.report?(news) }
        }
    }
}
