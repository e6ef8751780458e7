// LargeJobs: the batches with large rows, or that change tables, which wait for their turn after small ones.

import TidelineSQLite
import TidelineServerCore

/// Confined to the thread of the writer.
struct LargeJobs {
    private(set) var jobs: ArraySlice<BatchJob> = []

    var isEmpty: Bool { jobs.isEmpty }

    /// How many writes they have.
    var writes: Int { jobs.reduce(0) { $0 + $1.batch.count } }

    mutating func append(_ job: BatchJob) { jobs.append(job) }

    mutating func dropFirst(_ count: Int) {
        jobs = jobs.dropFirst(count)
        // A slice keeps what is before it.
        if jobs.isEmpty { jobs = [] } else if jobs.startIndex > 64 { jobs = Array(jobs)[...] }
    }

    /// Takes out the jobs whose callers have left.
    mutating func dropCancelled() -> [BatchJob] {
        let cancelled = jobs.filter { $0.stop.isSet }
        if !cancelled.isEmpty { jobs = jobs.filter { !$0.stop.isSet }[...] }
        return cancelled
    }
}
