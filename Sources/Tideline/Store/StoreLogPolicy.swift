// StoreLogPolicy: when the write-ahead log of a store is checkpointed, and on which thread.

/// The rules for checkpoints of a store's log.
///
/// SQLite starts the log again from its beginning after a checkpoint that copied all of its pages. A checkpoint on
/// another thread rarely does that while the writer commits without a pause, because commits add pages meanwhile.
/// Therefore that thread copies the bulk, and the writer copies the few pages that were added.
package struct StoreLogPolicy: Sendable {
    package enum Action: Sendable {
        case nothing
        /// Checkpoint on a thread of its own.
        case copyBulk
        /// Checkpoint on the writer's thread.
        case copyRest
        /// Checkpoint on the writer's thread, and wait a moment for the readers of the log.
        case restart
    }

    /// The length of the log, in pages, at which it is checkpointed (4 MiB).
    ///
    /// It is less than the part of the file that is kept when the log restarts (`SQLiteStore.logBytesKept`): a commit
    /// that makes a file longer also flushes the file's length, which takes nearly twice as long.
    package static let pagesCopied = 1000

    /// The same length while commits are long, like those of a pull (16 MiB).
    ///
    /// Many of these commits change the same page, which is then copied only once.
    package static let pagesCopiedOfLong = 4000

    /// The number of pages above which a commit counts as long.
    package static let pagesLong = 100

    /// The largest number of pages that the writer copies after another thread has copied the others (1 MiB).
    package static let pagesRest = 250

    /// The same number while commits are long (4 MiB).
    package static let pagesRestOfLong = 1000

    /// The length at which the writer copies the log in any case (64 MiB).
    ///
    /// Without that, a log that is written without a pause would never restart.
    package static let pagesMax = 16_000

    /// The number of pages between two attempts to restart a log of that length (16 MiB).
    package static let pagesBetweenRestarts = 4000

    /// The length of the log after the last commit.
    private var pages = 0
    /// The number of its pages that the last checkpoint on the other thread left in the database.
    private var copied: Int?
    /// The length at which the next checkpoint begins, if the last one did not make the log restart.
    ///
    /// A long read can prevent that. Without a pause, each commit would begin a checkpoint during the read.
    private var pagesNext = 0
    /// The length at which the writer waits for readers again.
    ///
    /// Reads that always overlap prevent a restart for as long as they go on, unless the writer waits for them. A wait
    /// for one long read would be in vain, so it is rare.
    private var pagesRestart = 0

    package init() {}

    /// Returns what to do after a commit that made the log this long.
    package mutating func committed(_ newPages: Int) -> Action {
        let isRestarted = newPages < pages
        let added = isRestarted ? newPages : newPages - pages
        if isRestarted { (copied, pagesNext, pagesRestart) = (nil, 0, 0) }
        pages = newPages
        if newPages >= Self.pagesMax {
            // If another connection is copying, the next commit tries again.
            guard newPages >= pagesRestart else { return .copyRest }
            pagesRestart = newPages + Self.pagesBetweenRestarts
            return .restart
        }
        let isLong = added >= Self.pagesLong
        let rest = isLong ? Self.pagesRestOfLong : Self.pagesRest
        if let copied, newPages - copied <= rest {
            self.copied = nil
            pagesNext = newPages + Self.pagesCopied
            return .copyRest
        }
        let pagesDue = isLong ? Self.pagesCopiedOfLong : Self.pagesCopied
        guard newPages >= max(pagesDue, pagesNext) else { return .nothing }
        pagesNext = newPages + rest
        return .copyBulk
    }

    /// Called after a checkpoint on the other thread, with the number of pages that are now in the database.
    package mutating func didCopyBulk(_ copied: Int) {
        // The log may have restarted meanwhile.
        if copied <= pages { self.copied = copied }
    }
}
