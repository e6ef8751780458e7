// PushSlice, PreparedSlice: the operations that are sent next, before and after they are frozen.

import TidelineCore

/// The operations to send next.
package struct PushSlice: Sendable, Hashable {
    /// Operations that are to go first, by their ids.
    package var first: [Int64] = []
    /// The position in the queue after which the other operations are taken; nil: no others.
    package var after: Int64?
    /// The most operations.
    package var rows: Int
    /// The most bytes of their bodies, if there is more than one.
    package var bytes: Int
    /// Rows of which nothing is sent now.
    package var closed: Set<RowKey> = []
    /// Rows with an operation that cannot be decoded: later operations of such a row are based on an
    /// unknown state, and wait for the app.
    package var blocked: Set<RowKey> = []
    /// Operations whose last request was certainly not executed, by their ids.
    package var refused: Set<Int64> = []
    /// How groups are taken.
    package var groups = Groups.together
    /// Rows whose groups wait, even if they were to go first: a group may have been renamed.
    package var blockedRows: Set<RowKey> = []

    /// How the operations of one transaction of the app are sent.
    package enum Groups: Sendable, Hashable {
        /// A group is taken whole, together with other operations.
        case together
        /// A group is a slice of its own.
        case alone
        /// The server cannot execute several as one: each is sent by itself.
        case split
    }
}

extension PushSlice {
    /// Returns as much of the slice as the free space on the disk allows.
    ///
    /// Frozen requests need space in the write-ahead log, and again in the file at a WAL checkpoint. If they fit
    /// into the log only, they would stay there and keep the freed space. The responses need space, too.
    func fitting(_ room: Int64?) -> PushSlice {
        guard let room else { return self }
        var slice = self
        slice.rows = max(1, min(rows, Int(clamping: room / Self.roomOfRow)))
        slice.bytes = min(bytes, Int(clamping: room / Self.roomOfByte))
        return slice
    }

    /// The bytes of an operation besides its body: a few pages of table, queue and indexes.
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
    /// The position after the last operation that was read.
    package var after: Int64
    /// Whether no operation follows that position.
    package var isAtEnd = false
    /// How many bytes the bodies have.
    package var bytes = 0
    /// Operations that were edited since their group was rejected, which releases the group.
    package var released: [QueuedOperation] = []

    /// Whether some operations were skipped because they follow others of their rows.
    package var isWaiting = false

    package init(after: Int64) { self.after = after }
}
