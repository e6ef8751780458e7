// StoreMetrics: counts the work of a database since the start of the server, with the same metrics for every backend.
//
// Each transaction, checkpoint or waiting read is counted once; rows are not counted.

package final class StoreMetrics: Sendable {
    package typealias Counter = ServerTraffic.Counter

    /// The time from the beginning of a write transaction until it is on disk.
    package let commits = Histogram()
    /// How many writes such a transaction had.
    package let groups = Histogram(bounds: Histogram.sizes)
    /// Write transactions that failed.
    package let failures = Counter()
    /// The time of copying the write-ahead log to the database.
    package let checkpoints = Histogram()
    /// How long reads waited for a thread or a connection.
    package let readWaits = Histogram()
    /// Reads that are waiting.
    package let readsWaiting = Counter()
    /// Reads that were interrupted because they had used up their share while other callers waited.
    package let readRestarts = Counter()
    /// Pages from a replica, those for which it lagged too far behind, and those that failed on it.
    package let replicaPages = Counter()
    package let replicaBehind = Counter()
    package let replicaFailures = Counter()
    /// The size of the idempotency ledger at the last run of the purge.
    package let ledgerBytes = Counter()
    package let ledgerEntries = Counter()
    /// Tombstones that were purged because their retention time was over.
    package let tombstonesPurged = Counter()
    package let changesPurged = Counter()
    package let ledgerPurged = Counter()
    package let auditPurged = Counter()
    /// How many seconds the most advanced table clock is ahead of the wall clock.
    package let clockAhead = Counter()
    /// 1 while the wall clock is doubted, so that no expired rows are removed.
    package let clockDoubted = Counter()

    package init() {}

    /// Counts the rows or entries that a step of the purge removed.
    package func purged(_ step: PurgeStep, _ count: Int) {
        switch step {
        case .tombstones: tombstonesPurged.add(count)
        case .changes: changesPurged.add(count)
        case .ledger: ledgerPurged.add(count)
        case .audit: auditPurged.add(count)
        case .clocks: break
        }
    }
}
