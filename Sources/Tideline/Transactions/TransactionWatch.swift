// TransactionWatch: whether the task that waits for a transaction was cancelled. The transaction runs
// on a thread of the store, which knows of no task.

import Synchronization

final class TransactionWatch: Sendable {
    private let what: String
    private let isCancelled = Mutex(false)

    private init(_ what: String) { self.what = what }

    /// - Throws: ``SyncError`` with code `cancelled` once the task is cancelled.
    func check() throws {
        guard isCancelled.withLock({ $0 }) else { return }
        throw SyncError.cancelledChange(what, CancellationError())
    }

    /// Runs `body`, which looks at the watch between two rows and once more before it commits.
    static func during<Result>(
        _ what: String,
        _ body: (TransactionWatch) async throws -> Result
    ) async throws -> Result {
        let watch = TransactionWatch(what)
        return try await withTaskCancellationHandler {
            try await body(watch)
        } onCancel: {
            watch.isCancelled.withLock { $0 = true }
        }
    }
}
