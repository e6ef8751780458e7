// QueryTicket: lets a caller who leaves end the statement that was made for him, and no other.

import Dispatch
import Synchronization
import TidelinePostgres

final class QueryTicket: Sendable {
    private struct State {
        var isCancelled = false
        var running: PostgresCancellation?
    }

    private let state = Mutex(State())

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Its statements begin on a connection; false when nobody waits for them.
    func begin(_ cancellation: PostgresCancellation) -> Bool {
        state.withLock { state in
            if !state.isCancelled { state.running = cancellation }
            return !state.isCancelled
        }
    }

    func end() { state.withLock { $0.running = nil } }

    /// Nobody waits any more.
    func cancel() {
        let running = state.withLock { state in
            state.isCancelled = true
            return state.running
        }
        guard let running else { return }
        // It connects to the server, which takes a while.
        DispatchQueue.global().async { running.cancel() }
    }
}
