// WriteRound: what a transaction does with rows and clocks of owners that others have.
//
//     normally           waits for each of them, for a moment, and fails when it waits for longer
//     passing others'    leaves out those that somebody else has: what needs them is missing

import TidelinePostgres
import TidelineServerCore

/// Somebody else had a row, or the clock of an owner, for longer than a transaction waits for that.
struct HeldTimeout: Error {}

/// Somebody else had a table, or its clock, for longer than a transaction waits for that.
struct HeldTable: Error {
    let clock: String
}

/// The statements of a transaction's beginning that may wait, by their places.
struct WaitingStatements {
    /// Those that lock a table, or its clock; by the name of that.
    var tables: [Int: String] = [:]
    /// Those that lock rows and clocks of owners.
    var others: Set<Int> = []

    /// What a statement failed by, counted from a place.
    func refusal(_ error: PostgresError, from start: Int) -> any Error {
        guard error.isOverTime, let place = error.place.map({ $0 + start }) else { return error }
        if let clock = tables[place] { return HeldTable(clock: clock) }
        return others.contains(place) ? HeldTimeout() : error
    }
}

/// Somebody else has a clock that nothing named, where it is passed over.
struct HeldClock: Error {}

extension PostgresError {
    /// Whether it waited for too long: for one lock, or for several that each came in time.
    var isOverTime: Bool { isLockTimeout || isCanceled }
}

extension WriteRound {
    /// How long it waits, in milliseconds, for somebody who makes a clock, where it passes others'.
    private static let makingTime = 50
    /// For how many of them.
    private static let makingWaitsMax = 10

    /// Makes the clocks that are not there, all but those that somebody else makes.
    func makeClocks(_ owners: NamedOwnerClocks, _ times: WriteTimes) throws {
        guard try !makes(owners.make, times) else { return }
        let unmade = try connection.run(owners.findUnmade)
        var waits = 0
        for row in 0..<unmade.count where waits < Self.makingWaitsMax {
            let key = ClockKey(table: unmade.text(row, 0), owner: unmade.text(row, 1))
            if try !makes(NamedOwnerClocks.make([key]), times) { waits += 1 }
        }
    }

    /// False where somebody else makes one of them.
    private func makes(_ make: PostgresStatement, _ times: WriteTimes) throws -> Bool {
        do {
            _ = try connection.pipeline([
                PostgresStatement("SAVEPOINT tideline_clocks"),
                WriteStatements.lockTimeout(Self.makingTime),
                make,
                WriteStatements.lockTimeout(times.lock),
                PostgresStatement("RELEASE tideline_clocks"),
            ])
            return true
        } catch let error as PostgresError where error.isLockTimeout {
            // The time that a lock may take is what it was before, too.
            try connection.execute("ROLLBACK TO tideline_clocks; RELEASE tideline_clocks")
            return false
        }
    }

    /// Takes what ``NamedOwnerClocks`` has locked.
    mutating func takeOwnerClocks(_ clocks: PostgresResult) {
        for row in 0..<clocks.count {
            let key = ClockKey(table: clocks.text(row, 0), owner: clocks.text(row, 1))
            state.clocks[key] = WriteState.Clock(
                stamp: clocks.integer(row, 2),
                counted: clocks.integer(row, 3)
            )
        }
    }

    // MARK: - Rows that others have, and rows that come late

    /// Marks the rows that are there and were not locked: somebody has them, or they came a moment ago.
    mutating func markHeld(_ ids: [String], _ table: PostgresTable, locked: PostgresResult) {
        let locked = Set((0..<locked.count).map { locked.text($0, 0) })
        for id in ids where !locked.contains(id) {
            let key = RowKey(table: table.clock, id: id)
            if state.rows[key]?.stored != nil { state.heldRows.insert(key) }
        }
    }

    /// Marks the rows that came when the locks on rows were taken, of owners whose clocks others may have.
    ///
    /// With a clock the others wait for it: what is read behind it stays as it is.
    mutating func markLate(_ ids: [String], _ table: PostgresTable, locked: PostgresResult) {
        let locked = Set((0..<locked.count).map { locked.text($0, 0) })
        for id in ids where !locked.contains(id) {
            let key = RowKey(table: table.clock, id: id)
            guard let image = state.rows[key]?.stored else { continue }
            if state.clocks[table.clockKey(of: image)] == nil { state.rows[key]?.isLate = true }
        }
    }

    /// Begins anew where somebody else may change the row meanwhile.
    ///
    /// To lock it here would be out of order. A transaction that begins anew finds it.
    func refuseLate(_ id: String, _ table: PostgresTable) throws {
        guard state.rows[RowKey(table: table.clock, id: id)]?.isLate == true else { return }
        throw PostgresError(state: "40001", "a row came behind the locks on rows")
    }

    /// Locks a clock that nothing of the transaction named.
    ///
    /// - Throws: ``OutdatedTable`` when others have changed the table before; ``HeldTimeout`` when somebody
    ///   else had the clock for too long; ``HeldClock`` when somebody has it, and it is passed over.
    mutating func lockClock(_ key: ClockKey, of table: PostgresTable) throws {
        guard key.owner != nil else { return }
        let owners = NamedOwnerClocks([key], passing: passed)
        if passed != nil { try makeClocks(owners, times) }
        let waits = passed == nil
        let heldTimes = WriteStatements.timeouts(
            lock: times.heldLock,
            statement: times.heldStatement
        )
        let fullTimes = WriteStatements.timeouts(lock: times.lock, statement: times.statement)
        let begin = waits ? [heldTimes, owners.make] : []
        let end = waits ? [fullTimes] : []
        do {
            let results = try connection.pipeline(begin + [owners.lock] + end)
            takeOwnerClocks(results[begin.count])
        } catch let error as PostgresError where waits && error.isOverTime {
            throw HeldTimeout()
        }
        takeForms(try connection.run(WriteStatements.forms([table])))
        guard state.clocks[key] != nil else { throw HeldClock() }
        // What a write of this transaction has made of the table is no other server's doing.
        if state.formsBefore[table.clock] == nil, let outdated = try outdated(table) {
            throw outdated
        }
    }

    // MARK: - What somebody else has

    /// The rows and the clocks of owners that a batch needs and that somebody else has.
    func missing(_ job: PostgresJob) -> Set<HeldLock> {
        var locks: Set<HeldLock> = []
        for write in job.groups.lazy.joined() where !write.table.table.needsGrowth {
            let place = RowKey(table: write.table.clock, id: write.operation.id)
            let row = state.rows[place]?.stored
            // Who does not see a row is not to learn from a wait that it is there; nothing is written.
            if let row, !row.isVisible(in: write.operation.view, of: write.table.table) { continue }
            if state.heldRows.contains(place) { locks.insert(.row(place)) }
            guard write.table.hasOwnerClocks else { continue }
            let key =
                row.map { write.table.clockKey(of: $0) }
                ?? write.table.clockKey(of: write.operation)
            // Who names no owner, makes no row and finds none has nothing to stamp.
            if state.clocks[key] == nil, row != nil || write.makesRow(of: key) {
                locks.insert(.clock(key))
            }
        }
        return locks
    }
}
