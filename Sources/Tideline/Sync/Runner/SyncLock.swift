// SyncLock: one push, pull or purge at a time, in the order in which they came.

import Synchronization

final class SyncLock: Sendable {
    private struct State {
        var isTaken = false
        var next = 0
        var waiting: [(id: Int, continuation: CheckedContinuation<Void, any Error>)] = []
        /// Cancelled before they began to wait.
        var cancelled: Set<Int> = []
    }

    private let state = Mutex(State())

    /// Runs `body` alone.
    ///
    /// - Throws: `CancellationError` when the task is cancelled while it waits; then `body` never
    ///   ran.
    func withLock<Result>(_ body: () async throws -> Result) async throws -> Result {
        try await take()
        defer { release() }
        return try await body()
    }

    private func take() async throws {
        try Task.checkCancellation()
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait(id, $0) }
        } onCancel: {
            cancel(id)
        }
        state.withLock { _ = $0.cancelled.remove(id) }
    }

    private func wait(_ id: Int, _ continuation: CheckedContinuation<Void, any Error>) {
        let answer = state.withLock { state -> Result<Void, any Error>? in
            if state.cancelled.remove(id) != nil { return .failure(CancellationError()) }
            if state.isTaken {
                state.waiting.append((id, continuation))
                return nil
            }
            state.isTaken = true
            return .success(())
        }
        if let answer { continuation.resume(with: answer) }
    }

    private func cancel(_ id: Int) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, any Error>? in
            guard let place = state.waiting.firstIndex(where: { $0.id == id }) else {
                state.cancelled.insert(id)
                return nil
            }
            return state.waiting.remove(at: place).continuation
        }
        waiter?.resume(throwing: CancellationError())
    }

    private func release() {
        let next = state.withLock { state -> CheckedContinuation<Void, any Error>? in
            guard !state.waiting.isEmpty else {
                state.isTaken = false
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume()
    }
}
