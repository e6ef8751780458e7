// ChangeHub: reports the changes of transactions to listeners. If a listener is slow, several
// changes are merged into one.

import Synchronization

/// A change that can be merged with a later one.
package protocol JoinedChange: Sendable {
    /// Returns whether this change includes all of another change.
    func covers(_ other: Self) -> Bool

    /// Merges an earlier change into this one.
    mutating func join(_ other: Self)
}

/// The names of changed tables.
extension Set<String>: JoinedChange {
    package func covers(_ other: Set<String>) -> Bool { other.isSubset(of: self) }

    package mutating func join(_ other: Set<String>) { formUnion(other) }
}

/// A broadcaster that sends changes to listeners.
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

    /// Whether there are any listeners.
    var isWatched: Bool { state.withLock { !$0.listeners.isEmpty } }

    /// Ends every stream, including streams that are requested later.
    func finish() {
        let listeners = state.withLock { state in
            state.isFinished = true
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }

    func publish(_ change: Change) {
        // Listeners are called in registration order, so that a simulation behaves the same in
        // every process.
        let listeners = state.withLock { $0.listeners.sorted { $0.key < $1.key } }
        for (_, listener) in listeners { listener.join(change) }
    }
}

extension AsyncStream.Continuation where Element: JoinedChange {
    /// Sends a change to a listener whose buffer holds one change.
    ///
    /// If the buffer still holds an unread change, the two changes are merged, so that a slow
    /// listener misses nothing.
    package func join(_ change: Element) {
        var next = change
        while case .dropped(let unread) = yield(next), !next.covers(unread) { next.join(unread) }
    }
}
