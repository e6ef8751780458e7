// WriteRound: the writes of one transaction.
//
//     begin    lock tables, the rows that are there, clocks; read rows and names       one round trip
//     apply    plan each write in memory; nothing is sent
//     commit   rows, log, bases, ledger, clocks, COMMIT                                one round trip
//
// Rows are locked before clocks, so that a transaction that holds a row for long does not block a whole table.
// Missing tables and columns (dynamic schema) are created within a savepoint, and the group is sent at once.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

struct WriteRound {
    let connection: PostgresConnection
    private let limits: ServerLimits
    /// Microseconds since 1970; nil for the time of the database.
    private let injectedNow: (@Sendable () -> Int64)?
    private var databaseNow: Int64 = 0
    var state = WriteState()
    let times: WriteTimes
    /// The columns that the current group has added: later writes of the group find them here.
    private var grown: Table?
    private var isWritten = false
    /// The names whose entries were answers.
    private var repeated: Set<LedgerKey> = []
    /// The budget of the answers of the current batch.
    private var budget = AnswerBudget()

    init(
        _ connection: PostgresConnection,
        limits: ServerLimits,
        times: WriteTimes,
        now: (@Sendable () -> Int64)?
    ) {
        self.connection = connection
        self.limits = limits
        self.times = times
        injectedNow = now
    }

    private func now() -> Int64 { injectedNow?() ?? databaseNow }

    // MARK: - The beginning

    /// Locks and reads the rows and clocks of the writes.
    ///
    /// - Parameters:
    ///   - jobs: The batches of the transaction.
    ///   - passesHeld: Whether rows that other transactions hold are skipped.
    /// - Throws: ``HeldTable`` and ``HeldTimeout`` if another transaction held a table, or a row, for too long.
    mutating func begin(
        _ jobs: [PostgresJob],
        passesHeld: Bool = false
    ) throws {
        var ids: [String: Set<String>] = [:]
        var tables: [String: PostgresTable] = [:]
        var names: Set<LedgerKey> = []
        for write in jobs.lazy.flatMap(\.groups).joined() {
            let table = write.table
            // A form that is still to be made is read when it is there.
            if !table.table.needsGrowth {
                // Rows are read with the latest schema version; a job with another one is rejected before it is
                // planned.
                let known = tables[table.clock]?.table.definition.form ?? 0
                if table.table.definition.form ?? .max >= known { tables[table.clock] = table }
                ids[table.clock, default: []].insert(write.operation.id)
            }
            if let key = write.repeatKey { names.insert(LedgerKey(key)) }
        }
        let waits = !passesHeld
        let parts = tables.values.sorted { $0.clock < $1.clock }
            .map { (table: $0, ids: Array(ids[$0.clock] ?? []).sorted()) }
        let statementTime = waits ? times.heldStatement : times.statement
        let fullTimes = WriteStatements.timeouts(lock: times.lock, statement: times.statement)
        var waiting = WaitingStatements()
        var statements = [
            PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
            WriteStatements.settings(times, lock: times.heldLock, statement: statementTime),
        ]
        for part in parts {
            waiting.tables[statements.count] = part.table.clock
            statements.append(WriteStatements.lock(part.table))
        }
        let rowsPlace = statements.count
        for part in parts {
            if waits { waiting.rows.insert(statements.count) }
            statements.append(
                WriteStatements.lock(part.ids, of: part.table, passingHeld: !waits)
            )
        }
        let clocksPlace = statements.count + 1
        let clocks = parts.map(\.table.clock)
        statements.append(
            WriteStatements.timeouts(lock: times.busyLock, statement: times.statement)
        )
        for clock in clocks {
            waiting.tables[statements.count] = clock
            statements.append(WriteStatements.lockClock(clock))
        }
        statements.append(fullTimes)
        let formsPlace = statements.count
        statements.append(WriteStatements.forms(parts.map(\.table)))
        let placeBehind = formsPlace + 1
        statements.append(PostgresStatement(PostgresClock.now).kept)
        // Entries before horizons: the horizon covers an entry that is dropped in between.
        statements.append(LedgerKey.read(Array(names)))
        statements.append(LedgerKey.readHorizons(Set(names.map(\.caller))))
        statements += parts.map { WriteStatements.read($0.ids, of: $0.table) }
        let results: [PostgresResult]
        do {
            results = try connection.pipeline(statements)
        } catch let error as PostgresError {
            throw waiting.refusal(error)
        }
        for place in clocks.indices { takeClocks(results[clocksPlace + place]) }
        takeForms(results[formsPlace])
        databaseNow = results[placeBehind].integer(0, 0)
        takeLedger(results[placeBehind + 1], names)
        state.ledgerHorizons = LedgerKey.horizons(results[placeBehind + 2])
        for (place, part) in parts.enumerated() {
            try take(results[placeBehind + 3 + place], part.ids, part.table)
            if !waits { markHeld(part.ids, part.table, locked: results[rowsPlace + place]) }
        }
    }

    // MARK: - Groups

    /// Does the writes of a group: all of them, or none.
    ///
    /// With `isApart` the group is sent at once, within a savepoint, so that an error of the database
    /// rejects this group alone.
    mutating func apply(
        _ group: [PostgresJob.Write],
        within budget: AnswerBudget,
        isApart: Bool
    ) throws -> GroupOutcome {
        let grows = group.contains { $0.table.table.needsGrowth }
        guard isApart || grows else {
            let before = group.count > 1 ? state : nil
            do {
                let outcome = try applyEach(group, within: budget)
                if !outcome.isDone, let before { state = before }
                return outcome
            } catch let error where Self.refusal(error) != nil {
                if let before { state = before }
                return .failed(at: nil, Self.refusal(error) ?? error)
            }
        }
        try flush()
        if grows { state.forgetRows() }
        let before = state
        try connection.run("SAVEPOINT tideline_group")
        do {
            let outcome = try applyEach(group, within: budget)
            if outcome.isDone {
                // External constraints may need one row before another.
                try flush(inOrder: isApart)
                if isApart { try checkConstraints() }
                try connection.run("RELEASE tideline_group")
                // Rows that were read in the form from before are of no use to others.
                if grows { state.forgetRows() }
                return outcome
            }
            try undo(to: before)
            return outcome
        } catch let error where Self.refusal(error) != nil {
            try undo(to: before)
            return .failed(at: nil, Self.refusal(error) ?? error)
        } catch let error as PostgresError {
            // An error that ends the whole transaction is not an outcome of the group alone.
            if error.isConnectionLost || connection.isBroken || connection.fault != nil
                || error.isTransient || error.isLockTimeout && !grows
                || error.isUniqueViolation && isApart == false
            {
                throw error
            }
            try undo(to: before)
            return .failed(at: nil, PostgresRefusal.ofWrite(try withColumns(error)))
        }
    }

    /// Returns the answer to a group that failed while other groups of the transaction can succeed.
    private static func refusal(_ error: any Error) -> (any Error)? {
        error is OutdatedTable ? error : nil
    }

    private mutating func undo(to before: WriteState) throws {
        try connection.run("ROLLBACK TO tideline_group")
        try connection.run("RELEASE tideline_group")
        state = before
        state.forgetRows()
    }

    /// Ends at the first rejection.
    private mutating func applyEach(
        _ group: [PostgresJob.Write],
        within budget: AnswerBudget
    ) throws -> GroupOutcome {
        self.budget = budget
        grown = nil
        var outcomes: [WriteOutcome] = []
        outcomes.reserveCapacity(group.count)
        for (place, write) in group.enumerated() {
            do {
                try self.budget.check()
            } catch {
                return .refused(at: place, .refused(error))
            }
            let outcome = try write.repeatKey.map { try once($0, write) } ?? growAndPerform(write)
            guard outcome.decision.isSuccess else { return .refused(at: place, outcome) }
            self.budget.take(outcome)
            outcomes.append(outcome)
        }
        return .done(outcomes)
    }

    /// Does a write that may come again, unless it was done.
    private mutating func once(
        _ key: RepeatKey,
        _ write: PostgresJob.Write
    ) throws -> WriteOutcome {
        let now = now()
        let name = LedgerKey(key)
        if case let entry?? = state.ledger[name] {
            guard entry.digest == key.digest else { return .refused(.anotherRequest) }
            repeated.insert(name)
            let outcome = try replayed(entry, write)
            return budget.hasRoom(for: outcome) ? outcome : .refused(.noRoomInBatch)
        }
        if key.isAhead(now: now) { return .refused(.requestFromTheFuture) }
        let isForgotten = key.mayBeForgotten(
            now: now,
            days: limits.ledgerDays,
            horizon: state.ledgerHorizons[name.caller]
        )
        if isForgotten { return .refused(.forgottenRequest) }
        if write.isRepeatOnly { return WriteOutcome(.outdated) }
        let outcome = try growAndPerform(write)
        if outcome.decision.isSuccess {
            let entry = LedgerEntry(key, write.operation, outcome)
            state.puts.append((name, max(now, key.firstSent), entry))
            state.charges[name.caller, default: 0] += entry.bytes
            state.ledger[name] = entry
        }
        return outcome
    }

    /// The outcome of a write that is replayed, with a row that the ledger may not have kept.
    private mutating func replayed(
        _ entry: LedgerEntry,
        _ write: PostgresJob.Write
    ) throws -> WriteOutcome {
        let outcome = entry.outcome
        guard let rowState = entry.stateOfRow else { return outcome }
        let table = write.table
        var row: StoredRow?
        if !table.table.needsGrowth, write.operation.mayRead, let id = outcome.repeatedID,
            let image = try image(id, table),
            image.isVisible(in: write.operation.view, of: table.table)
        {
            row = image.stored(in: table.table)
        }
        return LedgerRules.outcome(outcome, rowState, row: row)
    }

    // MARK: - Writes

    /// Creates the missing table or columns, and does the write.
    private mutating func growAndPerform(_ write: PostgresJob.Write) throws -> WriteOutcome {
        let table = write.table.table
        guard table.needsGrowth, table !== grown else {
            return try perform(write.operation, in: write.table)
        }
        if let refusal = try growthRefusal(table) { return .refused(refusal) }
        try flush()
        // A table with stamps to come cannot be changed.
        if state.hasOthers { try checkConstraints() }
        state.forgetRows()
        let before = state
        try connection.run("SAVEPOINT tideline_growth")
        do {
            let change = PostgresSchemaChange(connection: connection, now: injectedNow)
            let (made, formBefore) = try change.grow(
                table.definition,
                isFiltered: write.table.log.takesUpdates,
                begin: state.formsBefore[write.table.clock],
                waiting: times.lock
            )
            state.formsBefore[write.table.clock] = formBefore
            // Later writes with the old schema version have to restart.
            state.forms[write.table.clock] = made.form
            takeClocks(try connection.run(WriteStatements.lockClock(write.table.clock)))
            var outcome = try perform(write.operation, in: write.table)
            guard outcome.decision.changesRow else {
                try undoGrowth(to: before)
                // The columns that it was read with are gone.
                if outcome.row != nil, write.operation.mayRead, let stored = table.storedForm {
                    let form = PostgresTable(stored)
                    outcome.row = try image(write.operation.id, form)?.stored(in: stored)
                }
                return outcome
            }
            try flush()
            state.forgetRows()
            try connection.run("RELEASE tideline_growth")
            outcome.grown = made
            grown = table
            return outcome
        } catch let error as SchemaError {
            try undoGrowth(to: before)
            return .refused(.badRequest(error.description))
        }
    }

    /// Returns why the missing table or columns cannot be created; nil if they can.
    private func growthRefusal(_ table: Table) throws -> ServerError? {
        let found = try connection.run(
            "SELECT count(*), count(*) FILTER (WHERE \"name\" = $1) FROM tideline.tables",
            [.text(table.name.lowercased())]
        )
        return ServerError.growth(
            of: table.definition,
            isNew: found.integer(0, 1) == 0,
            tables: Int(clamping: found.integer(0, 0)),
            limits
        )
    }

    private mutating func undoGrowth(to before: WriteState) throws {
        try connection.run("ROLLBACK TO tideline_growth")
        try connection.run("RELEASE tideline_growth")
        state = before
    }

    /// Does one write, in a table that the database has.
    private mutating func perform(
        _ operation: WriteOperation,
        in table: PostgresTable
    ) throws -> WriteOutcome {
        let now = now()
        let stored = try image(operation.id, table)
        let operation = try withDefaults(operation, on: stored, in: table)
        let (stamp, plan) = try plan(operation, on: stored, in: table, now)
        guard budget.hasRoom(for: plan.outcome) else { return .refused(.noRoomInBatch) }
        state.take(plan.change, stamp: stamp, of: table, now: now)
        let entry = AuditEntry(plan.change, by: operation, in: table.table, stamp: stamp)
        if let entry { state.audits.append(entry) }
        return plan.outcome
    }

    private func plan(
        _ operation: WriteOperation,
        on stored: RowImage?,
        in table: PostgresTable,
        _ now: Int64
    ) throws -> (stamp: Int64, plan: WritePlan) {
        let clock = state.clocks[table.clock] ?? WriteState.Clock(stamp: 0, counted: 0)
        let stamp = PostgresClock.next(
            after: clock.stamp,
            now: now,
            isCounted: !clock.hasMoved && state.isCounted(table.clock, now)
        )
        let planner = WritePlanner(table.table, limits: limits)
        var step = planner.plan(operation, on: stored, stamp: stamp)
        if case .readBase(let version) = step {
            let base = try base(operation.id, version, of: table)
            step = planner.plan(operation, on: stored, stamp: stamp, base: .read(base))
        }
        guard case .plan(let plan) = step else {
            throw PostgresError(state: "XX000", "a planned write asks for its base twice")
        }
        return (stamp, plan)
    }

    // MARK: - The end

    /// The bytes of the entries of the ledger that it has made.
    var chargedBytes: Int { state.charges.values.reduce(0, +) }

    /// Sends the planned writes, in the transaction that is open.
    ///
    /// - Parameter inOrder: Whether rows are written in the order that their writes came in.
    /// - Throws: ``PostgresError``
    private mutating func flush(inOrder: Bool = false) throws {
        guard !state.isEmpty else { return }
        let statements = state.statements(inOrder: inOrder) + state.dropOldBases(limits.mergeBases)
        let written = state.hasOthers ? state.touched : []
        _ = try connection.pipeline(statements)
        state.flushed()
        isWritten = true
        if !written.isEmpty { try readBack(written, now: now()) }
    }

    /// Sends the rest and commits.
    ///
    /// - Returns: The clocks that have moved.
    mutating func commit() throws -> [TableStamp] {
        guard isWritten || !state.isEmpty || !repeated.isEmpty else {
            try connection.run("ROLLBACK")
            return []
        }
        if state.hasOthers { try flush() }
        var statements = state.statements() + state.dropOldBases(limits.mergeBases)
        // An entry may be in this database and not at its standby yet: a write waits for both.
        if !isWritten, state.isEmpty { statements.append(LedgerKey.touch(Array(repeated))) }
        // The last locks of each transaction, whatever it did before.
        if !state.charges.isEmpty { statements.append(LedgerAccounts.charge(state.charges)) }
        do {
            _ = try connection.pipeline(statements + [PostgresStatement("COMMIT")])
        } catch let error as PostgresError {
            // The COMMIT may have arrived.
            if error.isConnectionLost || connection.isBroken { throw ServerError.outcomeUnknown }
            throw error
        }
        return state.clocks.filter(\.value.hasMoved).sorted { $0.key < $1.key }
            .map { TableStamp(table: $0.key, stamp: $0.value.stamp) }
    }
}
