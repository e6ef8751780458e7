// ChangeHub: tells listeners what transactions changed; a slow one gets several changes as one.

import Synchronization

/// What changed, which can be joined with another such.
package protocol JoinedChange: Sendable {
    /// Whether nothing of the other is missing here.
    func covers(_ other: Self) -> Bool

    /// Takes the other in, which came before.
    mutating func join(_ other: Self)
}

/// The names of tables.
extension Set<String>: JoinedChange {
    package func covers(_ other: Set<String>) -> Bool { other.isSubset(of: self) }

    package mutating func join(_ other: Set<String>) { formUnion(other) }
}

/// Tells listeners what changed.
final class ChangeHub<Change: JoinedChange>: Sendable {
    private struct State {
        var next = 0
        var listeners: [Int: AsyncStream<Change>.Continuation] = [:]
        var isFinished = false
    }

    private let state = Mutex(State())

    func stream() -> AsyncStream<Change> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let id = state.withLock { state -> Int? in
                guard !state.isFinished else { return nil }
                state.next += 1
                state.listeners[state.next] = continuation
                return state.next
            }
            guard let id else { return continuation.finish() }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: id) }
            }
        }
    }

    /// Whether somebody listens.
    var isWatched: Bool { state.withLock { !$0.listeners.isEmpty } }

    /// Ends every stream, also those that are asked for later.
    func finish() {
        let listeners = state.withLock { state in
            state.isFinished = true
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }

    func publish(_ change: Change) {
        // In the order in which they came, so that a simulation repeats itself in every process.
        let listeners = state.withLock { $0.listeners.sorted { $0.key < $1.key } }
        for (_, listener) in listeners { listener.join(change) }
    }
}

extension AsyncStream.Continuation where Element: JoinedChange {
    /// Hands a change to a listener with a buffer of one; what it has not read yet is joined with it,
    /// so that nothing is forgotten however slow the listener is.
    package func join(_ change: Element) {
        var next = change
        while case .dropped(let unread) = yield(next), !next.covers(unread) { next.join(unread) }
    }
}
