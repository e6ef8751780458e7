// PushSlice, PreparedSlice: which operations go out next, and what was frozen of them.

import TidelineCore

/// Which operations are to be sent next.
package struct PushSlice: Sendable, Hashable {
    /// Operations that are to go first, by their ids.
    package var first: [Int64] = []
    /// Then those behind this place of the queue; nil: no others.
    package var after: Int64?
    /// The most operations.
    package var rows: Int
    /// The most bytes of their bodies, if there is more than one.
    package var bytes: Int
    /// Rows of which nothing is sent now.
    package var closed: Set<RowKey> = []
    /// Rows with an entry that cannot be read: what stands behind it was made to a state that nobody
    /// knows, and waits for the app.
    package var blocked: Set<RowKey> = []
    /// Operations whose last request certainly did nothing, by their ids.
    package var refused: Set<Int64> = []
    /// How groups are taken.
    package var groups = Groups.together
    /// Rows whose groups wait, also if they were to go first: a group may have got another name.
    package var heldRows: Set<RowKey> = []

    /// What becomes of operations that one transaction of the app made.
    package enum Groups: Sendable, Hashable {
        /// A group is taken whole, beside others.
        case together
        /// A group is a slice of its own.
        case alone
        /// The server cannot do several as one: each goes by itself.
        case split
    }
}

extension PushSlice {
    /// As much of it as there is room for on the disk.
    ///
    /// What is frozen takes room in the log, and again in the file when that is folded: what fits the
    /// log only would stay there, and keep what is freed. The answers are to fit, too.
    func fitting(_ room: Int64?) -> PushSlice {
        guard let room else { return self }
        var slice = self
        slice.rows = max(1, min(rows, Int(clamping: room / Self.roomOfRow)))
        slice.bytes = min(bytes, Int(clamping: room / Self.roomOfByte))
        return slice
    }

    /// An operation takes a few pages of table, queue and indexes beside its body.
    private static let roomOfRow: Int64 = 16 << 10
    private static let roomOfByte: Int64 = 16

    /// Half of it; nil for one operation.
    var half: PushSlice? {
        guard rows > 1 else { return nil }
        var slice = self
        (slice.rows, slice.bytes) = (rows / 2, bytes / 2)
        return slice
    }
}

/// The operations of a slice, frozen.
package struct PreparedSlice: Sendable, Hashable {
    package var operations: [QueuedOperation] = []
    /// Those that were to go first and did not fit.
    package var left: [Int64] = []
    /// How many changed nothing and were done without a request.
    package var skipped = 0
    /// Operations that cannot be sent, and are parked now.
    package var unsendable: [QueuedOperation] = []
    /// Operations that wait now, because another one of their group is parked.
    package var stopped: [QueuedOperation] = []
    /// The place behind the last operation that was looked at.
    package var after: Int64
    /// Whether nothing is behind that place.
    package var isAtEnd = false
    /// How many bytes the bodies have.
    package var bytes = 0
    /// Operations that were edited since their group was refused, which releases that.
    package var released: [QueuedOperation] = []

    /// Whether some were passed over that go behind other ones of their rows.
    package var isWaiting = false

    package init(after: Int64) { self.after = after }
}
