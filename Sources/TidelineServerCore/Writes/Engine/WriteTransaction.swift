// WriteTransaction: the parts of a transaction that are the same for all backends: budgets of answers, idempotency
// keys, and the end of a group at its first rejection.

/// The writes of one transaction of a ``WriteSession``.
package protocol WriteTransaction {
    associatedtype Backend: Sendable

    /// The budget for the answers of the current group.
    var budget: AnswerBudget { get set }
    /// The columns that the current group has added, which its later writes may use.
    var grown: Table? { get set }
    /// The rows of the current batch that concern its other writes because of references.
    var batchRows: BatchRows { get set }
    /// The time of the transaction, in microseconds since 1970.
    var time: Int64 { get }
    /// Whether the transaction will be rolled back.
    var isDryRun: Bool { get }

    /// Prepares the transaction to be rolled back: it checks every constraint before the outcome of a group, and does
    /// nothing that a rollback does not undo.
    mutating func beginDryRun()

    /// Returns whether the transaction includes a batch.
    mutating func admit(_ batch: QueuedBatch<Backend>, at index: Int) throws -> WriteAdmission

    /// Returns whether the transaction accepts no more batches, after answers of this many bytes.
    func isFull(answerBytes: Int) -> Bool

    /// Executes the writes of a group: all of them, or none.
    mutating func apply(
        _ group: [WriteBatch.Write],
        in tables: [Backend],
        within budget: AnswerBudget
    ) throws -> GroupOutcome

    /// Executes one write, in a table that exists in the database.
    mutating func perform(_ operation: WriteOperation, in table: Backend) throws -> WriteOutcome

    /// Creates the missing table or columns, and executes the write; creates nothing if the write changes
    /// nothing.
    mutating func grow(for write: WriteBatch.Write, in table: Backend) throws -> WriteOutcome

    /// Finds a key in the ledger.
    mutating func find(_ key: RepeatKey, at time: Int64) throws -> LedgerFinding

    /// Stores the outcome of a write in the ledger.
    mutating func keep(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        at time: Int64
    ) throws

    /// Returns the row after the writes so far; nil if it does not exist.
    mutating func image(_ id: String, _ table: Backend) throws -> RowImage?

    /// Counts the bytes of a row that was read.
    mutating func count(_ bytes: Int, _ table: Backend)
}

extension WriteTransaction {
    package var isDryRun: Bool { false }
    package mutating func beginDryRun() {}
    package func admit(_ batch: QueuedBatch<Backend>, at index: Int) -> WriteAdmission { .run }
    package func isFull(answerBytes: Int) -> Bool { false }
    package func count(_ bytes: Int, _ table: Backend) {}

    /// Executes the writes of a group up to the first rejection.
    package mutating func applyEach(
        _ group: [WriteBatch.Write],
        in tables: [Backend],
        within budget: AnswerBudget
    ) throws -> GroupOutcome {
        self.budget = budget
        grown = nil
        var outcomes: [WriteOutcome] = []
        outcomes.reserveCapacity(group.count)
        batchRows.expect(group)
        defer { batchRows.endGroup() }
        for (place, write) in group.enumerated() {
            do {
                try self.budget.check()
            } catch {
                return .rejected(at: place, .rejected(error))
            }
            let table = tables[place]
            let outcome =
                try write.repeatKey.map { try once($0, write, table) }
                ?? growAndPerform(write, table)
            guard outcome.decision.isSuccess else { return .rejected(at: place, outcome) }
            self.budget.take(outcome)
            batchRows.stored(write)
            outcomes.append(outcome)
        }
        return .done(outcomes)
    }

    /// Creates the missing table or columns, and executes the write.
    private mutating func growAndPerform(
        _ write: WriteBatch.Write,
        _ table: Backend
    ) throws -> WriteOutcome {
        if !write.table.needsGrowth || write.table === grown {
            if let outcome = batchRows.outcome(of: write.operation, in: write.table) {
                return outcome
            }
            let operation = batchRows.current(write.operation, in: write.table)
            let outcome = try perform(operation, in: table)
            if outcome.changesRow { batchRows.forget(operation, in: write.table) }
            return outcome
        }
        if isDryRun { return .rejected(.dryRunGrows) }
        let outcome = try grow(for: write, in: table)
        if outcome.grown != nil { grown = write.table }
        return outcome
    }

    /// Executes a write with an idempotency key, unless it was already executed.
    private mutating func once(
        _ key: RepeatKey,
        _ write: WriteBatch.Write,
        _ table: Backend
    ) throws -> WriteOutcome {
        let time = time
        switch try find(key, at: time) {
        case .known(var outcome, let stateOfRow):
            if let stateOfRow {
                let row = try repeatedRow(outcome, write, table)
                outcome = LedgerRules.outcome(outcome, stateOfRow, row: row)
            }
            count(outcome.row?.json.count ?? 0, table)
            return budget.fits(outcome) ? outcome : .rejected(.batchMemoryFull)
        case .other: return .rejected(.anotherRequest)
        case .forgotten: return .rejected(.forgottenRequest)
        case .ahead: return .rejected(.requestFromTheFuture)
        case .new where write.isRepeatOnly: return WriteOutcome(.outdated)
        case .new: break
        }
        let outcome = try growAndPerform(write, table)
        if outcome.decision.isSuccess, !isDryRun {
            try keep(key, write.operation, outcome, at: time)
        }
        return outcome
    }

    /// Returns the row of a replayed answer that the ledger did not store; nil if the caller may not see the
    /// row.
    private mutating func repeatedRow(
        _ outcome: WriteOutcome,
        _ write: WriteBatch.Write,
        _ table: Backend
    ) throws -> StoredRow? {
        guard !write.table.needsGrowth, write.operation.mayRead, let id = outcome.repeatedID,
            let image = try image(id, table),
            image.isVisible(in: write.operation.view, of: write.table)
        else { return nil }
        return image.stored(in: write.table)
    }
}
