// MemoryWriteTransaction: reads rows, has their writes planned, and stores the results in a copy of the state.

import TidelineCore
import TidelineServerCore

/// The writes of one transaction of the in-memory backend.
struct MemoryWriteTransaction: WriteTransaction {
    /// The state after the writes so far.
    private(set) var state: MemoryState
    private let limits: ServerLimits
    private let now: @Sendable () -> Int64
    private(set) var isDryRun = false
    var budget = AnswerBudget()
    var grown: Table?
    var batchRows = BatchRows()
    var time: Int64 { now() }

    init(_ state: MemoryState, limits: ServerLimits, now: @escaping @Sendable () -> Int64) {
        self.state = state
        self.limits = limits
        self.now = now
    }

    mutating func beginDryRun() { isDryRun = true }

    mutating func apply(
        _ group: [WriteBatch.Write],
        in tables: [MemoryTable],
        within budget: AnswerBudget
    ) -> GroupOutcome {
        let before = state
        do {
            let outcome = try applyEach(group, in: tables, within: budget)
            if !outcome.isDone { state = before }
            return outcome
        } catch {
            state = before
            return .failed(at: nil, error)
        }
    }

    mutating func perform(
        _ operation: WriteOperation,
        in table: MemoryTable
    ) throws -> WriteOutcome {
        let stored = try state.table(table)
        let row = stored.image(operation.id, table)
        let timestamp = stored.nextTimestamp(now())
        let planner = WritePlanner(table.table, limits: limits)
        var step = planner.plan(operation, on: row, timestamp: timestamp)
        if case .readBase(let version) = step {
            let bases = stored.bases[MemoryRow.key(operation.id)] ?? []
            let base = bases.first { $0.timestamp == version }.map(table.base)
            step = planner.plan(operation, on: row, timestamp: timestamp, base: .read(base))
        }
        guard case .plan(let plan) = step else { throw ServerError.failed }
        guard budget.fits(plan.outcome) else { return .rejected(.batchMemoryFull) }
        if let rejection = stored.uniqueRejection(of: plan.change, table) {
            return .rejected(rejection)
        }
        state.tables[table.key]?
            .perform(plan.change, at: timestamp, table, basesMax: limits.mergeBases)
        return plan.outcome
    }

    mutating func grow(
        for write: WriteBatch.Write,
        in table: MemoryTable
    ) throws -> WriteOutcome {
        let definition = table.table.definition
        let rejection = ServerError.growth(
            of: definition,
            isNew: state.tables[table.key] == nil,
            tables: state.tables.count,
            limits
        )
        if let rejection { return .rejected(rejection) }
        let before = state
        var outcome: WriteOutcome
        do {
            let grown = try MemorySchemaChange.grow(
                definition,
                isFiltered: table.log.takesUpdates,
                in: &state
            )
            outcome = try perform(write.operation, in: table)
            if outcome.decision.changesRow {
                outcome.grown = grown
                return outcome
            }
        } catch let error as SchemaError {
            outcome = .rejected(.badRequest(error.description))
        }
        state = before
        // The columns by which the row was read do not exist.
        if outcome.row != nil, write.operation.mayRead, let form = table.table.storedForm {
            outcome.row = try image(write.operation.id, MemoryTable(form))?.stored(in: form)
        }
        return outcome
    }

    func image(_ id: String, _ table: MemoryTable) throws -> RowImage? {
        try state.table(table).image(id, table)
    }

    func find(_ key: RepeatKey, at time: Int64) -> LedgerFinding {
        state.ledger.find(key, at: time, days: limits.ledgerDays)
    }

    mutating func keep(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        at time: Int64
    ) {
        state.ledger.put(key, operation, outcome, at: time)
    }
}
