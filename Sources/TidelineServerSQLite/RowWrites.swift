// RowWrites: the writes of one group: decides each, carries it out, keeps the tables' clocks.
//
// A stamp is a table's time of a write in microseconds. Stamps strictly increase in commit order,
// also when the clock steps back or the server restarts: the last one is kept beside the table
// and written in the same transaction.

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

    /// What system members and the names of absent columns may add to a row's body.
    private static let namesBytesMax = 64 << 10

    let database: Database
    let now: @Sendable () -> Int64
    private let rowBytesMax: Int
    private let bases: MergeBases
    private var stamps: [String: Int64] = [:]
    private var moved: Set<String> = []
    private var clocks: [String: KnownClock] = [:]

    init(_ database: Database, limits: ServerLimits, now: @escaping @Sendable () -> Int64) {
        self.database = database
        rowBytesMax = limits.rowBytes
        bases = MergeBases(database: database, versionsMax: limits.mergeBases)
        self.now = now
    }

    /// Writes the clocks of the tables that were written to; the last step before the commit.
    func storeStamps() throws {
        for name in moved.sorted() {
            try database.prepare(ServerSchema.putStamp).run([
                .text(name), .integer(stamps[name] ?? 0),
            ])
        }
    }

    /// The first step after the commit, before anybody is answered: a read that begins after an
    /// answer has to see its write.
    func advanceClocks() {
        for (name, clock) in clocks { clock.advance(to: stamps[name] ?? 0) }
    }

    private mutating func nextStamp(_ table: SQLiteTable) throws -> Int64 {
        let last =
            try stamps[table.clock]
            ?? database.integer(ServerSchema.readStamp, [.text(table.name)]) ?? 0
        let now = now()
        var stamp = max(last + Self.spacing, now)
        if table.head.isCounted.exchange(false, ordering: .sequentiallyConsistent),
            stamp / 1000 == last / 1000, stamp - now < Self.aheadMax
        {
            stamp = (last / 1000 + 1) * 1000
        }
        stamps[table.clock] = stamp
        moved.insert(table.clock)
        clocks[table.clock] = table.head.clock
        return stamp
    }

    /// Decides and carries out one write; undone alone when it throws.
    mutating func apply(_ operation: WriteOperation, to table: SQLiteTable) throws -> WriteOutcome {
        table.table.isWanting
            ? try grow(for: operation, in: table) : try settle(operation, in: table)
    }

    /// The same for a table that the database has.
    mutating func settle(_ operation: WriteOperation, in table: SQLiteTable) throws -> WriteOutcome
    {
        let stored = try state(operation, table)
        let decision = operation.decide(stored: stored)
        switch decision {
        case .insert:
            let row = try insert(operation, table)
            try checkView(operation, table)
            return WriteOutcome(decision, row: row)
        case .update(let deleted):
            guard let operation = try resolved(operation, table) else {
                return WriteOutcome(
                    .testFailed,
                    row: try Self.row(operation.id, table, database)
                )
            }
            if let stored { table.head.ties.rowLeaves(stored.updatedAt) }
            let row = try update(operation, table, deleted)
            try checkView(operation, table)
            return WriteOutcome(decision, row: row)
        case .remove:
            if let stored { table.head.ties.rowLeaves(stored.updatedAt) }
            let stamp = try nextStamp(table)
            try table.log.keep(operation.id, stamp: stamp, isDeleted: true, database)
            let statement = try database.prepare(table.delete)
            statement.bind(1, text: operation.id)
            try statement.run()
            if table.keepsBases { try MergeBases.drop(operation.id, of: table.name, database) }
        case .merge(let version):
            return try merge(operation, table, since: version)
        case .exists, .preconditionFailed, .versionMismatch, .testFailed, .keepStored:
            return WriteOutcome(decision, row: try Self.row(operation.id, table, database))
        case .taken, .missing, .gone, .systemChange, .outdated:
            break
        }
        return WriteOutcome(decision)
    }

    /// Joins a write with what changed since the version that it began at; refuses it where both
    /// changed a column.
    private mutating func merge(
        _ operation: WriteOperation,
        _ table: SQLiteTable,
        since version: Int64
    ) throws -> WriteOutcome {
        var changes: [SQLValue?]?
        if let base = try bases.values(operation.id, version, of: table),
            let theirs = try storedValues(operation.id, table)
        {
            changes = ThreeWayMerge.changes(
                mine: operation.fullValues(table.table),
                base: base,
                theirs: theirs,
                columns: table.table.columns
            )
        }
        if let changes, changes.allSatisfy({ $0 == nil }) {
            return WriteOutcome(.keepStored, row: try Self.row(operation.id, table, database))
        }
        return try settle(operation.merged(changes), in: table)
    }

    /// The columns of a row, then its system columns.
    private func storedValues(_ id: String, _ table: SQLiteTable) throws -> [SQLValue]? {
        let statement = try database.prepare(table.selectRow)
        defer { statement.reset() }
        statement.bind(1, text: id)
        guard try statement.step() else { return nil }
        var stored = Array(repeating: SQLValue.null, count: table.places.count)
        for (cell, place) in table.places.enumerated() {
            stored[place] = statement.value(Int32(cell))
        }
        return stored
    }

    /// The write with the values that its patch makes of the stored row; nil when a test fails.
    private func resolved(
        _ operation: WriteOperation,
        _ table: SQLiteTable
    ) throws -> WriteOperation? {
        guard let patch = operation.patch else { return operation }
        guard let stored = try storedValues(operation.id, table),
            let values = try patch.apply(to: stored)
        else { return nil }
        var result = operation
        result.values = values
        // A patch may read the owner, and cannot change it.
        if let owner = table.table.ownerPlace { result.values[owner] = nil }
        return result
    }

    private func state(_ operation: WriteOperation, _ table: SQLiteTable) throws -> RowState? {
        if let view = operation.view {
            return try RowView(table, view).state(operation.id, database)
        }
        let statement = try database.prepare(table.selectState)
        defer { statement.reset() }
        statement.bind(1, text: operation.id)
        guard try statement.step() else { return nil }
        return RowState(
            version: statement.integer(0),
            updatedAt: statement.integer(1),
            isDeleted: statement.integer(2) != 0
        )
    }

    /// A write must not put a row where its writer does not see it.
    private func checkView(_ operation: WriteOperation, _ table: SQLiteTable) throws {
        guard operation.staysInView, operation.view != nil else { return }
        guard try state(operation, table)?.isVisible == true else { throw ServerError.outsideView }
    }

    static func row(_ id: String, _ table: SQLiteTable, _ database: Database) throws -> StoredRow? {
        let statement = try database.prepare(table.selectRow)
        defer { statement.reset() }
        statement.bind(1, text: id)
        return try statement.step() ? table.row(statement) : nil
    }

    private mutating func insert(
        _ operation: WriteOperation,
        _ table: SQLiteTable
    ) throws -> StoredRow {
        let stamp = try nextStamp(table)
        let statement = try database.prepare(table.insert)
        statement.bind(1, text: operation.id)
        var index: Int32 = 2
        for (place, column) in table.table.columns.enumerated() {
            statement.bind(index, operation.values[place] ?? column.storedDefault)
            index += 1
        }
        statement.bind(index, integer: stamp)
        statement.bind(index + 1, integer: stamp)
        statement.bind(index + 2, integer: stamp)
        statement.bind(index + 3, integer: 0)
        try statement.run()
        return try written(operation.id, table)
    }

    private mutating func update(
        _ operation: WriteOperation,
        _ table: SQLiteTable,
        _ deleted: Bool
    ) throws -> StoredRow {
        if table.keepsBases { try bases.keep(operation.id, of: table) }
        let stamp = try nextStamp(table)
        let columns = table.table.columns
        let changed = columns.indices.filter {
            operation.fillsDefaults || $0 < operation.values.count && operation.values[$0] != nil
        }
        if table.log.isNeeded(forChangeOf: changed) {
            try table.log.keep(operation.id, stamp: stamp, isDeleted: deleted, database)
        }
        let statement = try database.prepare(table.update(changed))
        statement.bind(1, text: operation.id)
        statement.bind(2, integer: stamp)
        statement.bind(3, integer: stamp)
        statement.bind(4, integer: deleted ? 1 : 0)
        for (offset, place) in changed.enumerated() {
            let value = operation.values[place] ?? columns[place].storedDefault
            statement.bind(Int32(offset + 5), value)
        }
        try statement.run()
        return try written(operation.id, table)
    }

    /// The row after its write.
    ///
    /// Read back and not by RETURNING, for which SQLite makes a table of its own: 3 microseconds.
    private func written(_ id: String, _ table: SQLiteTable) throws -> StoredRow {
        guard let row = try Self.row(id, table, database) else {
            throw SQLiteError.unexpected("a write left no row")
        }
        // Many small changes must not make a row that one body could not.
        guard row.json.count <= rowBytesMax + Self.namesBytesMax else {
            throw ServerError.rowTooLarge(rowBytesMax)
        }
        return row
    }
}
