// PushSlice, PreparedSlice: the operations that are sent next, before and after they are frozen.

import TidelineCore

/// The operations to send next.
package struct PushSlice: Sendable, Hashable {
    /// The operations to send first, by their ids.
    package var first: [Int64] = []
    /// The position in the queue after which the other operations are taken; nil if there are no others.
    package var after: Int64?
    /// The last operation in the queue that is taken, by its id, except for others of its group; nil for all.
    package var upTo: Int64?
    /// The maximum number of operations.
    package var rows: Int
    /// The maximum number of bytes of their bodies, if there is more than one.
    package var bytes: Int
    /// The rows that are excluded.
    package var closed: Set<RowKey> = []
    /// The rows with an operation that cannot be decoded.
    ///
    /// Later operations of such a row are based on an unknown state, and wait for the app.
    package var blocked: Set<RowKey> = []
    /// Operations whose last request was certainly not executed, by their ids.
    package var rejected: Set<Int64> = []
    /// How groups are sent.
    package var groups = Groups.together
    /// Whether inserts of parents may be sent before their turn, if groups are sent together with other operations.
    package var takesParents = true
    /// Rows whose groups wait even if they are in `first`, because a group may have been renamed.
    package var blockedRows: Set<RowKey> = []

    /// The rule for sending the operations of one transaction of the app.
    package enum Groups: Sendable, Hashable {
        /// A group is sent completely, together with other operations.
        case together
        /// A group is a slice of its own.
        case alone
        /// The server cannot execute a group atomically, so each operation is sent by itself.
        case split
    }
}

extension PushSlice {
    /// Returns the part of the slice that the free space on the disk allows.
    ///
    /// Frozen requests need space in the write-ahead log, and again in the file at a WAL checkpoint. Without
    /// the space in the file, they would remain in the log and occupy the space that was freed. The responses
    /// need space, too.
    func fitting(_ room: Int64?) -> PushSlice {
        guard let room else { return self }
        var slice = self
        slice.rows = max(1, min(rows, Int(clamping: room / Self.roomOfRow)))
        slice.bytes = min(bytes, Int(clamping: room / Self.roomOfByte))
        return slice
    }

    /// The bytes that an operation needs in addition to its body: a few pages of table, queue and indexes.
    private static let roomOfRow: Int64 = 16 << 10
    private static let roomOfByte: Int64 = 16

    /// The first half of the slice; nil if it has one operation.
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
    /// The operations that were to be sent first but did not fit.
    package var left: [Int64] = []
    /// The number of operations that changed nothing and were completed without a request.
    package var skipped = 0
    /// Operations that cannot be sent and were parked.
    package var unsendable: [QueuedOperation] = []
    /// Operations that wait because another one of their group was parked.
    package var stopped: [QueuedOperation] = []
    /// The position after the last operation that was read.
    package var after: Int64
    /// Whether no operation follows that position.
    package var isAtEnd = false
    /// The size of the bodies, in bytes.
    package var bytes = 0
    /// Operations that were edited after their group was rejected, which releases the group.
    package var released: [QueuedOperation] = []

    /// Whether some operations were skipped because they follow others of their rows.
    package var isWaiting = false

    package init(after: Int64) { self.after = after }
}
