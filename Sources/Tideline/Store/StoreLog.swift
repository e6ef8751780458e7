// StoreLog: checkpoints the write-ahead log of a store into its database, on its own thread and
// connection, so that neither a page nor a local change waits for it.

import Synchronization
import TidelineSQLite

final class StoreLog: Sendable {
    private struct State {
        /// The length of the log, in pages; 0 if nothing was committed.
        var pages = 0
        /// The length after the previous commit.
        var pagesBefore = 0
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

    /// The length of the log, in pages, at which it is checkpointed (4 MiB).
    ///
    /// It is less than the part of the file that is kept when the log restarts (`SQLiteStore.logBytesKept`): a commit
    /// that makes a file longer also flushes the file's length, which takes nearly twice as long.
    private static let pagesCopied = 1000

    /// The same length while commits are long, like those of a pull (16 MiB).
    ///
    /// Many of these commits change the same page, which is then copied only once.
    private static let pagesCopiedOfLong = 4000

    /// The number of pages above which a commit counts as long.
    private static let pagesLong = 100

    /// The length at which the writer itself checkpoints the log (64 MiB).
    ///
    /// Without that, a log that is written without a pause would never restart.
    private static let pagesMax = 16_000

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
        let (pages, added) = state.withLock { state in
            let (pages, before) = (state.pages, state.pagesBefore)
            if pages > 0 { (state.pages, state.pagesBefore) = (0, pages) }
            // A shorter log has restarted.
            return (pages, pages < before ? pages : pages - before)
        }
        if state.withLock({ $0.isSuspended }) { return }
        if pages >= Self.pagesMax {
            // If another connection is copying, the next commit tries again.
            _ = try? writer.checkpoint(.passive)
        } else if pages >= (added < Self.pagesLong ? Self.pagesCopied : Self.pagesCopiedOfLong) {
            copy()
        }
    }

    private func copy() {
        let copier = state.withLock { state -> DatabaseThreads? in
            guard !state.isCopying, !state.isClosed, !state.isSuspended else { return nil }
            if state.copier == nil {
                // If no connection can be opened, the writer eventually copies the log.
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
            _ = try? database.checkpoint(.passive)
            self?.state.withLock { ($0.isCopying, $0.copying) = (false, nil) }
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
