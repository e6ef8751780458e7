// DeadlineWatch: watches the deadlines of calls.
//
// A single sleeping task serves all deadlines. With a task per call, each timer would stay until
// its timeout, which means hundreds of thousands of timers at full speed.

import Synchronization

/// A timer that runs an action at its deadline, unless the action was removed before.
final class DeadlineWatch: Sendable {
    private struct Entry {
        let deadline: ContinuousClock.Instant
        let expire: @Sendable () -> Void
    }

    private struct State {
        var entries: [Int: Entry] = [:]
        var nextID = 0
        /// The time when the current task wakes up; earlier tasks that still wait are obsolete.
        var wakesAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    /// Calls `expire` at the deadline; returns an id with which the call can be removed.
    func add(_ deadline: ContinuousClock.Instant, _ expire: @escaping @Sendable () -> Void) -> Int {
        let (id, mustWake) = state.withLock { state in
            state.nextID += 1
            state.entries[state.nextID] = Entry(deadline: deadline, expire: expire)
            let mustWake = state.wakesAt.map { deadline < $0 } ?? true
            if mustWake { state.wakesAt = deadline }
            return (state.nextID, mustWake)
        }
        if mustWake { wake(at: deadline) }
        return id
    }

    func remove(_ id: Int) {
        state.withLock { $0.entries[id] = nil }
    }

    private func wake(at instant: ContinuousClock.Instant) {
        Task.detached { [weak self] in
            try? await Task.sleep(until: instant, clock: .continuous)
            self?.runExpired(wokenFor: instant)
        }
    }

    private func runExpired(wokenFor instant: ContinuousClock.Instant) {
        let (expired, next) = state.withLock { state in
            guard state.wakesAt == instant else {
                return ([Entry](), nil as ContinuousClock.Instant?)
            }
            let now = ContinuousClock.now
            let expired = state.entries.filter { $0.value.deadline <= now }
            for id in expired.keys { state.entries[id] = nil }
            state.wakesAt = state.entries.values.map(\.deadline).min()
            return (Array(expired.values), state.wakesAt)
        }
        for entry in expired { entry.expire() }
        if let next { wake(at: next) }
    }
}
