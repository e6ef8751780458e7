// WriteBatch: writes that go to a database together; the unit of a TableStore. A single write is a
// batch of one.

/// Groups of writes, done in their order in one transaction.
package struct WriteBatch: Sendable {
    package struct Write: Sendable {
        package var operation: WriteOperation
        package var table: Table
        /// The idempotency key, so that the write is done once; nil for a write without one.
        package var repeatKey: RepeatKey?
        /// Whether it may only be answered as a repeat: if its key is new, it is outdated.
        ///
        /// The reason why its key counted as known, forgotten or ahead may be gone when the write
        /// is done.
        package var isRepeatOnly = false

        package init(_ operation: WriteOperation, in table: Table) {
            self.operation = operation
            self.table = table
        }
    }

    /// Writes of which all are done or none.
    package struct Group: Sendable {
        package var writes: [Write]
        /// Earlier groups of the batch that must succeed before this one is done.
        package var dependsOn: [Int]

        package init(_ writes: [Write], dependsOn: [Int] = []) {
            self.writes = writes
            self.dependsOn = dependsOn
        }
    }

    package var groups: [Group]
    /// Whether nothing is done after the first group that failed.
    package var stopsAtFailure: Bool
    /// The budget for the rows of the answers; a write that comes when it is spent is rejected.
    package var budget: AnswerBudget
    /// The caller: a user or, without a token, an address; nil if it does not matter.
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

    /// How many writes it has.
    package var count: Int { groups.reduce(0) { $0 + $1.writes.count } }
}

/// The outcome of a group.
package enum GroupOutcome: Sendable {
    /// Every write of it was a success; one outcome for each.
    case done([WriteOutcome])
    /// This write was rejected; nothing of the group is done.
    case refused(at: Int, WriteOutcome)
    /// It could not be done, by this write or nil by none of them; nothing of the group is done.
    case failed(at: Int?, any Error)
    /// Not begun: a group that it depends on did not succeed.
    case dependencyFailed
    /// Not begun: the batch ended before it.
    case notReached

    package var isDone: Bool { if case .done = self { true } else { false } }

    /// Whether none of it was tried, or its answer exceeded the memory.
    var isLeft: Bool {
        switch self {
        case .refused(_, let outcome):
            outcome.decision == .refused && outcome.refusal?.code == ServerError.noRoomInBatch.code
        case .dependencyFailed, .notReached: true
        case .done, .failed: false
        }
    }
}

/// The progress through a batch: which group is next, and which are skipped.
package struct BatchProgress: Sendable {
    private let batch: WriteBatch
    /// The rest of the budget, for the answers to the groups that follow.
    package private(set) var budget: AnswerBudget
    /// Of the groups that were passed already.
    package private(set) var outcomes: [GroupOutcome] = []
    private var isStopped = false

    package init(_ batch: WriteBatch) {
        self.batch = batch
        budget = batch.budget
        outcomes.reserveCapacity(batch.groups.count)
    }

    /// The place of the next group to be done, nil at the end.
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

    /// The groups from the next one up to `end`, as a batch of their own.
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

    /// Records the outcome of the group that `next` named.
    package mutating func ended(_ outcome: GroupOutcome) {
        outcomes.append(outcome)
        budget.take(outcome)
        if !outcome.isDone, batch.stopsAtFailure { isStopped = true }
    }
}
