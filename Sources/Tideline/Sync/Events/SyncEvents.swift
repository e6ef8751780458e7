// SyncEvents: delivers the events of a client to its listeners.

import Synchronization

/// A hub that sends each event to all listeners.
///
/// If a listener is slow, its oldest events are dropped.
final class SyncEvents: Sendable {
    private struct State {
        var next = 0
        var listeners: [Int: AsyncStream<SyncEvent>.Continuation] = [:]
    }

    private let state = Mutex(State())
    private let log: (any SyncLog)?

    init(log: (any SyncLog)? = nil) { self.log = log }

    /// The maximum number of events that are buffered for one listener.
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

    /// Logs an entry without an event.
    func note(_ entry: SyncLogEntry) { log?.write(entry) }

    func send(_ event: SyncEvent) {
        log?.write(event.logEntry)
        let listeners = state.withLock { $0.listeners.sorted { $0.key < $1.key } }
        for (_, listener) in listeners { listener.yield(event) }
    }
}
