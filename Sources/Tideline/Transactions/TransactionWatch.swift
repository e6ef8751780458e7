// TransactionWatch: cancellation and progress of a transaction, which runs on a thread of the store, outside of any
// task.

import Synchronization
import TidelineSQLite

/// A check of whether the task that waits for a transaction was cancelled.
final class TransactionWatch: Sendable {
    private struct State {
        /// The number of changed rows, by table.
        var changed: [String: Int] = [:]
    }

    /// Whether the task that waits for the transaction was cancelled; it also ends a running statement of the app.
    let stop = QueryStop()
    private let what: String
    private let events: SyncEvents?
    private let state = Mutex(State())

    private init(_ what: String, _ events: SyncEvents?) {
        (self.what, self.events) = (what, events)
    }

    /// - Throws: ``SyncError`` with code `cancelled` if the task is cancelled.
    func check() throws {
        guard stop.isSet else { return }
        throw SyncError.cancelledChange(what, CancellationError())
    }

    /// Called when the transaction begins or restarts.
    func begin() throws {
        state.withLock { $0.changed = [:] }
        try check()
    }

    /// Reports progress to the app each time a certain number of rows has changed.
    func changed(_ rows: Int, in table: String) {
        guard let events else { return }
        let (before, now) = state.withLock { state in
            let before = state.changed[table, default: 0]
            state.changed[table] = before + rows
            return (before, before + rows)
        }
        guard before / SyncEvent.rowsAtOnce < now / SyncEvent.rowsAtOnce else { return }
        events.send(.rowsChanged(table: table, applied: now))
    }

    /// Runs `body`, which checks for cancellation between two rows and again before it commits.
    static func during<Result>(
        _ what: String,
        telling events: SyncEvents? = nil,
        _ body: (TransactionWatch) async throws -> Result
    ) async throws -> Result {
        let watch = TransactionWatch(what, events)
        return try await withTaskCancellationHandler {
            try await body(watch)
        } onCancel: {
            watch.stop.set()
        }
    }
}
