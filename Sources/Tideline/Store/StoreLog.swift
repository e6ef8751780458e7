// StoreLog: checkpoints the write-ahead log of a store. A separate thread with its own connection copies most of it;
// the writer copies only the last pages, or all of a log longer than 64 MiB.

import Synchronization
import TidelineSQLite

/// A checkpointer of the write-ahead log of one store.
final class StoreLog: Sendable {
    private struct State {
        /// The length of the log after a commit, in pages, until `committed(_:)` reads it; 0 if nothing was committed.
        var pages = 0
        var policy = StoreLogPolicy()
        /// The thread that checkpoints the log, created when it is first needed.
        var copier: DatabaseThreads?
        var isCopying = false
        var isClosed = false
        var isSuspended = false
        /// The connection that checkpoints, which can be interrupted.
        weak var copying: Database?
    }

    private let state = Mutex(State())
    private let path: String
    private let key: DatabaseKey?

    /// The time that the writer waits for readers when it restarts a log that is too long.
    ///
    /// It waits for readers of older states first, and then as long for readers that began during the checkpoint.
    private static let restartMilliseconds: Int32 = 100

    init(path: String, _ key: DatabaseKey? = nil) {
        self.path = path
        self.key = key
    }

    /// Starts to observe the log of a writer.
    func attach(_ writer: Database) {
        writer.observeLog { [weak self] pages in self?.state.withLock { $0.pages = pages } }
    }

    /// Waits until the running checkpoint is done, because the log cannot be truncated before that.
    func finishCopying() async {
        let copier = state.withLock { $0.copier }
        try? await copier?.run { _ in }
    }

    /// Ends the running checkpoint.
    ///
    /// No other one begins until ``resume()``.
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

    /// Called after each commit with the writer's connection.
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
                // If no connection can be opened, the writer copies the log once it has 64 MiB.
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
