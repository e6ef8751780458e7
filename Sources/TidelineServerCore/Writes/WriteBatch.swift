// WriteBatch: writes that a store executes together. A single write is a batch of one.

/// Groups of writes that are executed in order in one transaction.
package struct WriteBatch: Sendable {
    package struct Write: Sendable {
        package var operation: WriteOperation
        package var table: Table
        /// The idempotency key, with which the write is executed only once; nil for a write without one.
        package var repeatKey: RepeatKey?
        /// Whether the write may only be answered as a repeat; if its key is new, the write is outdated.
        ///
        /// A key that was known, forgotten or ahead when the request was prepared may be new when it is executed.
        package var isRepeatOnly = false

        package init(_ operation: WriteOperation, in table: Table) {
            self.operation = operation
            self.table = table
        }
    }

    /// Writes that are executed together: all or none.
    package struct Group: Sendable {
        package var writes: [Write]
        /// The earlier groups of the batch that must succeed before this one is executed.
        package var dependsOn: [Int]

        package init(_ writes: [Write], dependsOn: [Int] = []) {
            self.writes = writes
            self.dependsOn = dependsOn
        }
    }

    package var groups: [Group]
    /// Whether no group is executed after the first one that failed.
    package var stopsAtFailure: Bool
    /// The budget for the rows of the answers; writes are rejected when it is used up.
    package var budget: AnswerBudget
    /// Whether the writes are undone after their outcomes are known.
    package var isDryRun = false
    /// The caller, a user or, without a token, an address; nil if it does not matter.
    package var caller: String?

    package init(
        _ groups: [Group],
        stopsAtFailure: Bool = false,
        budget: AnswerBudget = AnswerBudget()
    ) {
        self.groups = groups
        self.stopsAtFailure = stopsAtFailure
        self.budget = budget
    }

    /// The number of writes.
    package var count: Int { groups.reduce(0) { $0 + $1.writes.count } }

    /// Returns the outcomes of a batch of which nothing was executed because of an error.
    package func failed(_ error: any Error) -> [GroupOutcome] {
        groups.map { _ in .failed(at: nil, error) }
    }
}

/// The outcome of a group.
package enum GroupOutcome: Sendable {
    /// Every write of the group succeeded, with one outcome for each.
    case done([WriteOutcome])
    /// The write at this index was rejected; no write of the group was executed.
    case rejected(at: Int, WriteOutcome)
    /// The write at this index failed, or the whole group if it is nil; no write of the group was executed.
    case failed(at: Int?, any Error)
    /// The group was not executed, because a group that it depends on did not succeed.
    case dependencyFailed
    /// The group was not executed, because the batch ended before it.
    case notReached

    package var isDone: Bool { if case .done = self { true } else { false } }

    /// Whether no write of the group was attempted, or the group's answer exceeded the memory limit.
    var isLeft: Bool {
        switch self {
        case .rejected(_, let outcome):
            outcome.decision == .rejected
                && outcome.rejection?.code == ServerError.batchMemoryFull.code
        case .dependencyFailed, .notReached: true
        case .done, .failed: false
        }
    }
}

/// The progress through a batch: the next group, and the skipped ones.
package struct BatchProgress: Sendable {
    private let batch: WriteBatch
    /// The rest of the budget, for the answers of the remaining groups.
    package private(set) var budget: AnswerBudget
    /// The outcomes of the groups that were executed or skipped.
    package private(set) var outcomes: [GroupOutcome] = []
    private var isStopped = false

    package init(_ batch: WriteBatch) {
        self.batch = batch
        budget = batch.budget
        outcomes.reserveCapacity(batch.groups.count)
    }

    /// Returns the index of the next group to execute; nil at the end.
    package mutating func next() -> Int? {
        while outcomes.count < batch.groups.count {
            let place = outcomes.count
            if isStopped {
                outcomes.append(.notReached)
                continue
            }
            let isReady = batch.groups[place].dependsOn.allSatisfy { earlier in
                outcomes.indices.contains(earlier) && outcomes[earlier].isDone
            }
            if isReady { return place }
            ended(.dependencyFailed)
        }
        return nil
    }

    /// Returns the groups from the next one up to `end` as a separate batch.
    package func part(upTo end: Int) -> WriteBatch {
        let start = outcomes.count
        var part = batch
        part.budget = budget
        part.groups = batch.groups[start..<end].map { group in
            var group = group
            group.dependsOn = group.dependsOn.compactMap { earlier in
                if earlier >= start { return earlier - start }
                // A dependency on a group that did not succeed gets an index without a group, so it
                // fails.
                return outcomes[earlier].isDone ? nil : .max
            }
            return group
        }
        return part
    }

    /// Records the outcome of the group that `next` returned.
    package mutating func ended(_ outcome: GroupOutcome) {
        outcomes.append(outcome)
        budget.take(outcome)
        if !outcome.isDone, batch.stopsAtFailure { isStopped = true }
    }
}
