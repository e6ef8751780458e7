// ChangePage: a page of a table's changes, and the table clock that orders them.

package import TidelineCore

/// The last commit timestamp and the retention horizon of a table.
package struct TableClock: Hashable, Sendable {
    /// The commit timestamp of the last write, in microseconds; 0 before the first.
    package var timestamp: Int64
    /// The time of the last delete, or removal from a visibility filter, that is no longer recorded; 0 if there
    /// is none.
    package var horizon: Int64
    /// The epoch of the database that the clock was read from; nil if that cannot change while the server runs.
    package var epoch: String?

    package init(timestamp: Int64 = 0, horizon: Int64 = 0, epoch: String? = nil) {
        self.timestamp = timestamp
        self.horizon = horizon
        self.epoch = epoch
    }

    /// The horizon in its wire form, rounded up to a millisecond; nil if no delete was purged.
    var horizonText: String? {
        guard horizon > 0 else { return nil }
        let milliseconds = horizon / 1000 + 1
        return Timestamp(microseconds: milliseconds * 1000).text
    }
}

/// A request for a table's changes.
package struct ChangeRequest: Sendable {
    package var caller = ReadCaller.unknown
    /// The visibility filter of the caller; nil for all rows.
    package var view: QueryExpression?
    package var filter: QueryExpression?
    /// Indexes among columns and system columns; nil for all.
    package var select: [Int]?
    /// The time up to which the caller has all changes.
    package var after: Int64
    /// The maximum number of rows, at least 1.
    package var rowsMax: Int
    package var bytesMax: Int
    /// The maximum number of rows, and of log entries, that are read for the page; at least 1.
    package var scanMax = Int.max
    package var wantsCount = false
    /// The bytes before the first change.
    package var opening: [UInt8] = []
    /// The memory reservation, which grows with the page; nil if the maximum is already reserved.
    package var reservation: PageReservation?

    package init(after: Int64, rowsMax: Int, bytesMax: Int) {
        self.after = after
        self.rowsMax = rowsMax
        self.bytesMax = bytesMax
    }
}

/// A page of changes, ordered by commit timestamp.
package struct ChangePage: Sendable {
    /// The opening and the changes, separated by commas, without a closing bracket.
    package var bytes: [UInt8]
    /// The number of changes on this page.
    package var rows: Int
    /// The number of changes on this page and after it; nil if it was not requested or is too large to be
    /// counted.
    package var count: Int64?
    /// The time up to which the page is complete if there may be more changes; the page may then be empty.
    package var next: Int64?
    /// The table clock in the snapshot of the page.
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
