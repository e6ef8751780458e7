// EventLoop: runs tasks on the thread of their sockets.
//
// A task that prefers this executor runs on the thread that also drives the sockets, so a request changes threads
// only if its handler does. The loop knows nothing of HTTP. Its thread calls
//
//     bind() -> { wait for wakeDescriptor -> clearWake() -> { runJobs() }* }*

import CEpoll
import Glibc
import Synchronization

/// The job queue of one loop thread, as the executor of Swift tasks.
final class EventLoop: SerialExecutor, TaskExecutor {
    /// A descriptor that becomes readable when another thread adds a job to the empty queue.
    let wakeDescriptor: Int32

    private let queue = Mutex<[UnownedJob]>([])
    private let owner = Atomic<UInt>(0)

    // The jobs being run; swapped with the queue, so that neither gives up its memory.
    // Only the loop's thread reads or writes it.
    private nonisolated(unsafe) var batch: [UnownedJob] = []

    init() throws(HTTPServerError) {
        wakeDescriptor = tideline_wake_descriptor()
        guard wakeDescriptor >= 0 else { throw .exhausted("no descriptor for an event loop") }
    }

    deinit { close(wakeDescriptor) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isFirst = queue.withLock { queue in
            queue.append(job)
            return queue.count == 1
        }
        // On its own thread the loop is awake, and runs jobs until none are left.
        if isFirst && !isCurrent {
            var one: UInt64 = 1
            _ = write(wakeDescriptor, &one, MemoryLayout<UInt64>.size)
        }
    }

    /// Whether the caller is on the thread of the loop.
    var isCurrent: Bool { owner.load(ordering: .relaxed) == UInt(pthread_self()) }

    func checkIsolated() { precondition(isCurrent, "not on the thread of the event loop") }

    func isIsolatingCurrentContext() -> Bool? { isCurrent }

    /// Binds the loop to the calling thread.
    func bind() { owner.store(UInt(pthread_self()), ordering: .relaxed) }

    func clearWake() {
        var count: UInt64 = 0
        _ = read(wakeDescriptor, &count, MemoryLayout<UInt64>.size)
    }

    /// Runs the queued jobs; jobs that they add are left for the next call.
    ///
    /// Code on the loop's thread may add jobs without waking the loop, so the caller has to repeat the call
    /// until it returns false before it sleeps.
    ///
    /// - Returns: Whether there were any jobs.
    func runJobs() -> Bool {
        guard takeBatch() else { return false }
        for job in batch {
            job.runSynchronously(
                isolatedTo: asUnownedSerialExecutor(),
                taskExecutor: asUnownedTaskExecutor()
            )
        }
        batch.removeAll(keepingCapacity: true)
        return true
    }

    private func takeBatch() -> Bool {
        queue.withLock { queue in
            if queue.isEmpty { return false }
            swap(&queue, &batch)
            return true
        }
    }
}
