// PushOrder: determines which operations of the queue a push sends next.

import TidelineCore

/// The order in which a push takes operations from the queue.
///
/// The operations in `first` come before the operations after the cursor. Failed operations come
/// last.
struct PushOrder: Sendable {
    /// The position in the queue up to which operations have been taken.
    private var cursor = QueueReader.start
    private var isAtEnd = false
    private var first: [Int64] = []
    private(set) var behind: [QueuedOperation]
    /// The operations in `first` whose batch was rejected as a whole.
    private var rejected: Set<Int64> = []
    /// The last operation in the queue at the start of the push; of the operations queued later,
    /// the push sends at most one for each row.
    private let lastID: Int64
    /// The rows whose operations the push takes only from `first`.
    private var closed: Set<RowKey> = []
    /// Rows with an operation that cannot be decoded.
    private var blocked: Set<RowKey>
    /// The rows whose groups were already resent once after an edit.
    private var blockedRows: Set<RowKey> = []
    /// Whether operations wait for earlier operations, for example of the same row; `hasMovedSince`
    /// is true if an operation was completed or changed since then.
    private var isWaiting = false
    private var hasMovedSince = false

    init(
        lastID: Int64 = 0,
        blocked: Set<RowKey> = [],
        behind: [QueuedOperation] = []
    ) {
        self.lastID = lastID
        self.blocked = blocked
        self.behind = behind
    }

    /// Whether only failed operations are left, which come last.
    var isPassDone: Bool { first.isEmpty && isAtEnd }

    /// Returns the next slice within a budget.
    func slice(_ budget: PushBudget) -> PushSlice {
        PushSlice(
            first: Array(first.prefix(budget.rows)),
            after: first.count >= budget.rows || isAtEnd ? nil : cursor,
            rows: budget.rows,
            bytes: budget.bytes,
            closed: closed.union(behind.map(\.row)),
            blocked: blocked,
            rejected: rejected,
            groups: budget.groups,
            blockedRows: blockedRows
        )
    }

    /// Moves past a slice that was prepared.
    mutating func take(_ slice: PreparedSlice, for asked: PushSlice) {
        if slice.skipped > 0 { hasMovedSince = true }
        if slice.isWaiting { isWaiting = true }
        if asked.after != nil {
            cursor = slice.after
            isAtEnd = slice.isAtEnd
        }
        first = slice.left + first.dropFirst(asked.first.count)
        rejected.subtract(slice.operations.map(\.id))
        for operation in slice.unsendable where operation.damage != nil {
            blocked.insert(operation.row)
        }
        for operation in slice.operations where operation.id > lastID {
            closed.insert(operation.row)
        }
        var again: [Int64] = []
        for operation in slice.released { sendAgainAfterEdit(operation, &again) }
        first = again + first
    }

    /// Sends an operation and its group later; the server did not execute the operation.
    mutating func sendLater(_ operation: QueuedOperation) {
        rejected.insert(operation.id)
        first.append(operation.id)
    }

    /// Resends operations before all others.
    ///
    /// Set `areRejected` if the server executed none of them.
    mutating func sendAgain(_ ids: [Int64], areRejected: Bool = false) {
        if areRejected { rejected.formUnion(ids) }
        first = ids + first
    }

    /// Resends an operation that was edited after its rejection.
    ///
    /// This happens only once for each row, so that a row that is edited continuously does not
    /// prolong the push forever.
    mutating func sendAgainAfterEdit(_ operation: QueuedOperation, _ again: inout [Int64]) {
        if closed.insert(operation.row).inserted {
            again.append(operation.id)
        } else if operation.group != nil {
            blockedRows.insert(operation.row)
        }
    }

    /// Records that an operation waits for another one, so that the queue is reread after other
    /// operations are complete.
    mutating func waitForOtherOperations() { isWaiting = true }

    /// Excludes these rows from the rest of the push.
    mutating func close(_ rows: [RowKey]) { closed.formUnion(rows) }

    /// Moves operations to the end of the push.
    mutating func moveBehind(_ operations: [QueuedOperation]) { behind += operations }

    /// Sends the failed operations that were moved to the end.
    ///
    /// The queue is reread from its start, because later operations of their rows were skipped.
    mutating func sendBehind() {
        first = behind.map(\.id)
        behind = []
        startOver()
    }

    /// Continues after outcomes were stored; the app may have changed the queue in the meantime.
    ///
    /// `again` has the operations to resend, and `unblocked` has the operations that waited for an
    /// earlier operation of their row. `hasMoved` is true if an operation was removed from the
    /// queue or changed.
    mutating func continueAfterApplying(
        again: [Int64],
        unblocked: [Int64],
        hasMoved: Bool
    ) {
        if hasMoved { hasMovedSince = true }
        // Without this, operations that the current pass has already skipped would wait for the
        // next pass over the queue.
        let passed = unblocked.filter { isAtEnd || $0 <= cursor }
        isAtEnd = false
        // Resent operations come first, followed by the operations that were already in `first`.
        first = again + first + passed.filter { !first.contains($0) }
    }

    /// Rereads the queue if operations that were skipped may be ready to send now.
    ///
    /// An operation is skipped while it waits for an earlier operation of its row, which may be
    /// complete by now.
    ///
    /// - Returns: Whether the queue is reread.
    mutating func readAgainIfSkipped() -> Bool {
        guard isWaiting, hasMovedSince else { return false }
        (isWaiting, hasMovedSince) = (false, false)
        startOver()
        return true
    }

    private mutating func startOver() {
        cursor = QueueReader.start
        isAtEnd = false
    }
}
