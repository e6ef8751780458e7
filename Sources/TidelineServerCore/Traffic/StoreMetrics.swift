// StoreMetrics: the work of a database since the start of the server, the same for every backend.
//
// Counted once for a transaction, a checkpoint or a read that waited, never for a row.

package final class StoreMetrics: Sendable {
    package typealias Counter = ServerTraffic.Counter

    /// From the begin of a transaction of writes until it is on the disk.
    package let commits = Histogram()
    /// How many writes such a transaction had.
    package let groups = Histogram(bounds: Histogram.sizes)
    /// Transactions of writes that came to nothing.
    package let failures = Counter()
    /// How long copying the write-ahead log to the database took.
    package let checkpoints = Histogram()
    /// How long reads waited for a thread or a connection.
    package let readWaits = Histogram()
    /// Reads that wait.
    package let readsWaiting = Counter()
    /// Reads that were interrupted because they had had their share while other callers waited.
    package let readRestarts = Counter()
    /// Pages from a replica, those that it was too far behind for, and those that it failed at.
    package let replicaPages = Counter()
    package let replicaBehind = Counter()
    package let replicaFailures = Counter()
    /// The size of the idempotency ledger, as of the last run of the purge.
    package let ledgerBytes = Counter()
    package let ledgerEntries = Counter()
    /// Tombstones that were purged because they exceeded their retention time.
    package let tombstonesPurged = Counter()
    package let changesPurged = Counter()
    package let ledgerPurged = Counter()
    package let auditPurged = Counter()
    /// How many seconds the table clock that is furthest ahead of the wall clock is ahead.
    package let clockAhead = Counter()
    /// 1 while the wall clock is doubted, so that nothing is removed for its age.
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
