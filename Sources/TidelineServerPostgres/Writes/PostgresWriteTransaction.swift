// PostgresWriteTransaction: the phases of a transaction.
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

/// The writes of one transaction in PostgreSQL.
struct PostgresWriteTransaction: WriteTransaction {
    let connection: PostgresConnection
    let tables: DerivedTables
    let limits: ServerLimits
    /// Returns the time in microseconds since 1970; nil for the time of the database.
    private let injectedNow: (@Sendable () -> Int64)?
    private var databaseNow: Int64 = 0
    var state = WriteState()
    let times: WriteTimes
    /// Whether each group is sent immediately, within a savepoint, so that an error of the database rejects only this
    /// group.
    private(set) var isApart: Bool
    private(set) var isDryRun = false
    /// The locks that batches need and could not get, by batch index.
    var blocked: [Int: Set<ContendedLock>] = [:]
    var grown: Table?
    private var isWritten = false
    /// Whether each group waits only briefly for locks.
    private let limitsGroupLocks: Bool
    /// The number of groups that were rolled back because of a lock timeout.
    ///
    /// Such a lock may be that of a row that a foreign key references.
    private(set) var lockTimeouts = 0
    /// The number of lock timeouts after which the statements of other groups no longer wait for locks.
    private static let lockTimeoutsMax = 5
    /// The keys that were answered from the ledger.
    private var repeated: Set<LedgerKey> = []
    var budget = AnswerBudget()
    var batchRows = BatchRows()
    var cascadeRowsLeft: Int
    /// Whether the transaction stores a pending cascade.
    var hasNewCascades = false
    /// The pending cascades that the transaction continues.
    var entries: [PendingCascade] = []

    init(
        _ connection: PostgresConnection,
        _ tables: DerivedTables,
        limits: ServerLimits,
        times: WriteTimes,
        now: (@Sendable () -> Int64)?,
        isApart: Bool,
        limitsGroupLocks: Bool
    ) {
        self.isApart = isApart
        self.limitsGroupLocks = limitsGroupLocks
        self.connection = connection
        self.tables = tables
        cascadeRowsLeft = limits.cascadeRows
        self.limits = limits
        self.times = times
        injectedNow = now
    }

    var time: Int64 { injectedNow?() ?? databaseNow }

    // MARK: - The beginning

    /// Locks and reads the rows and clocks of the writes.
    ///
    /// - Parameters:
    ///   - batches: The batches of the transaction.
    ///   - skipsLocked: Whether rows that other transactions have locked are skipped.
    /// - Throws: ``TableLockTimeout`` and ``RowLockTimeout`` if another transaction has locked a table, or a
    ///   row, for too long.
    mutating func begin(
        _ batches: [PostgresBatch],
        skipsLocked: Bool = false
    ) throws {
        let needed = NeededRows(batches, derived: tables.derived)
        let waits = !skipsLocked
        let statementTime = waits ? times.rowLocksStatement : times.statement
        var waiting = WaitingStatements()
        var statements = [
            PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
            WriteStatements.settings(times, lock: times.briefLock, statement: statementTime),
        ]
        for (clock, statement) in needed.tableLocks {
            waiting.tables[statements.count] = clock
            statements.append(statement)
        }
        let rowsIndex = statements.count
        for part in needed.parts {
            if waits { waiting.rows.insert(statements.count) }
            statements.append(
                WriteStatements.lock(
                    part.ids,
                    of: part.table,
                    mode: part.isShared ? "FOR SHARE" : "FOR UPDATE",
                    skippingLocked: !waits
                )
            )
        }
        var locked: ArraySlice<PostgresResult> = []
        var clocks = Set(needed.clocks)
        // The rows that refer to deleted ones are known only after these are locked.
        if let graph = needed.graph, !needed.deleted.isEmpty {
            statements.append(
                WriteStatements.timeouts(lock: times.briefLock, statement: times.statement)
            )
            locked = try run(statements, waiting)[rowsIndex...]
            do {
                clocks.formUnion(
                    try lockFollowers(of: needed.deleted, in: graph, skipsLocked: skipsLocked)
                )
            } catch let error as PostgresError where error.isOverTime {
                throw RowLockTimeout()
            }
            statements = []
            waiting = WaitingStatements()
        }
        let results = try read(needed, clocks.sorted(), after: statements, waiting)
        if locked.isEmpty { locked = results[rowsIndex...] }
        for (part, locked) in zip(needed.parts, locked) where !waits {
            noteLocked(part.ids, part.table, locked: locked)
        }
    }

    private func run(
        _ statements: [PostgresStatement],
        _ waiting: WaitingStatements
    ) throws -> [PostgresResult] {
        do {
            return try connection.pipeline(statements)
        } catch let error as PostgresError {
            throw waiting.rejection(error)
        }
    }

    /// Locks the clocks, and reads the rows, the schema versions and the entries of the ledger.
    ///
    /// - Parameters:
    ///   - needed: The rows.
    ///   - clocks: The clocks to lock.
    ///   - first: The statements that come before, in the same round trip.
    ///   - waiting: The statements among them that may wait for a lock.
    /// - Returns: The results of all statements.
    /// - Throws: The errors of ``begin(_:skipsLocked:)``.
    private mutating func read(
        _ needed: NeededRows,
        _ clocks: [String],
        after first: [PostgresStatement],
        _ waiting: WaitingStatements
    ) throws -> [PostgresResult] {
        var (statements, waiting) = (first, waiting)
        let hasReferences = needed.graph != nil
        if hasReferences, !state.holdsNewParents {
            statements.append(
                WriteStatements.timeouts(lock: times.lock, statement: times.statement)
            )
            waiting.rows.insert(statements.count)
            statements.append(ReferenceStatements.shareNewParents)
        }
        let clocksIndex = statements.count + 1
        statements.append(
            WriteStatements.timeouts(lock: times.contendedLock, statement: times.statement)
        )
        for clock in clocks {
            waiting.tables[statements.count] = clock
            statements.append(WriteStatements.lockClock(clock))
        }
        statements.append(WriteStatements.timeouts(lock: times.lock, statement: times.statement))
        let formsIndex = statements.count
        statements.append(WriteStatements.forms(needed.tables))
        let placeBehind = formsIndex + 1
        statements.append(PostgresStatement(PostgresClock.now).prepared)
        // Entries are read before horizons, so that the horizon covers an entry that is dropped in between.
        statements.append(LedgerKey.read(Array(needed.names)))
        statements.append(LedgerKey.readHorizons(Set(needed.names.map(\.caller))))
        statements += needed.parts.map { WriteStatements.read($0.ids, of: $0.table) }
        if let graph = needed.graph {
            statements.append(ReferenceStatements.pendingTables(graph.cascadeParents))
        }
        if limitsGroupLocks { statements.append(groupTimeouts) }
        let results = try run(statements, waiting)
        for place in clocks.indices { takeClocks(results[clocksIndex + place]) }
        takeForms(results[formsIndex])
        takeTime(results[placeBehind])
        takeLedger(results[placeBehind + 1], needed.names)
        state.ledgerHorizons = LedgerKey.horizons(results[placeBehind + 2])
        let rowsIndex = placeBehind + 3
        for (place, part) in needed.parts.enumerated() {
            try take(results[rowsIndex + place], part.ids, part.table)
        }
        if let graph = needed.graph {
            state.pendingTables = Self.pendingTables(results[rowsIndex + needed.parts.count])
            try readAncestors(of: needed.named, in: graph)
        }
        return results
    }

    mutating func takeTime(_ result: PostgresResult) { databaseNow = result.integer(0, 0) }

    /// The statement with the timeouts of a group, while locks are limited.
    private var groupTimeouts: PostgresStatement {
        let lock = lockTimeouts < Self.lockTimeoutsMax ? times.groupLock : 1
        return WriteStatements.timeouts(lock: lock, statement: times.statement)
    }

    // MARK: - Groups

    mutating func beginDryRun() {
        isDryRun = true
        // Each group is sent, so that the database checks it.
        isApart = true
    }

    func admit(_ batch: PostgresBatch, at index: Int) throws -> WriteAdmission {
        if let outdated = try outdated(batch) { return .reject(outdated) }
        return blocked[index]?.isEmpty ?? true ? .run : .wait
    }

    mutating func apply(
        _ group: [WriteBatch.Write],
        in tables: [PostgresTable],
        within budget: AnswerBudget
    ) throws -> GroupOutcome {
        let grows = group.contains { $0.table.needsGrowth }
        guard isApart || grows else {
            let before = group.count > 1 ? state : nil
            do {
                let outcome = try applyEach(group, in: tables, within: budget)
                if !outcome.isDone, let before { state = before }
                return outcome
            } catch let error where Self.rejection(error) != nil {
                if let before { state = before }
                return .failed(at: nil, Self.rejection(error) ?? error)
            }
        }
        try flush()
        if grows { state.forgetRows() }
        let before = state
        try connection.run("SAVEPOINT tideline_group")
        do {
            let outcome = try applyEach(group, in: tables, within: budget)
            if outcome.isDone {
                // External constraints may require one row before another.
                try flush(inOrder: isApart)
                if isApart { try checkConstraints() }
                try connection.run("RELEASE tideline_group")
                if grows {
                    // Rows that were read with the former schema version are invalid now.
                    state.forgetRows()
                    // The growth has set other timeouts.
                    if limitsGroupLocks { try connection.run(groupTimeouts) }
                }
                return outcome
            }
            try undo(to: before)
            return outcome
        } catch let error where Self.rejection(error) != nil {
            try undo(to: before)
            return .failed(at: nil, Self.rejection(error) ?? error)
        } catch let error as PostgresError {
            // An error that ends the whole transaction is not the outcome of one group.
            if error.isConnectionLost || connection.isBroken || connection.fault != nil
                || error.isTransient || error.isUniqueViolation && !isApart
                || error.isLockTimeout && !grows && !limitsGroupLocks
            {
                throw error
            }
            try undo(to: before)
            if error.isLockTimeout, limitsGroupLocks {
                lockTimeouts += 1
                if lockTimeouts == Self.lockTimeoutsMax { try connection.run(groupTimeouts) }
            }
            if let rejection = Self.rejection(of: error, group) {
                return .failed(at: nil, rejection)
            }
            return .failed(at: nil, PostgresRejection.ofWrite(try withColumns(error), to: tables))
        }
    }

    /// Returns the rejection of a group that failed although other groups of the transaction may succeed.
    private static func rejection(_ error: any Error) -> (any Error)? {
        if let slow = error as? SlowRestriction { return slow.rejection }
        return error is OutdatedTable ? error : nil
    }

    private mutating func undo(to before: WriteState) throws {
        try connection.run("ROLLBACK TO tideline_group")
        try connection.run("RELEASE tideline_group")
        state = before
        state.forgetRows()
    }

    mutating func find(_ key: RepeatKey, at time: Int64) -> LedgerFinding {
        let name = LedgerKey(key)
        if case let entry?? = state.ledger[name] {
            guard entry.digest == key.digest else { return .other }
            repeated.insert(name)
            return .known(entry.outcome, stateOfRow: entry.stateOfRow)
        }
        if key.isAhead(now: time) { return .ahead }
        let isForgotten = key.mayBeForgotten(
            now: time,
            days: limits.ledgerDays,
            horizon: state.ledgerHorizons[name.caller]
        )
        return isForgotten ? .forgotten : .new
    }

    mutating func keep(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        at time: Int64
    ) {
        let name = LedgerKey(key)
        let entry = LedgerEntry(key, operation, outcome)
        state.puts.append((name, max(time, key.firstSent), entry))
        state.charges[name.caller, default: 0] += entry.bytes
        state.ledger[name] = entry
    }

    // MARK: - Writes

    mutating func grow(
        for write: WriteBatch.Write,
        in table: PostgresTable
    ) throws -> WriteOutcome {
        if let rejection = try growthRejection(write.table) { return .rejected(rejection) }
        try flush()
        // Deferred triggers run now, because a table with pending trigger events cannot be changed.
        if state.hasExternalEffects { try checkConstraints() }
        state.forgetRows()
        let before = state
        try connection.run("SAVEPOINT tideline_growth")
        do {
            let change = PostgresSchemaChange(connection: connection, now: injectedNow)
            let (created, formBefore) = try change.grow(
                write.table.definition,
                isFiltered: table.log.takesUpdates,
                begin: state.formsBefore[table.clock],
                waiting: times.lock
            )
            state.formsBefore[table.clock] = formBefore
            // Later writes with the old schema version have to restart.
            state.forms[table.clock] = created.form
            state.grownTables[table.clock] = table
            takeClocks(try connection.run(WriteStatements.lockClock(table.clock)))
            var outcome = try perform(write.operation, in: table)
            guard outcome.decision.changesRow else {
                try undoGrowth(to: before)
                // The columns by which the row was read are outdated.
                if outcome.row != nil, write.operation.mayRead, let stored = write.table.storedForm
                {
                    let form = PostgresTable(stored)
                    outcome.row = try image(write.operation.id, form)?.stored(in: stored)
                }
                return outcome
            }
            try flush()
            state.forgetRows()
            try connection.run("RELEASE tideline_growth")
            outcome.grown = created
            return outcome
        } catch let error as SchemaError {
            try undoGrowth(to: before)
            return .rejected(.badRequest(error.description))
        }
    }

    /// Returns why the missing table or columns cannot be created; nil if they can be created.
    private func growthRejection(_ table: Table) throws -> ServerError? {
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

    mutating func perform(
        _ operation: WriteOperation,
        in table: PostgresTable
    ) throws -> WriteOutcome {
        let now = time
        let stored = try image(operation.id, table)
        let operation = try withDefaults(operation, on: stored, in: table)
        var (timestamp, plan) = try plan(operation, on: stored, in: table, now)
        guard budget.fits(plan.outcome) else { return .rejected(.batchMemoryFull) }
        if let rejection = try rejection(of: plan.change, by: operation, in: table.table) {
            return .rejected(rejection)
        }
        // The rows that refer to a deleted one may be of the same table, and then took its timestamp.
        if let last = state.clocks[table.clock]?.timestamp, last >= timestamp {
            (timestamp, plan) = try self.plan(operation, on: stored, in: table, now)
        }
        if isApart, let (image, rules) = plan.change.uniqueRules(of: table.table) {
            try flush(inOrder: true)
            if let rejection = try PostgresUnique.rejection(image, rules, table, connection) {
                return .rejected(rejection)
            }
        }
        state.take(plan.change, timestamp: timestamp, of: table, now: now)
        let entry = AuditEntry(plan.change, by: operation, in: table.table, timestamp: timestamp)
        // Audit entries are numbered by a sequence, which a rollback does not reset.
        if let entry, !isDryRun { state.audits.append(entry) }
        return plan.outcome
    }

    private func plan(
        _ operation: WriteOperation,
        on stored: RowImage?,
        in table: PostgresTable,
        _ now: Int64
    ) throws -> (timestamp: Int64, plan: WritePlan) {
        let clock = state.clocks[table.clock] ?? WriteState.Clock(timestamp: 0, counted: 0)
        let timestamp = PostgresClock.next(
            after: clock.timestamp,
            now: now,
            isCounted: !clock.hasMoved && state.isCounted(table.clock, now)
        )
        let planner = WritePlanner(table.table, limits: limits)
        var step = planner.plan(operation, on: stored, timestamp: timestamp)
        if case .readBase(let version) = step {
            let base = try base(operation.id, version, of: table)
            step = planner.plan(operation, on: stored, timestamp: timestamp, base: .read(base))
        }
        guard case .plan(let plan) = step else {
            throw PostgresError(state: "XX000", "a planned write asks for its base twice")
        }
        return (timestamp, plan)
    }

    // MARK: - The end

    /// The bytes of the ledger entries that the transaction adds.
    var chargedBytes: Int { state.charges.values.reduce(0, +) }

    /// Sends the planned writes in the open transaction.
    ///
    /// - Parameter inOrder: Whether rows are written in the order of their writes.
    /// - Throws: ``PostgresError``
    mutating func flush(inOrder: Bool = false) throws {
        guard !state.isEmpty else { return }
        let statements = state.statements(inOrder: inOrder) + state.dropOldBases(limits.mergeBases)
        let written = state.hasExternalEffects ? state.touched : []
        _ = try connection.pipeline(statements)
        state.flushed()
        isWritten = true
        if !written.isEmpty { try readBack(written, now: time) }
    }

    /// Sends the remaining writes and commits.
    ///
    /// - Returns: The changed clocks.
    mutating func commit() throws -> [TableTimestamp] {
        guard isWritten || !state.isEmpty || !repeated.isEmpty else {
            try connection.run("ROLLBACK")
            return []
        }
        if state.hasExternalEffects { try flush() }
        var statements = state.statements() + state.dropOldBases(limits.mergeBases)
        if limitsGroupLocks {
            let timeouts = WriteStatements.timeouts(lock: times.lock, statement: times.statement)
            statements.insert(timeouts, at: 0)
        }
        // An entry may not have reached the standby yet; a write makes the commit wait for it.
        if !isWritten, state.isEmpty { statements.append(LedgerKey.touch(Array(repeated))) }
        // These locks are the last of every transaction, so that they cannot deadlock.
        if !state.charges.isEmpty { statements.append(LedgerAccounts.charge(state.charges)) }
        do {
            _ = try connection.pipeline(statements + [PostgresStatement("COMMIT")])
        } catch let error as PostgresError {
            // The server may have received the COMMIT.
            if error.isConnectionLost || connection.isBroken { throw ServerError.outcomeUnknown }
            throw error
        }
        return state.clocks.filter(\.value.hasMoved).sorted { $0.key < $1.key }
            .map { TableTimestamp(table: $0.key, timestamp: $0.value.timestamp) }
    }
}
