// StoreLog: checkpoints a store's write-ahead log. A separate thread with its own connection copies
// most of the log. The writer copies only the last pages, or all pages once the log is longer than
// 64 MiB.

import Synchronization
import TidelineSQLite

/// A checkpointer for one store's write-ahead log.
final class StoreLog: Sendable {
    private struct State {
        /// The length of the log after a commit, in pages, until `committed(_:)` reads it; 0 if
        /// there was no commit.
        var pages = 0
        var policy = StoreLogPolicy()
        /// The thread that checkpoints the log, created when it is first needed.
        var copier: DatabaseThreads?
        var isCopying = false
        var isClosed = false
        var isSuspended = false
        /// The connection that runs the checkpoint, so that it can be interrupted.
        weak var copying: Database?
    }

    private let state = Mutex(State())
    private let path: String
    private let key: DatabaseKey?

    /// The time for which the writer waits for readers when it restarts a log that is too long.
    ///
    /// The writer first waits for readers of older states, and then for the same time for readers
    /// that began during the checkpoint.
    private static let restartMilliseconds: Int32 = 100

    init(path: String, _ key: DatabaseKey? = nil) {
        self.path = path
        self.key = key
    }

    /// Starts observing the log of a writer.
    func attach(_ writer: Database) {
        writer.observeLog { [weak self] pages in self?.state.withLock { $0.pages = pages } }
    }

    /// Waits until the running checkpoint is done, because the log cannot be truncated earlier.
    func finishCopying() async {
        let copier = state.withLock { $0.copier }
        try? await copier?.run { _ in }
    }

    /// Waits until the running checkpoint ends, if there is one.
    ///
    /// No new checkpoint begins until ``resume()``.
    func suspend() async {
        let copier = state.withLock { state in
            state.isSuspended = true
            defer { state.copier = nil }
            return state.copier
        }
        await copier?.finish()
        state.withLock { $0.isCopying = false }
    }

    func interrupt() { state.withLock { $0.copying }?.interrupt() }

    func resume() { state.withLock { $0.isSuspended = false } }

    /// The store calls this method after each commit with the writer's connection.
    func committed(_ writer: Database) {
        let action = state.withLock { state -> StoreLogPolicy.Action in
            defer { state.pages = 0 }
            guard state.pages > 0, !state.isSuspended else { return .nothing }
            return state.policy.committed(state.pages, isCopying: state.isCopying)
        }
        switch action {
        case .nothing: break
        case .copyBulk: copyBulk()
        case .copyRest: _ = try? writer.checkpoint(.passive)
        case .restart: _ = try? writer.checkpoint(.restart, waiting: Self.restartMilliseconds)
        }
    }

    private func copyBulk() {
        let copier = state.withLock { state -> DatabaseThreads? in
            guard !state.isCopying, !state.isClosed, !state.isSuspended else { return nil }
            if state.copier == nil {
                // If no connection can be opened, the writer copies the log when its length reaches
                // 64 MiB.
                guard let database = try? Database(path: path, key: key, mode: .existing) else {
                    return nil
                }
                state.copier = DatabaseThreads([database], name: "tideline.log")
            }
            state.isCopying = true
            return state.copier
        }
        copier?.submit { [weak self] database in
            self?.state.withLock { $0.copying = database }
            let result = try? database.checkpoint(.passive)
            self?.state.withLock { state in
                (state.isCopying, state.copying) = (false, nil)
                if let result { state.policy.didCopyBulk(result.copied) }
            }
        }
    }

    /// Closes the connection after the running checkpoint is done.
    func close() async {
        await end()?.finish()
    }

    private func end() -> DatabaseThreads? {
        state.withLock { state in
            state.isClosed = true
            defer { state.copier = nil }
            return state.copier
        }
    }

    deinit { end()?.stop() }
}
