// Turns and blocking: helpers for closures that are not asynchronous.

import Foundation
import Synchronization

/// Counts calls.
final class Turns: Sendable {
    private let count = Mutex(0)

    func next() -> Int {
        count.withLock { count in
            count += 1
            return count
        }
    }
}

/// An executor for tasks, because waiting tasks may block all threads of the pool.
private final class OwnQueue: TaskExecutor {
    private let queue = DispatchQueue(label: "blocking")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Runs asynchronous work to its end on another thread while this one waits.
func blocking(_ body: @escaping @Sendable () async throws -> Void) {
    let done = DispatchSemaphore(value: 0)
    Task.detached(executorPreference: OwnQueue()) {
        try? await body()
        done.signal()
    }
    done.wait()
}
