// ClosureThreads: threads for the app's closures that read a store.

import Dispatch
import Foundation
import Synchronization

/// Threads on which the app's closures read a store, instead of Swift's thread pool.
///
/// Swift's pool has one thread for each core. A closure reads without suspending, and its SQL may take seconds: on two
/// cores, two closures would block all other tasks of the app, even the task that cancels them. A thread switch takes
/// 25 microseconds.
final class ClosureThreads: TaskExecutor {
    static let shared = ClosureThreads()

    /// The maximum number of closures that run at the same time; further closures wait.
    private static let threadsMax = 16

    private struct State {
        var jobs: [UnownedJob] = []
        var threads = 0
        /// The number of idle threads that have not been woken.
        var idle = 0
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isNew = state.withLock { state in
            state.jobs.append(job)
            if state.idle > 0 {
                state.idle -= 1
                wake.signal()
            } else if state.threads < Self.threadsMax {
                state.threads += 1
                return true
            }
            return false
        }
        guard isNew else { return }
        let thread = Thread { [self] in run() }
        thread.name = "tideline-closure"
        thread.stackSize = 1 << 20
        thread.start()
    }

    private func run() {
        while true {
            let job = state.withLock { state -> UnownedJob? in
                guard state.jobs.isEmpty else { return state.jobs.removeFirst() }
                state.idle += 1
                return nil
            }
            if let job {
                job.runSynchronously(on: asUnownedTaskExecutor())
            } else {
                wake.wait()
            }
        }
    }
}
