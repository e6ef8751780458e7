// PushSlice, PreparedSlice: the operations to send next, before and after they are frozen.

import TidelineCore

/// The operations to send next.
package struct PushSlice: Sendable, Hashable {
    /// The ids of the operations to send first.
    package var first: [Int64] = []
    /// The position in the queue after which further operations are taken; nil if none are taken.
    package var after: Int64?
    /// The id of the last operation in the queue that is taken, other than members of its group;
    /// nil for no limit.
    package var upTo: Int64?
    /// The maximum number of operations.
    package var rows: Int
    /// The maximum number of bytes of the bodies, if there is more than one operation.
    package var bytes: Int
    /// The rows that are excluded.
    package var closed: Set<RowKey> = []
    /// The rows with an operation that cannot be decoded.
    ///
    /// Later operations of such a row are based on an unknown state, so they wait for the app.
    package var blocked: Set<RowKey> = []
    /// The ids of operations whose last request the server did not execute.
    package var rejected: Set<Int64> = []
    /// The way in which groups are sent.
    package var groups = Groups.together
    /// Whether the inserts of parents may be sent before their turn, if groups are sent together
    /// with other operations.
    package var takesParents = true
    /// The rows whose groups wait even if they are in `first`; rows identify the groups because a
    /// group may have been renamed.
    package var blockedRows: Set<RowKey> = []

    /// The rule for sending the operations of one transaction of the app.
    package enum Groups: Sendable, Hashable {
        /// A complete group is sent, together with other operations.
        case together
        /// A group is a slice of its own.
        case alone
        /// The server cannot execute a group atomically, so each operation is sent in its own
        /// request.
        case split
    }
}

extension PushSlice {
    /// Returns the part of the slice for which the disk has enough free space.
    ///
    /// Frozen requests need space in the write-ahead log, and in the database file at the next WAL
    /// checkpoint. Without space in the file, they would stay in the log and occupy the space that
    /// was freed. The responses need space, too.
    func fitting(_ room: Int64?) -> PushSlice {
        guard let room else { return self }
        var slice = self
        slice.rows = max(1, min(rows, Int(clamping: room / Self.roomOfRow)))
        slice.bytes = min(bytes, Int(clamping: room / Self.roomOfByte))
        return slice
    }

    /// The number of bytes that an operation needs besides its body: a few pages of table, queue
    /// and indexes.
    private static let roomOfRow: Int64 = 16 << 10
    private static let roomOfByte: Int64 = 16

    /// The first half of the slice; nil if the slice has only one operation.
    var half: PushSlice? {
        guard rows > 1 else { return nil }
        var slice = self
        (slice.rows, slice.bytes) = (rows / 2, bytes / 2)
        return slice
    }
}

/// The frozen operations of a slice.
package struct PreparedSlice: Sendable, Hashable {
    package var operations: [QueuedOperation] = []
    /// The operations that were to be sent first but did not fit into the slice.
    package var left: [Int64] = []
    /// The number of operations that changed nothing and were completed without a request.
    package var skipped = 0
    /// Operations that cannot be sent and were parked.
    package var unsendable: [QueuedOperation] = []
    /// Operations that wait because another operation of their group was parked.
    package var stopped: [QueuedOperation] = []
    /// The position of the last operation that was read.
    package var after: Int64
    /// Whether the queue has no operation after that position.
    package var isAtEnd = false
    /// The size of the bodies, in bytes.
    package var bytes = 0
    /// Operations that were edited after their group was rejected, which releases the group.
    package var released: [QueuedOperation] = []

    /// Whether some operations were skipped because they wait for others, for example for earlier
    /// ones of their rows.
    package var isWaiting = false

    package init(after: Int64) { self.after = after }
}
