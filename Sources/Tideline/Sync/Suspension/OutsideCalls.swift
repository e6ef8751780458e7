// OutsideCalls: a client's calls that wait for something outside (a response, a token, a timer),
// all of which end when the client is suspended.

import Synchronization
import TidelineCore

/// The calls of one client that wait for something outside of it.
///
/// Each call runs in its own task, so that the caller can continue even if the call ignores its
/// cancellation. If the task has a preferred executor, as in a simulation, child tasks are used
/// instead, because other tasks would not run on that executor.
final class OutsideCalls: Sendable {
    private struct State {
        var isSuspended = false
        var last = 0
        /// The closures that end the running calls.
        var running: [Int: @Sendable () -> Void] = [:]
    }

    /// The error of a call that took longer than its limit.
    struct TimedOut: Error {
        let limit: Duration
    }

    private let environment: SyncEnvironment
    private let state = Mutex(State())

    init(_ environment: SyncEnvironment) { self.environment = environment }

    /// Whether the client is suspended.
    var isSuspended: Bool { state.withLock { $0.isSuspended } }

    /// - Throws: ``SyncError`` with code `suspended` while the client is suspended.
    func check() throws {
        if isSuspended { throw SyncError.suspended() }
    }

    /// Runs `body` in its own task and returns its result.
    ///
    /// If the call has a time limit, it also ends when the caller's task is cancelled, even if
    /// `body` continues.
    ///
    /// - Throws: The errors of `body`, ``TimedOut`` after the limit, and ``SyncError`` with code
    ///   `suspended` as soon as the client is suspended.
    func run<Result: Sendable>(
        within limit: Duration? = nil,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        // Work that the app does in such a call is not part of the push or pull.
        let body: @Sendable () async throws -> Result = {
            try await ActiveTurn.$current.withValue(nil) { try await body() }
        }
        if Task.hasOwnExecutor { return try await runAsChild(within: limit, body) }
        let call = OutsideCall<Result>(isAbandonedWhenCancelled: limit != nil)
        let id = try add { call.end(.failure(SyncError.suspended())) }
        defer { state.withLock { _ = $0.running.removeValue(forKey: id) } }
        let work = Task {
            do {
                call.end(.success(try await body()))
            } catch {
                call.end(.failure(error))
            }
        }
        call.add { work.cancel() }
        if let limit {
            let timer = Task { [environment] in
                guard (try? await environment.timeLimit(limit)) != nil else { return }
                call.end(.failure(TimedOut(limit: limit)))
            }
            call.add { timer.cancel() }
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { call.wait($0) }
        } onCancel: {
            call.cancel()
        }
    }

    private func runAsChild<Result: Sendable>(
        within limit: Duration?,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let id = try add { end.yield() }
        defer { state.withLock { _ = $0.running.removeValue(forKey: id) } }
        return try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                for await _ in ends { throw SyncError.suspended() }
                return nil
            }
            if let limit {
                group.addTask { [environment] in
                    try await environment.sleep(limit)
                    throw TimedOut(limit: limit)
                }
            }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
            }
            throw CancellationError()
        }
    }

    /// Waits for a duration, or until the client is suspended.
    func sleep(_ duration: Duration) async throws {
        let sleep = environment.sleep
        try await run { try await sleep(duration) }
    }

    private func add(_ end: @escaping @Sendable () -> Void) throws -> Int {
        try state.withLock { state in
            guard !state.isSuspended else { throw SyncError.suspended() }
            state.last += 1
            state.running[state.last] = end
            return state.last
        }
    }

    /// Ends all calls; from then on, every call throws an error immediately.
    func suspend() {
        let running = state.withLock { state in
            state.isSuspended = true
            defer { state.running = [:] }
            return state.running.sorted { $0.key < $1.key }
        }
        for call in running { call.value() }
    }

    /// Allows calls again.
    func resume() { state.withLock { $0.isSuspended = false } }
}

extension Task where Success == Never, Failure == Never {
    /// Whether the current task has a preferred executor.
    static var hasOwnExecutor: Bool {
        withUnsafeCurrentTask { $0?.unownedTaskExecutor != nil }
    }
}

/// A single call, with its tasks and the caller that waits for the first result.
private final class OutsideCall<Value: Sendable>: Sendable {
    private struct State {
        var caller: CheckedContinuation<Value, any Error>?
        var result: Result<Value, any Error>?
        var cancels: [@Sendable () -> Void] = []
        var isCancelled = false
    }

    private let isAbandonedWhenCancelled: Bool
    private let state = Mutex(State())

    init(isAbandonedWhenCancelled: Bool) {
        self.isAbandonedWhenCancelled = isAbandonedWhenCancelled
    }

    /// Adds a closure that cancels a task of the call.
    func add(_ cancel: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            let isOver = state.result != nil || state.isCancelled
            if !isOver { state.cancels.append(cancel) }
            return isOver
        }
        if isOver { cancel() }
    }

    func wait(_ caller: CheckedContinuation<Value, any Error>) {
        let result = state.withLock { state in
            if state.result == nil { state.caller = caller }
            return state.result
        }
        if let result { caller.resume(with: result) }
    }

    /// Sets the result unless there is one already, and cancels the tasks of the call.
    func end(_ result: Result<Value, any Error>) {
        let (caller, cancels) = state.withLock {
            state -> (CheckedContinuation<Value, any Error>?, [@Sendable () -> Void]) in
            guard state.result == nil else { return (nil, []) }
            state.result = result
            defer { (state.caller, state.cancels) = (nil, []) }
            return (state.caller, state.cancels)
        }
        for cancel in cancels { cancel() }
        caller?.resume(with: result)
    }

    /// Handles the cancellation of the caller's task.
    func cancel() {
        if isAbandonedWhenCancelled { return end(.failure(CancellationError())) }
        let cancels = state.withLock { state in
            state.isCancelled = true
            defer { state.cancels = [] }
            return state.cancels
        }
        for cancel in cancels { cancel() }
    }
}

extension SyncError {
    static func suspended() -> SyncError {
        SyncError(
            .suspended,
            """
            The client is suspended, so nothing is sent or fetched. Nothing is lost. Call \
            client.resume() to continue.
            """
        )
    }
}
