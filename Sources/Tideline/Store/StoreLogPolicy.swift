// StoreLogPolicy: decides when the write-ahead log of a store is checkpointed, and on which thread.

/// The rules for when and where a store's log is checkpointed.
///
/// SQLite restarts the log after a checkpoint that copied all of its pages, if no reader uses the
/// log. While the writer commits without a pause, a checkpoint on another thread rarely copies all
/// pages, because commits add pages in the meantime. Therefore, the other thread copies most pages,
/// and the writer copies the few pages that were added.
package struct StoreLogPolicy: Sendable {
    package enum Action: Sendable {
        case nothing
        /// Copy the log on the checkpoint thread.
        case copyBulk
        /// Copy the remaining pages on the writer's thread, without waiting for readers.
        case copyRest
        /// Checkpoint on the writer's thread, and wait up to 100 ms for readers of the log.
        case restart
    }

    /// The length of the log at which a checkpoint begins, in pages (4 MiB).
    ///
    /// This is less than the part of the file that is kept when the log restarts
    /// (`SQLiteStore.logBytesKept`). A commit that makes the file longer also flushes the file's
    /// length, which takes nearly twice as long.
    package static let pagesCopied = 1000

    /// The corresponding length while commits are long, like those of a pull (16 MiB).
    ///
    /// Many of these commits change the same page, and a later checkpoint copies that page only
    /// once.
    package static let pagesCopiedOfLong = 4000

    /// The number of pages at which a commit counts as long.
    package static let pagesLong = 100

    /// The maximum number of pages that the writer copies after the other thread has copied the
    /// rest (1 MiB).
    package static let pagesRest = 250

    /// The corresponding number while commits are long (4 MiB).
    package static let pagesRestOfLong = 1000

    /// The length at which the writer copies the log in any case, in pages (64 MiB).
    ///
    /// Otherwise, a log that the other thread cannot copy fast enough would never restart.
    package static let pagesMax = 16_000

    /// The number of added pages between two attempts to restart a log that has reached `pagesMax`
    /// (16 MiB).
    package static let pagesBetweenRestarts = 4000

    /// The length of the log after the last commit.
    private var pages = 0
    /// The number of pages that the last checkpoint on the other thread copied; nil if the log has
    /// restarted since then, or the writer has copied pages.
    private var copied: Int?
    /// The length at which the next checkpoint begins, unless the log restarts first.
    ///
    /// A long read prevents a restart. Without this value, each commit during the read would start
    /// a checkpoint.
    private var pagesNext = 0
    /// The length at which the writer next waits for readers.
    ///
    /// Overlapping reads prevent a restart unless the writer waits for them. Waiting does not help
    /// against a single long read, so the writer rarely waits.
    private var pagesRestart = 0

    package init() {}

    /// Returns the action after a commit that made the log this long.
    ///
    /// While the other thread is copying, no other checkpoint can run.
    package mutating func committed(_ newPages: Int, isCopying: Bool = false) -> Action {
        let isRestarted = newPages < pages
        let added = isRestarted ? newPages : newPages - pages
        if isRestarted { (copied, pagesNext, pagesRestart) = (nil, 0, 0) }
        pages = newPages
        if newPages >= Self.pagesMax {
            // If another connection is copying, this fails, and the next commit retries.
            guard newPages >= pagesRestart, !isCopying else { return .copyRest }
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

    /// Records the end of a checkpoint on the other thread, with the number of pages that are now
    /// in the database.
    package mutating func didCopyBulk(_ copied: Int) {
        // If the log has restarted in the meantime, the number belongs to the earlier log.
        if copied <= pages { self.copied = copied }
    }
}
