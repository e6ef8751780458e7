// QueryTicket: cancels statements.

import Dispatch
import Synchronization
import TidelinePostgres

/// A ticket that cancels the statement of a caller who disconnects, and no other statement.
final class QueryTicket: Sendable {
    private struct State {
        var isCancelled = false
        /// Whether the statements must end and restart later.
        var isInterrupted = false
        var running: PostgresCancellation?
    }

    private let state = Mutex(State())

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    /// Whether the statements were cancelled or have to restart.
    var isOver: Bool { state.withLock { $0.isCancelled || $0.isInterrupted } }

    /// Begins statements on a connection; returns false if the caller has disconnected.
    func begin(_ cancellation: PostgresCancellation) -> Bool {
        state.withLock { state in
            state.isInterrupted = false
            if !state.isCancelled { state.running = cancellation }
            return !state.isCancelled
        }
    }

    func end() { state.withLock { $0.running = nil } }

    /// Interrupts the statements, which restart later.
    func interrupt() {
        let running = state.withLock { state in
            state.isInterrupted = true
            return state.running
        }
        guard let running else { return }
        DispatchQueue.global().async { running.cancel() }
    }

    /// Cancels the statements, because the caller has disconnected.
    func cancel() {
        let running = state.withLock { state in
            state.isCancelled = true
            return state.running
        }
        guard let running else { return }
        // Cancelling connects to the server, which takes a while.
        DispatchQueue.global().async { running.cancel() }
    }
}
