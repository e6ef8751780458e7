// SQLiteWriteTransaction: reads rows, has their writes planned, stores the results, and advances the tables' clocks.
//
// A commit timestamp is the time of a write in microseconds. The timestamps of a table strictly increase in commit
// order, even if the wall clock steps back or the server restarts: the last one is stored with the table's definition
// and written in the same transaction.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The writes of one transaction in SQLite.
struct SQLiteWriteTransaction: WriteTransaction {
    /// The minimum distance between two commit timestamps of a table.
    ///
    /// Classic clients page through the rows of one millisecond with `$skip`, and miss a row if there are more
    /// than a page of 50. With a distance of 25 microseconds, there are at most 40.
    static let spacing: Int64 = 25

    /// How far timestamps may run ahead of the wall clock to leave a counted millisecond.
    private static let aheadMax: Int64 = 1_000_000

    let database: Database
    let tables: DerivedTables
    let now: @Sendable () -> Int64
    var time: Int64 { now() }
    let limits: ServerLimits
    /// Whether a table or column was created.
    var hasGrown = false
    private let file: FileWatch?
    /// Whether each group has a savepoint.
    private let isApart: Bool
    private(set) var isDryRun = false
    private let bases: MergeBases
    private var ledger: Ledger
    /// The callers and bytes of the entries that were added to the ledger.
    private var ledgerPuts: [(caller: String, bytes: Int)] = []
    /// The tables with an assigned commit timestamp.
    private var timestamped: [TimestampedTable] = []
    var grown: Table?
    var budget = AnswerBudget()
    var batchRows = BatchRows()
    /// The bytes of the rows that were read and built, including those of rejected writes.
    private(set) var bytes = 0
    var cascadeRowsLeft: Int
    /// The state of the pending cascades.
    var cascades = KnownCascades()

    /// The size of a row above which a write is a large one.
    static let smallBytes = 64 << 10

    /// The bytes of rows, or of answers, after which a transaction accepts no more batches.
    ///
    /// All answers are in memory until the commit.
    ///
    /// A small write waits at most for this many bytes of large writes and the batch that exceeds the limit.
    private static let bytesMax = 4 << 20

    init(
        _ database: Database,
        _ tables: DerivedTables,
        limits: ServerLimits,
        now: @escaping @Sendable () -> Int64,
        file: FileWatch?,
        isApart: Bool
    ) {
        self.database = database
        self.tables = tables
        cascadeRowsLeft = limits.cascadeRows
        self.file = file
        self.isApart = isApart
        self.limits = limits
        ledger = Ledger(database: database, limits: limits)
        bases = MergeBases(database: database, versionsMax: limits.mergeBases)
        self.now = now
    }

    /// Returns whether the transaction accepts no more batches; a change of tables is a separate transaction,
    /// so that small writes follow soon.
    func isFull(answerBytes: Int) -> Bool {
        max(answerBytes, bytes) >= Self.bytesMax || hasGrown || cascadeRowsLeft <= 0
    }

    mutating func beginDryRun() { isDryRun = true }

    mutating func apply(
        _ group: [WriteBatch.Write],
        in tables: [SQLiteTable],
        within budget: AnswerBudget
    ) throws -> GroupOutcome {
        guard isApart else { return try applyAll(group, in: tables, within: budget) }
        let result = Result {
            try database.savepoint { try applyAll(group, in: tables, within: budget) }
        }
        // A full disk rolls back the whole transaction and not only the savepoint.
        guard database.isInTransaction else { throw ServerError.notCommitted }
        switch result {
        case .success(let outcome): return outcome
        case .failure(let error):
            if let rejection = file?.met(error) { throw rejection }
            return .failed(at: nil, SQLiteRejection.ofWrite(error, database))
        }
    }

    /// Executes the writes of a group: all of them, or none.
    private mutating func applyAll(
        _ group: [WriteBatch.Write],
        in tables: [SQLiteTable],
        within budget: AnswerBudget
    ) throws -> GroupOutcome {
        for index in timestamped.indices { timestamped[index].isFirstOfGroup = false }
        let putsBefore = ledgerPuts.count
        do {
            guard group.count > 1 else { return try applyEach(group, in: tables, within: budget) }
            return try database.savepoint {
                let outcome = try applyEach(group, in: tables, within: budget)
                guard outcome.isDone else { throw Undone(outcome: outcome) }
                return outcome
            }
        } catch {
            forgetGroup(putsBefore)
            guard let undone = error as? Undone<GroupOutcome> else { throw error }
            return undone.outcome
        }
    }

    /// Discards the changes of a group that was rolled back, so that they are not reported.
    ///
    /// Its timestamps are not assigned again in this transaction.
    private mutating func forgetGroup(_ putsBefore: Int) {
        ledgerPuts.removeSubrange(putsBefore...)
        for index in timestamped.indices where timestamped[index].isFirstOfGroup {
            timestamped[index].isChanged = false
            // The flag may have been reset, but the timestamp that it caused was undone.
            timestamped[index].table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
        }
    }

    mutating func find(_ key: RepeatKey, at time: Int64) throws -> LedgerFinding {
        try ledger.find(key, at: time)
    }

    mutating func keep(
        _ key: RepeatKey,
        _ operation: WriteOperation,
        _ outcome: WriteOutcome,
        at time: Int64
    ) throws {
        ledgerPuts.append(try ledger.put(key, operation, outcome, now: time))
    }

    mutating func perform(
        _ operation: WriteOperation,
        in table: SQLiteTable
    ) throws -> WriteOutcome {
        var timestamp = try nextTimestamp(table)
        let planner = WritePlanner(table.table, limits: limits)
        // The id of a new row is seldom taken, and if it is, the insert fails.
        if operation.kind == .insert, operation.basis == nil,
            case .plan(let plan) = planner.plan(operation, on: nil, timestamp: timestamp.value)
        {
            count(plan.outcome.row?.json.count ?? 0, table)
            guard budget.fits(plan.outcome) else { return .rejected(.batchMemoryFull) }
            // That the id is taken comes before a missing parent and values that are taken.
            if try rejection(of: plan.change, by: operation, in: table.table) == nil,
                try UniqueCheck.rejection(of: plan.change, table, database) == nil,
                try execute(plan.change, timestamp, table)
            {
                try audit(plan.change, operation, timestamp, table)
                return plan.outcome
            }
        }
        let stored = try Self.image(operation.id, table, database)
        count(stored?.bytes ?? 0, table)
        var step = planner.plan(operation, on: stored, timestamp: timestamp.value)
        if case .readBase(let version) = step {
            let base = try bases.values(operation.id, version, of: table)
            step = planner.plan(
                operation,
                on: stored,
                timestamp: timestamp.value,
                base: .read(base)
            )
        }
        guard case .plan(var plan) = step else {
            throw SQLiteError.unexpected("a write could not be planned")
        }
        count(plan.outcome.row?.json.count ?? 0, table)
        guard budget.fits(plan.outcome) else { return .rejected(.batchMemoryFull) }
        if let rejection = try rejection(of: plan.change, by: operation, in: table.table) {
            return .rejected(rejection)
        }
        // The rows that refer to a deleted one may be of the same table, and then took its timestamp.
        if let last = timestamped.first(where: { $0.table.clock == table.clock })?.timestamp,
            last >= timestamp.value
        {
            timestamp = try nextTimestamp(table)
            if case .plan(let again) = planner.plan(
                operation,
                on: stored,
                timestamp: timestamp.value
            ) {
                plan = again
            }
        }
        if let rejection = try UniqueCheck.rejection(of: plan.change, table, database) {
            return .rejected(rejection)
        }
        guard try execute(plan.change, timestamp, table) else {
            throw SQLiteError.unexpected("a planned write could not be executed")
        }
        try audit(plan.change, operation, timestamp, table)
        return plan.outcome
    }

    /// Writes the audit entry, for tables that are audited.
    private func audit(
        _ change: WritePlan.Change,
        _ operation: WriteOperation,
        _ timestamp: NextTimestamp,
        _ table: SQLiteTable
    ) throws {
        let entry = AuditEntry(change, by: operation, in: table.table, timestamp: timestamp.value)
        if let entry { try AuditLog.put(entry, database) }
    }

    mutating func count(_ bytes: Int, _ table: SQLiteTable) {
        self.bytes += bytes
        guard bytes > Self.smallBytes else { return }
        table.head.hasLargeRows.store(true, ordering: .relaxed)
    }

    // MARK: - Rows

    /// Returns the size of the stored row, in bytes; 0 if it does not exist.
    static func weight(_ id: String, _ table: SQLiteTable, _ database: Database) throws -> Int {
        try stored(id, table, database) { table.bytes($0) } ?? 0
    }

    /// Returns the row.
    ///
    /// - Throws: The error of `bounds` if the row is too large.
    static func row(
        _ id: String,
        _ table: SQLiteTable,
        _ database: Database,
        _ bounds: RowBounds = RowBounds()
    ) throws -> StoredRow? {
        try stored(id, table, database) { try table.row($0, bounds) }
    }

    func image(_ id: String, _ table: SQLiteTable) throws -> RowImage? {
        try Self.image(id, table, database)
    }

    static func image(
        _ id: String,
        _ table: SQLiteTable,
        _ database: Database
    ) throws -> RowImage? {
        try stored(id, table, database) { table.image($0) }
    }

    private static func stored<Result>(
        _ id: String,
        _ table: SQLiteTable,
        _ database: Database,
        _ read: (Statement) throws -> Result
    ) throws -> Result? {
        let statement = try database.prepare(table.selectRow)
        defer { statement.reset() }
        statement.bind(1, text: id)
        return try statement.step() ? try read(statement) : nil
    }

    /// Stores the planned row; returns false if the id of an insert already exists.
    private mutating func execute(
        _ change: WritePlan.Change,
        _ timestamp: NextTimestamp,
        _ table: SQLiteTable
    ) throws -> Bool {
        switch change {
        case .nothing: return true
        case .insert(let image):
            guard try insert(image, table) else { return false }
            take(timestamp, table)
        case .update(let image, let columns, let old):
            rowLeaves(old, table)
            if table.keepsBases {
                if image.isDeleted, table.table.definition.tombstones == .bare {
                    try MergeBases.drop(old.id, of: table.name, database)
                } else {
                    try bases.keep(old, of: table)
                }
            }
            if table.log.rules.isNeeded(for: old, image) {
                try table.log.keep(
                    old.id,
                    timestamp: timestamp.value,
                    isDeleted: image.isDeleted,
                    database
                )
            }
            try update(image, columns, table)
            take(timestamp, table)
        case .remove(let old):
            rowLeaves(old, table)
            try table.log.keep(old.id, timestamp: timestamp.value, isDeleted: true, database)
            let statement = try database.prepare(table.delete)
            statement.bind(1, text: old.id)
            try statement.run()
            take(timestamp, table)
            if table.keepsBases { try MergeBases.drop(old.id, of: table.name, database) }
        }
        return true
    }

    /// Counts that a row leaves its millisecond, which a rollback would not undo.
    private func rowLeaves(_ old: RowImage, _ table: SQLiteTable) {
        if !isDryRun { table.head.ties.rowLeaves(old.updatedAt) }
    }

    private func insert(_ image: RowImage, _ table: SQLiteTable) throws -> Bool {
        let statement = try database.prepare(table.insert)
        statement.bind(1, text: image.id)
        var index: Int32 = 2
        for value in image.values {
            statement.bind(index, value)
            index += 1
        }
        statement.bind(index, integer: image.createdAt)
        statement.bind(index + 1, integer: image.updatedAt)
        statement.bind(index + 2, integer: image.version)
        statement.bind(index + 3, integer: image.isDeleted ? 1 : 0)
        try statement.run()
        return database.changes > 0
    }

    private func update(_ image: RowImage, _ columns: [Int], _ table: SQLiteTable) throws {
        let statement = try database.prepare(table.update(columns))
        statement.bind(1, text: image.id)
        statement.bind(2, integer: image.updatedAt)
        statement.bind(3, integer: image.version)
        statement.bind(4, integer: image.isDeleted ? 1 : 0)
        for (offset, place) in columns.enumerated() {
            statement.bind(Int32(offset + 5), image.values[place])
        }
        try statement.run()
    }

    // MARK: - Clocks

    /// A table with the last commit timestamp that was assigned to its rows.
    private struct TimestampedTable {
        var table: SQLiteTable
        var timestamp: Int64
        /// Whether a row has a timestamp of the transaction, so that the clock must be stored.
        var isChanged = true
        /// Whether the current group was the first to change the table.
        var isFirstOfGroup = true
    }

    /// A commit timestamp that is proposed but not assigned yet.
    private struct NextTimestamp {
        var value: Int64
        /// Whether the timestamp begins another millisecond because a client counts the rows of the last one.
        var endsCount: Bool
    }

    private func nextTimestamp(_ table: SQLiteTable) throws -> NextTimestamp {
        let known = timestamped.first { $0.table.clock == table.clock }?.timestamp
        let last = try known ?? storedTimestamp(table)
        let now = now()
        let timestamp = max(last + Self.spacing, now)
        let isCounted = table.head.isCounted.load(ordering: .sequentiallyConsistent)
        guard isCounted, timestamp / 1000 == last / 1000, timestamp - now < Self.aheadMax else {
            return NextTimestamp(value: timestamp, endsCount: isCounted)
        }
        return NextTimestamp(value: (last / 1000 + 1) * 1000, endsCount: isCounted)
    }

    private func storedTimestamp(_ table: SQLiteTable) throws -> Int64 {
        let statement = try database.prepare(ServerSchema.readTimestamp)
        defer { statement.reset() }
        statement.bind(1, text: table.name)
        return try statement.step() ? statement.integer(0) : 0
    }

    /// Assigns the commit timestamp to the row that was just stored.
    private mutating func take(_ timestamp: NextTimestamp, _ table: SQLiteTable) {
        if timestamp.endsCount, !isDryRun {
            table.head.isCounted.store(false, ordering: .sequentiallyConsistent)
        }
        guard let index = timestamped.firstIndex(where: { $0.table.clock == table.clock }) else {
            timestamped.append(TimestampedTable(table: table, timestamp: timestamp.value))
            return
        }
        timestamped[index].timestamp = timestamp.value
        guard !timestamped[index].isChanged else { return }
        timestamped[index].table = table
        timestamped[index].isChanged = true
        timestamped[index].isFirstOfGroup = true
    }

    /// Performs the last step before the commit.
    ///
    /// It writes the clocks of the changed tables, and removes old entries of the ledger in proportion to the
    /// new ones.
    ///
    /// - Returns: The changed tables with their clocks.
    func finish() throws -> [TableTimestamp] {
        if !ledgerPuts.isEmpty {
            var bytes: [String: Int] = [:]
            for put in ledgerPuts { bytes[put.caller, default: 0] += put.bytes }
            try ledger.charge(bytes, count: ledgerPuts.count)
        }
        var timestamps: [TableTimestamp] = []
        for table in timestamped where table.isChanged {
            timestamps.append(TableTimestamp(table: table.table.clock, timestamp: table.timestamp))
        }
        if timestamps.count > 1 { timestamps.sort { $0.table < $1.table } }
        let statement = try database.prepare(ServerSchema.putTimestamp)
        for timestamp in timestamps {
            statement.bind(1, text: timestamp.table)
            statement.bind(2, integer: timestamp.timestamp)
            try statement.run()
        }
        return timestamps
    }

    /// Performs the first step after the commit, before any answer, because a read that begins after an answer
    /// must see its write.
    func advanceClocks() {
        for table in timestamped where table.isChanged {
            table.table.head.clock.advance(to: table.timestamp)
        }
    }
}

/// The error that rolls back a savepoint.
struct Undone<Outcome: Sendable>: Error {
    var outcome: Outcome
}
