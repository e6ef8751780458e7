// SyncTurns: the order in which pushes, pulls and purges run.
//
// Pure. A push or a purge runs alone; pulls of different tables run at the same time, up to a
// limit. A job never overtakes an earlier job that it cannot run with.

/// The queue of a store's jobs.
package struct SyncTurns: Sendable {
    package enum Job: Sendable, Hashable {
        case push
        case pull(table: String)
        case purge

        func canRun(with other: Job) -> Bool {
            guard case .pull(let table) = self, case .pull(let second) = other else { return false }
            return table != second
        }
    }

    private var running: [Int: Job] = [:]
    private var waiting: [(id: Int, job: Job)] = []
    private var lastID = 0

    private let pullsMax: Int

    /// - Parameter pullsMax: The maximum number of pulls that run at the same time.
    package init(pullsMax: Int = .max) { self.pullsMax = pullsMax }

    /// Adds a job to the end of the queue; the job has to wait if `starts` is false.
    package mutating func ask(_ job: Job) -> (id: Int, starts: Bool) {
        lastID += 1
        let id = lastID
        waiting.append((id, job))
        return (id, admit().contains(id))
    }

    /// Removes a running or waiting job; returns the jobs that start now, in order.
    package mutating func end(_ id: Int) -> [Int] {
        running[id] = nil
        waiting.removeAll { $0.id == id }
        return admit()
    }

    /// Whether no job runs or waits.
    package var isIdle: Bool { running.isEmpty && waiting.isEmpty }

    /// The number of running jobs.
    package var runningCount: Int { running.count }

    private mutating func admit() -> [Int] {
        var started: [Int] = []
        var left: [(id: Int, job: Job)] = []
        for one in waiting {
            let isFree = running.values.allSatisfy { one.job.canRun(with: $0) }
            let keepsOrder = left.allSatisfy { one.job.canRun(with: $0.job) }
            if isFree, keepsOrder, running.count < pullsMax || running.isEmpty {
                running[one.id] = one.job
                started.append(one.id)
            } else {
                left.append(one)
            }
        }
        waiting = left
        return started
    }
}
