// QueuedBatch: a batch that waits for the writer, and the position by which its caller can cancel it.

import Synchronization

/// A batch in the queue of the writer.
///
/// `Backend` is the type that a backend derives from a table.
package struct QueuedBatch<Backend: Sendable>: Sendable {
    package let batch: WriteBatch
    /// The derived table of each write, by group.
    package let tables: [[Backend]]
    /// Further tables with rows that the references of the batch concern.
    package let related: [Backend]
    package let answer: CheckedContinuation<[GroupOutcome], any Error>
    package let position: QueuePosition
    /// The uptime until which the batch waits for other transactions' locks; nil if it has not waited yet.
    package var waitsUntil: UInt64?
    /// The number of times that the batch has waited for a lock within a transaction.
    package var contendedTries = 0

    /// The number of writes.
    package var count: Int { batch.count }

    /// Whether a dynamic schema adds tables or columns for the batch.
    package var changesTables: Bool {
        batch.groups.contains { $0.writes.contains { $0.table.needsGrowth } }
    }

    /// Answers the batch if its caller has cancelled it; returns true in that case.
    package func endIfCancelled() -> Bool {
        guard position.isCancelled else { return false }
        answer.resume(throwing: CancellationError())
        return true
    }

    /// Executes the groups in order, as far as their dependencies and the budget allow.
    package func run(
        _ apply: (WriteBatch.Group, [Backend], AnswerBudget) throws -> GroupOutcome
    ) rethrows -> BatchProgress {
        var progress = BatchProgress(batch)
        while let place = progress.next() {
            let budget = progress.budget
            progress.ended(try apply(batch.groups[place], tables[place], budget))
        }
        return progress
    }
}

/// The position of a batch in the queue, shared with the task that waits for it.
package final class QueuePosition: Sendable {
    private let cancelled = Atomic(false)
    /// The index in the queue, negative outside of the queue; it changes only with the queue.
    private let index = Atomic(-1)

    init() {}

    package var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    func cancel() { cancelled.store(true, ordering: .relaxed) }

    var inQueue: Int {
        get { index.load(ordering: .relaxed) }
        set { index.store(newValue, ordering: .relaxed) }
    }
}

/// The batches that change tables or have large rows, which are committed after all other batches.
///
/// Confined to the thread of the writer.
package struct LargeBatches<Backend: Sendable> {
    private var batches: ArraySlice<QueuedBatch<Backend>> = []

    package init() {}

    package var isEmpty: Bool { batches.isEmpty }

    /// The number of writes in the batches.
    package var writes: Int { batches.reduce(0) { $0 + $1.count } }

    /// The number of writes of each caller.
    package var callers: [String: Int] {
        batches.reduce(into: [:]) { callers, batch in
            if let caller = batch.batch.caller { callers[caller, default: 0] += batch.count }
        }
    }

    /// Removes and returns the batches of the next transaction; a batch that changes tables is alone.
    package mutating func takeNext() -> [QueuedBatch<Backend>] {
        let next = batches.prefix(batches.first?.changesTables == true ? 1 : Self.nextMax)
        batches = batches.dropFirst(next.count)
        // A slice retains the elements before it.
        if batches.isEmpty {
            batches = []
        } else if batches.startIndex > 64 {
            batches = Array(batches)[...]
        }
        return Array(next)
    }

    /// Puts back the batches that did not fit into the transaction.
    package mutating func putBack(_ left: [QueuedBatch<Backend>]) {
        if !left.isEmpty { batches = (left + batches)[...] }
    }

    /// The maximum number of batches of a transaction; more of them have more bytes than a transaction allows.
    private static var nextMax: Int { 100 }

    package mutating func append(_ batch: QueuedBatch<Backend>) { batches.append(batch) }

    /// Removes the batches that their callers have cancelled.
    package mutating func dropCancelled() {
        if batches.contains(where: { $0.position.isCancelled }) {
            batches = batches.filter { !$0.endIfCancelled() }[...]
        }
    }
}
