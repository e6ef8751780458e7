// PendingCascade: a deleted row whose children are not all deleted yet, stored in the database until they are.

/// A deleted row whose children are deleted, or lose their reference, in later transactions.
package struct PendingCascade: Hashable, Sendable {
    /// The position in the order in which the entries were stored; 0 before that.
    package var place: Int64 = 0
    package var table: String
    package var id: String
    /// The author of the delete.
    package var author: WriteAuthor

    package init(place: Int64 = 0, table: String, id: String, author: WriteAuthor) {
        self.place = place
        self.table = table
        self.id = id
        self.author = author
    }

    /// The maximum number of entries that a step reads.
    package static let entriesMax = 200
}

/// The entries that a step continues: the newest ones, without those that have failed and wait for their next try.
package struct CascadeStep: Sendable {
    /// The positions of the entries that are left out.
    package var skipped: [Int64] = []
    package var countMax = PendingCascade.entriesMax
    /// The positions of the entries that the step has read.
    package var places: [Int64] = []

    package init() {}
}

/// The entries whose steps failed, so that the other entries continue without them.
///
/// After a failure, each entry is tried alone. One that fails alone is retried after a pause, which doubles each time.
package struct CascadeFailures: Sendable {
    private struct Failure {
        var count: Int
        /// The uptime of the next try, in nanoseconds.
        var due: UInt64
    }

    /// The maximum number of failed entries; more than that have a common cause.
    private static let failuresMax = 1000
    private static let secondsMax: UInt64 = 64

    private var countMax = PendingCascade.entriesMax
    private var failures: [Int64: Failure] = [:]

    package init() {}

    /// The uptime of the next try of an entry that failed; nil if none did.
    package var due: UInt64? { failures.values.map(\.due).min() }

    /// Returns the next step.
    package func step(at now: UInt64) -> CascadeStep {
        var step = CascadeStep()
        step.countMax = countMax
        step.skipped = failures.filter { $0.value.due > now }.keys.sorted()
        return step
    }

    /// Records the success of a step that began at this time, and tried all entries that were due.
    package mutating func succeeded(at now: UInt64) {
        countMax = min(2 * countMax, PendingCascade.entriesMax)
        failures = failures.filter { $0.value.due > now }
    }

    /// Returns the uptime of the next step after one that failed.
    package mutating func failed(_ step: CascadeStep, at now: UInt64) -> UInt64 {
        guard let place = step.places.first, failures.count < Self.failuresMax else {
            return now + 1_000_000_000
        }
        guard step.places.count == 1 else {
            countMax = 1
            return now
        }
        let count = failures[place]?.count ?? 0
        let seconds = min(UInt64(1) << UInt64(min(count, 32)), Self.secondsMax)
        failures[place] = Failure(count: count + 1, due: now + seconds * 1_000_000_000)
        return now
    }
}

/// The result of a step that continues pending cascades.
package struct CascadeProgress: Sendable {
    /// The number of rows that the step changed.
    package var rows = 0
    /// Whether entries may be left.
    package var isPending = false

    package init(rows: Int = 0, isPending: Bool = false) {
        self.rows = rows
        self.isPending = isPending
    }
}
