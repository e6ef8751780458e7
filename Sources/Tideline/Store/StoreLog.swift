// StoreLog: copies the write-ahead log of a store into its database, on a thread and a connection of
// its own, so that neither a page nor a local change waits for it.

import Synchronization
import TidelineSQLite

final class StoreLog: Sendable {
    private struct State {
        /// How long the log is, in pages; 0 where nothing was committed.
        var pages = 0
        /// How long it was after the commit before.
        var pagesBefore = 0
        /// Made when there is something to copy.
        var copier: DatabaseThreads?
        var isCopying = false
        var isClosed = false
        var isSuspended = false
        /// The connection that copies, to end it early.
        weak var copying: Database?
    }

    private let state = Mutex(State())
    private let path: String
    private let key: DatabaseKey?

    /// How many pages the log has when it is copied (4 MiB).
    ///
    /// Short of what is kept of its file when it begins anew (`SQLiteStore.logBytesKept`): a commit that
    /// makes a file longer is flushed with the file's length, which takes nearly twice as long.
    private static let pagesCopied = 1000

    /// The same while commits are long, as those of a pull (16 MiB): the same page changes in many of
    /// them and is copied once.
    private static let pagesCopiedOfLong = 4000

    /// From how many pages on a commit is long.
    private static let pagesLong = 100

    /// How many it has when the writer copies it (64 MiB): a log that is written without a pause never
    /// begins anew otherwise.
    private static let pagesMax = 16_000

    init(path: String, _ key: DatabaseKey? = nil) {
        self.path = path
        self.key = key
    }

    /// Takes over the log of a writer.
    func attach(_ writer: Database) {
        writer.observeLog { [weak self] pages in self?.state.withLock { $0.pages = pages } }
    }

    /// Waits until the copy that runs is done: the log cannot be emptied before.
    func finishCopying() async {
        let copier = state.withLock { $0.copier }
        try? await copier?.run { _ in }
    }

    /// Ends what is being copied; nothing is copied until ``resume()``.
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

    /// To be called after each commit, with the writer.
    func committed(_ writer: Database) {
        let (pages, added) = state.withLock { state in
            let (pages, before) = (state.pages, state.pagesBefore)
            if pages > 0 { (state.pages, state.pagesBefore) = (0, pages) }
            // A log that is shorter has begun anew.
            return (pages, pages < before ? pages : pages - before)
        }
        if state.withLock({ $0.isSuspended }) { return }
        if pages >= Self.pagesMax {
            // Somebody may be at it: then the next commit tries.
            _ = try? writer.checkpoint(.passive)
        } else if pages >= (added < Self.pagesLong ? Self.pagesCopied : Self.pagesCopiedOfLong) {
            copy()
        }
    }

    private func copy() {
        let copier = state.withLock { state -> DatabaseThreads? in
            guard !state.isCopying, !state.isClosed, !state.isSuspended else { return nil }
            if state.copier == nil {
                // Where none can be opened, the writer does it in the end.
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

    /// Ends it when what is being copied is copied.
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
