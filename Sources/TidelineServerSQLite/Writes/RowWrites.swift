// RowWrites: the writes of one transaction: reads rows, has them planned, stores their images, keeps
// the tables' clocks.
//
// A commit timestamp is a table's time of a write in microseconds. Timestamps strictly increase in commit
// order, also when the wall clock steps back or the server restarts: the last one is stored with the
// table's definition and written in the same transaction.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct RowWrites {
    /// The least distance of two stamps of a table.
    ///
    /// Classic clients walk the rows of one millisecond by `$skip`, and lose one when more than a
    /// page of 50 share it: 25 microseconds leave room for 40.
    static let spacing: Int64 = 25

    /// How far stamps may run ahead of the clock to set a counted millisecond apart.
    private static let aheadMax: Int64 = 1_000_000

    let database: Database
    let now: @Sendable () -> Int64
    let limits: ServerLimits
    /// Whether a table or column was made.
    var hasGrown = false
    private let bases: MergeBases
    private let ledger: Ledger
    /// The entries that were put into the ledger, and their bytes by caller.
    private var ledgerPuts = (count: 0, bytes: [String: Int]())
    private var stamps: [String: Int64] = [:]
    private var moved: Set<String> = []
    /// The tables that the group under way was the first to write to.
    private var movedByGroup: [SQLiteTable] = []
    private var clocks: [String: KnownClock] = [:]
    /// The columns that the current group has added: later writes of the group find them here.
    private var grown: Table?
    /// The budget of the answers of the current group.
    private var budget = AnswerBudget()
    /// The bytes of the rows that were read and built, of rejected writes, too.
    private(set) var bytes = 0

    /// Rows of more bytes make a write a large one.
    static let smallBytes = 64 << 10

    init(_ database: Database, limits: ServerLimits, now: @escaping @Sendable () -> Int64) {
        self.database = database
        self.limits = limits
        ledger = Ledger(database: database, limits: limits)
        bases = MergeBases(database: database, versionsMax: limits.mergeBases)
        self.now = now
    }

    /// Does the writes of a group: all of them, or none.
    mutating func apply(
        _ group: [BatchJob.Write],
        within budget: AnswerBudget
    ) throws -> GroupOutcome {
        movedByGroup.removeAll(keepingCapacity: true)
        let putsBefore = ledgerPuts
        do {
            guard group.count > 1 else { return try applyEach(group, within: budget) }
            return try database.savepoint {
                let outcome = try applyEach(group, within: budget)
                guard outcome.isDone else { throw Undone(outcome: outcome) }
                return outcome
            }
        } catch {
            forgetGroup(putsBefore)
            guard let undone = error as? Undone<GroupOutcome> else { throw error }
            return undone.outcome
        }
    }

    /// Forgets the changes of a group that was undone, so that they are not reported.
    ///
    /// Its timestamps are not assigned again in this transaction.
    private mutating func forgetGroup(_ putsBefore: (count: Int, bytes: [String: Int])) {
        ledgerPuts = putsBefore
        for table in movedByGroup {
            moved.remove(table.clock)
            clocks[table.clock] = nil
            // The mark may be gone, but not the stamp that it was for.
            table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// Ends at the first rejection.
    private mutating func applyEach(
        _ group: [BatchJob.Write],
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

    /// Creates the missing table or columns, and does the write.
    private mutating func growAndPerform(_ write: BatchJob.Write) throws -> WriteOutcome {
        let table = write.table.table
        if !table.needsGrowth || table === grown {
            return try perform(write.operation, in: write.table)
        }
        let outcome = try grow(for: write.operation, in: write.table)
        if outcome.grown != nil { grown = table }
        return outcome
    }

    /// Does a write that may come again, unless it was done.
    private mutating func once(
        _ key: RepeatKey,
        _ write: BatchJob.Write
    ) throws -> WriteOutcome {
        let now = now()
        switch try ledger.lookUp(key, now: now) {
        case .known(let outcome):
            count(outcome.row?.json.count ?? 0, write.table)
            return budget.hasRoom(for: outcome) ? outcome : .refused(.noRoomInBatch)
        case .knownOfRow(let kept, let state):
            let outcome = try replayed(kept, state, write)
            count(outcome.row?.json.count ?? 0, write.table)
            return budget.hasRoom(for: outcome) ? outcome : .refused(.noRoomInBatch)
        case .other: return .refused(.anotherRequest)
        case .forgotten: return .refused(.forgottenRequest)
        case .ahead: return .refused(.requestFromTheFuture)
        case .new where write.isRepeatOnly: return WriteOutcome(.outdated)
        case .new: break
        }
        let outcome = try growAndPerform(write)
        if outcome.decision.isSuccess {
            let (caller, bytes) = try ledger.put(key, write.operation, outcome, now: now)
            ledgerPuts.bytes[caller, default: 0] += bytes
            ledgerPuts.count += 1
        }
        return outcome
    }

    /// The outcome of a write that is replayed, with a row that the ledger did not keep.
    private func replayed(
        _ outcome: WriteOutcome,
        _ state: RowState,
        _ write: BatchJob.Write
    ) throws -> WriteOutcome {
        let table = write.table
        var row: StoredRow?
        if !table.table.needsGrowth, write.operation.mayRead, let id = outcome.repeatedID,
            let image = try Self.image(id, table, database),
            image.isVisible(in: write.operation.view, of: table.table)
        {
            row = image.stored(in: table.table)
        }
        return LedgerRules.outcome(outcome, state, row: row)
    }

    /// Does one write, in a table that the database has.
    mutating func perform(
        _ operation: WriteOperation,
        in table: SQLiteTable
    ) throws -> WriteOutcome {
        let stamp = try nextStamp(table)
        let planner = WritePlanner(table.table, limits: limits)
        // The id of a new row is seldom taken, and where it is the insert says so.
        if operation.kind == .insert, operation.basis == nil,
            case .plan(let plan) = planner.plan(operation, on: nil, stamp: stamp.value)
        {
            count(plan.outcome.row?.json.count ?? 0, table)
            guard budget.hasRoom(for: plan.outcome) else { return .refused(.noRoomInBatch) }
            if try execute(plan.change, stamp, table) {
                try audit(plan.change, operation, stamp, table)
                return plan.outcome
            }
        }
        let stored = try Self.image(operation.id, table, database)
        count(stored?.bytes ?? 0, table)
        var step = planner.plan(operation, on: stored, stamp: stamp.value)
        if case .readBase(let version) = step {
            let base = try bases.values(operation.id, version, of: table)
            step = planner.plan(operation, on: stored, stamp: stamp.value, base: .read(base))
        }
        guard case .plan(let plan) = step else {
            throw SQLiteError.unexpected("a write could not be planned")
        }
        count(plan.outcome.row?.json.count ?? 0, table)
        guard budget.hasRoom(for: plan.outcome) else { return .refused(.noRoomInBatch) }
        guard try execute(plan.change, stamp, table) else {
            throw SQLiteError.unexpected("a planned write could not be done")
        }
        try audit(plan.change, operation, stamp, table)
        return plan.outcome
    }

    /// Writes the audit entry, for tables that are audited.
    private func audit(
        _ change: WritePlan.Change,
        _ operation: WriteOperation,
        _ stamp: NextStamp,
        _ table: SQLiteTable
    ) throws {
        let entry = AuditEntry(change, by: operation, in: table.table, stamp: stamp.value)
        if let entry { try AuditLog.put(entry, database) }
    }

    private mutating func count(_ bytes: Int, _ table: SQLiteTable) {
        self.bytes += bytes
        guard bytes > Self.smallBytes else { return }
        table.head.hasLargeRows.store(true, ordering: .relaxed)
    }

    // MARK: - Rows

    /// Returns the size of the stored row in bytes; 0 if it does not exist.
    static func weight(_ id: String, _ table: SQLiteTable, _ database: Database) throws -> Int {
        try stored(id, table, database) { table.bytes($0) } ?? 0
    }

    /// The row.
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

    /// Stores the planned row; returns false for the insert of an id that is taken.
    private mutating func execute(
        _ change: WritePlan.Change,
        _ stamp: NextStamp,
        _ table: SQLiteTable
    ) throws -> Bool {
        switch change {
        case .nothing: return true
        case .insert(let image):
            guard try insert(image, table) else { return false }
            take(stamp, table)
        case .update(let image, let columns, let old):
            table.head.ties.rowLeaves(old.updatedAt)
            if table.keepsBases {
                if image.isDeleted, table.table.definition.tombstones == .bare {
                    try MergeBases.drop(old.id, of: table.name, database)
                } else {
                    try bases.keep(old, of: table)
                }
            }
            if table.log.isNeeded(for: old, image) {
                try table.log.keep(
                    old.id,
                    stamp: stamp.value,
                    isDeleted: image.isDeleted,
                    database
                )
            }
            try update(image, columns, table)
            take(stamp, table)
        case .remove(let old):
            table.head.ties.rowLeaves(old.updatedAt)
            try table.log.keep(old.id, stamp: stamp.value, isDeleted: true, database)
            let statement = try database.prepare(table.delete)
            statement.bind(1, text: old.id)
            try statement.run()
            take(stamp, table)
            if table.keepsBases { try MergeBases.drop(old.id, of: table.name, database) }
        }
        return true
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

    /// A commit timestamp that is not assigned yet.
    private struct NextStamp {
        var value: Int64
        /// Whether it begins another millisecond because a client counts the rows of the last.
        var endsCount: Bool
    }

    private func nextStamp(_ table: SQLiteTable) throws -> NextStamp {
        let last =
            try stamps[table.clock]
            ?? database.integer(ServerSchema.readStamp, [.text(table.name)]) ?? 0
        let now = now()
        let stamp = max(last + Self.spacing, now)
        let isCounted = table.head.isCounted.load(ordering: .sequentiallyConsistent)
        guard isCounted, stamp / 1000 == last / 1000, stamp - now < Self.aheadMax else {
            return NextStamp(value: stamp, endsCount: isCounted)
        }
        return NextStamp(value: (last / 1000 + 1) * 1000, endsCount: isCounted)
    }

    /// The row that was just stored has it.
    private mutating func take(_ stamp: NextStamp, _ table: SQLiteTable) {
        if stamp.endsCount { table.head.isCounted.store(false, ordering: .sequentiallyConsistent) }
        stamps[table.clock] = stamp.value
        guard moved.insert(table.clock).inserted else { return }
        movedByGroup.append(table)
        clocks[table.clock] = table.head.clock
    }

    /// The last step before the commit: writes the clocks of the tables that were written to, and
    /// drops old entries of the ledger as new ones are added.
    ///
    /// - Returns: Those tables, with their clocks.
    func finish() throws -> [TableStamp] {
        if ledgerPuts.count > 0 {
            try ledger.charge(ledgerPuts.bytes, count: ledgerPuts.count)
        }
        return try moved.sorted().map { name in
            let stamp = stamps[name] ?? 0
            try database.prepare(ServerSchema.putStamp).run([.text(name), .integer(stamp)])
            return TableStamp(table: name, stamp: stamp)
        }
    }

    /// The first step after the commit, before any answer: a read that begins after an answer has to see
    /// its write.
    func advanceClocks() {
        for (name, clock) in clocks { clock.advance(to: stamps[name] ?? 0) }
    }
}

/// Ends a savepoint whose work is not to stay.
struct Undone<Outcome: Sendable>: Error {
    var outcome: Outcome
}
