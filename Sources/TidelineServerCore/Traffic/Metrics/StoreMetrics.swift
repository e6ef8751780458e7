// StoreMetrics: counts transactions, checkpoints and waits.
//
// Each transaction, checkpoint or waiting read is counted once; rows are not counted.

/// The counters of a database's work since the start of the server, the same for every backend.
package final class StoreMetrics: Sendable {
    package typealias Counter = ServerTraffic.Counter

    /// The time from the beginning of a write transaction until it is on the disk.
    package let commits = Histogram()
    /// The number of writes in a transaction.
    package let groups = Histogram(bounds: Histogram.sizes)
    /// The number of write transactions that failed.
    package let failures = Counter()
    /// The duration of checkpoints of the write-ahead log.
    package let checkpoints = Histogram()
    /// The time that reads waited for a thread or a connection.
    package let readWaits = Histogram()
    /// The number of waiting reads.
    package let readsWaiting = Counter()
    /// The number of reads that were interrupted because they had used up their time slice while other callers waited.
    package let readRestarts = Counter()
    /// The number of pages from a replica; of pages for which it lagged too far behind; and of pages that
    /// failed on it.
    package let replicaPages = Counter()
    package let replicaBehind = Counter()
    package let replicaFailures = Counter()
    /// The size of the idempotency ledger at the last run of the purge.
    package let ledgerBytes = Counter()
    package let ledgerEntries = Counter()
    /// The number of tombstones that were purged after their retention time.
    package let tombstonesPurged = Counter()
    package let changesPurged = Counter()
    package let ledgerPurged = Counter()
    package let auditPurged = Counter()
    /// The number of transactions that continued a cascade of deletes.
    package let cascadeSteps = Counter()
    /// The number of such transactions that failed for a single deleted row.
    package let cascadeFailures = Counter()
    /// The number of seconds that the most advanced table clock is ahead of the wall clock.
    package let clockAhead = Counter()
    /// 1 while the wall clock is not trusted; expired rows are then not removed.
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
