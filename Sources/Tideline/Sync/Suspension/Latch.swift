// Latch: a flag that tasks can wait for.

import Synchronization

/// A flag that tasks wait for, up to a time limit.
final class Latch: Sendable {
    private struct State {
        var isSet = false
        var last = 0
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    var isSet: Bool { state.withLock { $0.isSet } }

    func set() {
        let waiting = state.withLock { state in
            state.isSet = true
            defer { state.waiting = [:] }
            return Array(state.waiting.values)
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Waits until the latch is set, or until a limit in real time has passed.
    ///
    /// - Returns: Whether the latch is set.
    func wait(_ limit: Duration, _ environment: SyncEnvironment) async -> Bool {
        await withCheckedContinuation { continuation in
            let id = state.withLock { state -> Int? in
                guard !state.isSet else { return nil }
                state.last += 1
                state.waiting[state.last] = continuation
                return state.last
            }
            guard let id else { return continuation.resume() }
            Task { [self] in
                try? await environment.timeLimit(limit)
                state.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
            }
        }
        return isSet
    }
}
