// SyncGate: makes jobs wait for their turn, and combines overlapping pushes into one.

import Synchronization

/// The runner of ``SyncTurns``, which makes the jobs of a client wait for their turn.
final class SyncGate: Sendable {
    private struct State {
        var turns: SyncTurns
        var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
        /// Jobs that were started or cancelled before they began to wait.
        var early: [Int: Result<Void, any Error>] = [:]
        var isPushing = false
        var followers: [Int: CheckedContinuation<PushEnd, any Error>] = [:]
        var lastFollower = 0
        /// Followers that were cancelled before they began to wait.
        var cancelledFollowers: Set<Int> = []
        /// Latches to set when no job runs or waits.
        var idle: [Latch] = []
    }

    /// The end of a push, for the pushes that joined it.
    enum PushEnd: Sendable {
        case ended(Result<PushResult, any Error>)
        /// The push's task was cancelled; the pushes that joined it continue without it.
        case abandoned
    }

    private let state: Mutex<State>

    /// - Parameter pullsMax: The maximum number of pulls that run at the same time.
    init(pullsMax: Int) { state = Mutex(State(turns: SyncTurns(pullsMax: pullsMax))) }

    /// Runs `body` in turn with the other jobs.
    ///
    /// - Throws: `CancellationError` if the task is cancelled while it waits; `body` is not called.
    func withTurn<Result>(
        _ job: SyncTurns.Job,
        _ body: () async throws -> Result
    ) async throws -> Result {
        try Task.checkCancellation()
        try ConflictHandler.checkMayWait(at: self)
        let (id, starts) = state.withLock { $0.turns.ask(job) }
        defer { end(id) }
        if !starts {
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { wait(id, $0) }
            } onCancel: {
                resume(id, .failure(CancellationError()))
            }
        }
        return try await body()
    }

    private func wait(_ id: Int, _ continuation: CheckedContinuation<Void, any Error>) {
        let early = state.withLock { state in
            let early = state.early.removeValue(forKey: id)
            if early == nil { state.waiting[id] = continuation }
            return early
        }
        if let early { continuation.resume(with: early) }
    }

    private func resume(_ id: Int, _ result: Result<Void, any Error>) {
        let continuation = state.withLock { state in
            let continuation = state.waiting.removeValue(forKey: id)
            if continuation == nil, state.early[id] == nil { state.early[id] = result }
            return continuation
        }
        continuation?.resume(with: result)
    }

    private func end(_ id: Int) {
        let (started, idle) = state.withLock { state in
            state.early[id] = nil
            let started = state.turns.end(id)
            guard state.turns.isIdle else { return (started, [Latch]()) }
            defer { state.idle = [] }
            return (started, state.idle)
        }
        for id in started { resume(id, .success(())) }
        for latch in idle { latch.set() }
    }

    /// The number of running pulls, at least one, which share the maximum number of rows of a page.
    var pullsRunning: Int { max(1, state.withLock { $0.turns.runningCount }) }

    /// The number of parts into which the memory for pages is divided.
    ///
    /// A single pull may use the memory twice: for the pages that it stores, and for the pages that
    /// it reads. Several pulls together use it once.
    var pageShares: Int { pullsRunning > 1 ? pullsRunning * 2 : 1 }

    /// A latch that is set as soon as no job runs or waits.
    func whenIdle() -> Latch {
        let latch = Latch()
        let isIdle = state.withLock { state in
            if !state.turns.isIdle { state.idle.append(latch) }
            return state.turns.isIdle
        }
        if isIdle { latch.set() }
        return latch
    }

    // MARK: - Overlapping pushes

    /// Runs a push, or waits for the push that is running.
    ///
    /// If `hasMore` returns true after the running push has ended, this call starts another push.
    /// It sends the operations that were queued or released in the meantime.
    func push(
        _ body: () async throws -> PushResult,
        hasMore: () async throws -> Bool
    ) async throws -> PushResult {
        try ConflictHandler.checkMayWait(at: self)
        while true {
            try Task.checkCancellation()
            if state.withLock({ state in
                defer { state.isPushing = true }
                return !state.isPushing
            }) {
                return try await lead(body)
            }
            switch try await follow() {
            case .abandoned: continue
            case .ended(let result):
                if case .failure(let error) = result, !Self.mayHaveLeft(error) { throw error }
                if try await !hasMore() { return try result.get() }
            }
        }
    }

    /// Returns whether a push that ended with this error may have left operations that can be sent.
    private static func mayHaveLeft(_ error: any Error) -> Bool {
        (error as? PushError)?.status == .operationErrors
    }

    private func lead(_ body: () async throws -> PushResult) async throws -> PushResult {
        do {
            let result = try await withTurn(.push, body)
            finish(.ended(.success(result)))
            return result
        } catch {
            finish(Task.isCancelled ? .abandoned : .ended(.failure(error)))
            throw error
        }
    }

    private func finish(_ end: PushEnd) {
        let followers = state.withLock { state in
            defer { state.followers = [:] }
            state.isPushing = false
            return state.followers.sorted { $0.key < $1.key }
        }
        for follower in followers { follower.value.resume(returning: end) }
    }

    private func follow() async throws -> PushEnd {
        let id = state.withLock { state in
            state.lastFollower += 1
            return state.lastFollower
        }
        defer { state.withLock { _ = $0.cancelledFollowers.remove(id) } }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let early = state.withLock { state -> Result<PushEnd, any Error>? in
                    if state.cancelledFollowers.remove(id) != nil {
                        return .failure(CancellationError())
                    }
                    // The push ended in the meantime.
                    guard state.isPushing else { return .success(.abandoned) }
                    state.followers[id] = continuation
                    return nil
                }
                if let early { continuation.resume(with: early) }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                let continuation = state.followers.removeValue(forKey: id)
                if continuation == nil { state.cancelledFollowers.insert(id) }
                return continuation
            }
            continuation?.resume(throwing: CancellationError())
        }
    }
}
