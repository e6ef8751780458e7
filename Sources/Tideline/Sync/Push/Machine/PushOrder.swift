// PushOrder: which operations of the queue a push sends next.

import TidelineCore

/// The order in which a push takes operations from the queue.
///
/// The operations in `first` precede those after the cursor; failed operations are sent last.
struct PushOrder: Sendable {
    /// The position in the queue up to which operations were taken.
    private var cursor = QueueReader.start
    private var isAtEnd = false
    private var first: [Int64] = []
    private(set) var behind: [QueuedOperation]
    /// The operations in `first` whose batch was rejected as a whole.
    private var rejected: Set<Int64> = []
    /// The last operation that this push sends; later ones were queued during the push.
    private let lastID: Int64
    /// The rows whose operation was sent again after an edit, which happens once for each row.
    private var closed: Set<RowKey> = []
    /// Rows with an operation that cannot be decoded.
    private var blocked: Set<RowKey>
    /// Rows whose groups were already sent again after an edit.
    private var blockedRows: Set<RowKey> = []
    /// Whether operations wait for earlier ones of their rows, and whether one of these was completed since.
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

    /// Whether only failed operations are left, which are sent last.
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

    /// Advances past a slice that was prepared.
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

    /// Sends an operation and its group later; it was certainly not executed.
    mutating func sendLater(_ operation: QueuedOperation) {
        rejected.insert(operation.id)
        first.append(operation.id)
    }

    /// Sends operations again before all others.
    ///
    /// If `areRejected`, none of them was executed.
    mutating func sendAgain(_ ids: [Int64], areRejected: Bool = false) {
        if areRejected { rejected.formUnion(ids) }
        first = ids + first
    }

    /// Sends an operation again that was edited after its rejection.
    ///
    /// This happens once for each row, so that a row that is edited continuously does not prolong the push
    /// forever.
    mutating func sendAgainAfterEdit(_ operation: QueuedOperation, _ again: inout [Int64]) {
        if closed.insert(operation.row).inserted {
            again.append(operation.id)
        } else if operation.group != nil {
            blockedRows.insert(operation.row)
        }
    }

    /// Reads the queue again after other operations are complete, because an operation waits for one of them.
    mutating func waitForOtherOperations() { isWaiting = true }

    /// Excludes these rows from the rest of the push.
    mutating func close(_ rows: [RowKey]) { closed.formUnion(rows) }

    /// Moves operations to the end of the push.
    mutating func moveBehind(_ operations: [QueuedOperation]) { behind += operations }

    /// Sends the failed operations that were moved to the end.
    ///
    /// Later operations of their rows were skipped, so the queue is read from its start.
    mutating func sendBehind() {
        first = behind.map(\.id)
        behind = []
        startOver()
    }

    /// Continues after outcomes were stored; the app may have changed something in the meantime.
    ///
    /// `again` are the operations to send again, and `unblocked` are those that waited for an earlier one of
    /// their row. `hasMoved` is true if an operation was removed from the queue or changed.
    mutating func continueAfterApplying(
        again: [Int64],
        unblocked: [Int64],
        hasMoved: Bool
    ) {
        if hasMoved { hasMovedSince = true }
        // Otherwise only the next pass over the queue would find those that this one has passed.
        let passed = unblocked.filter { isAtEnd || $0 <= cursor }
        isAtEnd = false
        // In the order of the queue: operations that were to go first come after those sent again.
        first = again + first + passed.filter { !first.contains($0) }
    }

    /// Reads the queue again if operations were skipped that may be sent now.
    ///
    /// An operation that waited for an earlier one of its row was skipped; the earlier one may now be complete.
    ///
    /// - Returns: Whether there may be such operations.
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
