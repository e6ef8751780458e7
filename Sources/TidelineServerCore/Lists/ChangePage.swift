// ChangePage: a page of a table's changes, and the table clock that orders them.

package import TidelineCore

/// The last commits of a table.
package struct TableClock: Hashable, Sendable {
    /// The time of the last write in microseconds; 0 before the first.
    package var stamp: Int64
    /// The time of the last delete, or departure from a view, that is forgotten; 0 if there is none.
    package var horizon: Int64
    /// The epoch of the database that the clock was read from; nil if that cannot change while the server runs.
    package var epoch: String?

    package init(stamp: Int64 = 0, horizon: Int64 = 0, epoch: String? = nil) {
        self.stamp = stamp
        self.horizon = horizon
        self.epoch = epoch
    }

    /// The horizon on the wire, rounded up to a millisecond; nil if no delete was purged.
    var horizonText: String? {
        guard horizon > 0 else { return nil }
        let milliseconds = horizon / 1000 + 1
        return Timestamp(microseconds: milliseconds * 1000).text
    }
}

/// A request for a table's changes.
package struct ChangeRequest: Sendable {
    package var caller = ReadCaller.nobody
    /// The visibility filter of the caller; nil for all rows.
    package var view: QueryExpression?
    package var filter: QueryExpression?
    /// Indexes among columns and system columns; nil for all.
    package var select: [Int]?
    /// The caller has all changes up to this time.
    package var after: Int64
    /// At least 1.
    package var rowsMax: Int
    package var bytesMax: Int
    /// How many rows, and how many entries of a log, the page may read; at least 1.
    package var scanMax = Int.max
    package var wantsCount = false
    /// The bytes before the first change.
    package var opening: [UInt8] = []
    /// The memory reservation of the page, which grows with it; nil if the most that it may need is already reserved.
    package var reservation: PageReservation?

    package init(after: Int64, rowsMax: Int, bytesMax: Int) {
        self.after = after
        self.rowsMax = rowsMax
        self.bytesMax = bytesMax
    }
}

/// A page of changes, in the order of their commits.
package struct ChangePage: Sendable {
    /// The opening and the changes, separated by commas; without a closing bracket.
    package var bytes: [UInt8]
    /// The number of changes on this page.
    package var rows: Int
    /// The number of changes on this page and after it, if asked for and few enough to be counted.
    package var count: Int64?
    /// The time up to which the page is complete, if more may follow; the page may be empty then.
    package var next: Int64?
    /// The clock in the state that the page was read from.
    package var clock: TableClock

    package init(
        bytes: [UInt8],
        rows: Int,
        count: Int64? = nil,
        next: Int64? = nil,
        clock: TableClock
    ) {
        self.bytes = bytes
        self.rows = rows
        self.count = count
        self.next = next
        self.clock = clock
    }
}
