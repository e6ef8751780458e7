// SyncEvent and its broadcast: progress of push and pull for whoever looks.

import Synchronization

/// A step of a push or a pull.
public enum SyncEvent: Sendable, Hashable {
    /// A push began with so many operations in the queue.
    case pushStarted(pending: Int)
    /// The server accepted an operation.
    case operationCompleted(table: String, itemID: String, kind: OperationKind)
    /// The server rejected an operation; it is parked.
    case operationParked(table: String, itemID: String, kind: OperationKind)
    /// A push ended; `parked` counts the operations that wait for the app.
    case pushFinished(completed: Int, parked: Int)
    /// A pull began.
    case pullStarted(table: String)
    /// A page was stored.
    case pageApplied(table: String, applied: Int, removed: Int)
    /// A pull ended.
    case pullFinished(table: String, applied: Int, removed: Int)
    /// A pull that had begun ended with an error; what was stored before stays.
    case pullFailed(table: String, code: SyncError.Code)
}

/// Hands every event to every listener; a listener that does not keep up loses the oldest.
final class SyncEvents: Sendable {
    private struct State {
        var next = 0
        var listeners: [Int: AsyncStream<SyncEvent>.Continuation] = [:]
    }

    private let state = Mutex(State())

    /// How many events wait for one listener at most.
    private static let bufferMax = 1000

    func stream() -> AsyncStream<SyncEvent> {
        AsyncStream(bufferingPolicy: .bufferingNewest(Self.bufferMax)) { continuation in
            let id = state.withLock { state in
                state.next += 1
                state.listeners[state.next] = continuation
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: id) }
            }
        }
    }

    func send(_ event: SyncEvent) {
        let listeners = state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.yield(event) }
    }
}
