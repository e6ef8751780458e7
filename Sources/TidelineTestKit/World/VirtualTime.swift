// VirtualTime: a simulated clock, and an executor with a single thread and a fixed order of events.
//
// All tasks of a simulation run on this executor. If no task can continue, the clock advances to
// the time at which the first sleeping task wakes up. Hours of simulated time therefore take
// milliseconds, and every run is the same.

public import Foundation
import Synchronization

/// A deterministic executor with simulated time.
public final class VirtualTime: SerialExecutor, TaskExecutor {
    private struct Sleeper {
        var due: Int64
        var order: Int
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var jobs: [UnownedJob] = []
        var sleepers: [Sleeper] = []
        var now: Int64
        var order = 0
        /// The tasks that were cancelled before they slept.
        var cancelled: Set<Int> = []
    }

    private let state: Mutex<State>

    /// Creates an executor whose clock starts at 2026-01-01T00:00:00Z.
    public init() {
        state = Mutex(State(now: 1_767_225_600_000_000))
    }

    /// The simulated time, in microseconds since 1970.
    public var now: Int64 { state.withLock { $0.now } }

    /// The simulated time as a date.
    public var date: Date { Date(timeIntervalSince1970: Double(now) / 1_000_000) }

    /// Queues a job of a task.
    public func enqueue(_ job: consuming ExecutorJob) {
        let unowned = UnownedJob(job)
        state.withLock { $0.jobs.append(unowned) }
    }

    /// Suspends the task for a duration of simulated time; throws if the task is cancelled.
    public func sleep(_ duration: Duration) async throws {
        try Task.checkCancellation()
        let (seconds, attoseconds) = duration.components
        let micros = max(1, seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
        let order = state.withLock { state in
            state.order += 1
            return state.order
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    if state.cancelled.remove(order) != nil { return true }
                    let due = state.now + micros
                    state.sleepers.append(
                        Sleeper(due: due, order: order, continuation: continuation)
                    )
                    return false
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                guard let index = state.sleepers.firstIndex(where: { $0.order == order }) else {
                    state.cancelled.insert(order)
                    return nil
                }
                return state.sleepers.remove(at: index)
            }
            sleeper?.continuation.resume()
        }
        try Task.checkCancellation()
    }

    /// Starts a task that runs on this executor.
    @discardableResult
    public func start<Result: Sendable>(
        _ body: sending @escaping @isolated(any) () async throws -> Result
    ) -> Task<Result, any Error> {
        Task(executorPreference: self, operation: body)
    }

    /// Runs `body` to completion on the calling thread.
    ///
    /// Returns nil on a deadlock, that is, if no task can continue and none is sleeping.
    public func run<Result: Sendable>(
        _ body: sending @escaping () async throws -> Result
    ) throws -> Result? {
        let box = OutcomeBox<Result>()
        start {
            do {
                box.set(.success(try await body()))
            } catch {
                box.set(.failure(error))
            }
        }
        while box.value == nil {
            guard step() else { return nil }
        }
        return try box.value?.get()
    }

    /// Runs the jobs that are ready, or advances the clock; returns false if there is nothing to
    /// do.
    private func step() -> Bool {
        let jobs = state.withLock { state in
            defer { state.jobs.removeAll() }
            return state.jobs
        }
        if !jobs.isEmpty {
            for job in jobs {
                job.runSynchronously(
                    isolatedTo: asUnownedSerialExecutor(),
                    taskExecutor: asUnownedTaskExecutor()
                )
            }
            return true
        }
        let sleeper = state.withLock { state -> Sleeper? in
            guard
                let index = state.sleepers.indices.min(by: {
                    (state.sleepers[$0].due, state.sleepers[$0].order)
                        < (state.sleepers[$1].due, state.sleepers[$1].order)
                })
            else { return nil }
            let sleeper = state.sleepers.remove(at: index)
            state.now = max(state.now, sleeper.due)
            return sleeper
        }
        guard let sleeper else { return false }
        sleeper.continuation.resume()
        return true
    }
}

/// A box for the result of a task; it is empty until the task ends.
private final class OutcomeBox<Content: Sendable>: Sendable {
    private let state = Mutex<Result<Content, any Error>?>(nil)

    var value: Result<Content, any Error>? { state.withLock { $0 } }

    func set(_ result: Result<Content, any Error>) { state.withLock { $0 = result } }
}
