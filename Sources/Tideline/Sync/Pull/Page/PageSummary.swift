// PageSummary: what PullMachine is told of a page, or of why none came, and what it says to store
// with one.

/// What one page says, without its rows.
package struct PageSummary: Sendable, Hashable {
    package var rowCount: Int
    /// The latest `updatedAt` of the page, as the server wrote it.
    package var latest: String?
    package var nextLink: String?
    package var deltaLink: String?
    /// Whether the server tells the changes after this list.
    package var tracksChanges: Bool
    /// The time before which tombstones are gone.
    package var horizon: String?
    /// What names the state of the server's database: another one after a restore from a backup.
    package var epoch: String?

    package init(
        rowCount: Int,
        latest: String?,
        nextLink: String? = nil,
        deltaLink: String? = nil,
        tracksChanges: Bool = false,
        horizon: String? = nil,
        epoch: String? = nil
    ) {
        self.rowCount = rowCount
        self.latest = latest
        self.nextLink = nextLink
        self.deltaLink = deltaLink
        self.tracksChanges = tracksChanges
        self.horizon = horizon
        self.epoch = epoch
    }
}

/// What is stored with a page, in one transaction.
package struct PageStep: Sendable, Hashable {
    /// Where the next request of the query goes on; nil for a pull without query id.
    package var position: PullCursor.Position?
    /// The first page of a reading of everything.
    package var startsOver = false
    /// No page follows: what a reading of everything did not meet is let go of.
    package var isLast = false

    package init(
        position: PullCursor.Position? = nil,
        startsOver: Bool = false,
        isLast: Bool = false
    ) {
        self.position = position
        self.startsOver = startsOver
        self.isLast = isLast
    }
}

/// Why no page came.
package enum LostPage: Sendable, Hashable {
    /// No connection, or one that must not be used: the size of the page has no part in it.
    case unreachable
    /// The time was over before the page was whole.
    case slow
    /// The connection ended before the page was whole.
    case cut
    /// The page is larger than the transport takes.
    case tooLarge
}
