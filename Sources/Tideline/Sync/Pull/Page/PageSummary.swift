// PageSummary: the facts about a page or a lost page that PullMachine needs, and the facts that it
// stores with a page.

/// The properties of one page, without its rows.
package struct PageSummary: Sendable, Hashable {
    package var rowCount: Int
    /// The latest `updatedAt` of the page, as the server wrote it.
    package var latest: String?
    package var nextLink: String?
    package var deltaLink: String?
    /// Whether the server tracks changes that are made after this list.
    package var tracksChanges: Bool
    /// The retention horizon: the time before which tombstones are gone.
    package var horizon: String?
    /// The epoch of the server's database, which changes after a restore from a backup.
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

/// The facts that are stored with a page, in one transaction.
package struct PageStep: Sendable, Hashable {
    /// The position from which the query's next request continues; nil for a pull without a query
    /// id.
    package var position: PullCursor.Position?
    /// Whether this is the first page of a complete read.
    package var startsOver = false
    /// Whether this is the last page.
    ///
    /// When the last page of a complete read is stored, the rows that the read did not return are
    /// removed.
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

/// The reason why a page did not arrive completely.
package enum LostPage: Sendable, Hashable {
    /// There is no connection, or the connection must not be used; the page size does not matter.
    case unreachable
    /// The time limit was reached before the page was complete.
    case slow
    /// The connection ended before the page was complete.
    case cut
    /// The page has more bytes than the transport accepts.
    case tooLarge
}
