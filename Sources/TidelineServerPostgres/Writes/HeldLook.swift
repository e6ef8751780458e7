// HeldLook: which tables, rows and clocks nobody has, and who has the others.

import TidelinePostgres
import TidelineServerCore

struct HeldLook {
    /// What nobody has; rows that are gone, too.
    private(set) var free: Set<HeldLock> = []
    /// The transactions that have locked things last, by their numbers; none where a clock is still to be made, or
    /// where somebody has the whole table.
    private(set) var holders: [HeldLock: String] = [:]

    /// How long it waits for somebody who has tables of the server's own, in milliseconds.
    private static let wait = 10

    /// Looks in a transaction of its own, and locks nothing that is not free.
    ///
    /// - Parameters:
    ///   - locks: What to look at.
    ///   - tables: The tables of the rows, and those that are looked at, by the names of their clocks.
    ///   - connection: Where there is no transaction.
    ///   - times: How long a statement may take.
    /// - Throws: ``PostgresError``
    init(
        at locks: Set<HeldLock>,
        of tables: [String: PostgresTable],
        _ connection: PostgresConnection,
        _ times: WriteTimes
    ) throws {
        var tables = tables
        // Who has a whole table has all that anybody waits for there.
        while let held = try look(at: locks, of: tables, connection, times) {
            tables[held] = nil
        }
    }

    /// Looks at what is of these tables, and at the clocks of owners; returns a table that somebody has.
    private mutating func look(
        at locks: Set<HeldLock>,
        of tables: [String: PostgresTable],
        _ connection: PostgresConnection,
        _ times: WriteTimes
    ) throws -> String? {
        var rows: [String: [String]] = [:]
        var clocks: [ClockKey] = []
        for lock in locks {
            switch lock {
            case .table(let name): rows[name, default: []] += []
            case .row(let key): rows[key.table, default: []].append(key.id)
            case .clock(let key): clocks.append(key)
            }
        }
        let whole = HeldLock.tables(of: locks).sorted().compactMap { tables[$0] }
        let tableClocks = whole.filter { !$0.hasOwnerClocks }.map(\.clock)
        let parts = rows.sorted { $0.key < $1.key }
            .compactMap { name, ids in tables[name].map { (table: $0, ids: ids.sorted()) } }
        var statements = [
            PostgresStatement("BEGIN"), WriteStatements.settings(times, lock: Self.wait),
        ]
        let tablesPlace = statements.count
        statements += parts.map { WriteStatements.lockSoon($0.table) }
        let rowsPlace = statements.count
        for part in parts {
            statements.append(WriteStatements.lock(part.ids, of: part.table, passingHeld: true))
            statements.append(WriteStatements.holders(of: part.ids, in: part.table))
        }
        clocks.sort()
        statements += [
            WriteStatements.findFreeClocks(tableClocks),
            WriteStatements.findClockHolders(tableClocks),
            NamedOwnerClocks.findFree(clocks), NamedOwnerClocks.findHolders(clocks),
        ]
        var results: ArraySlice<PostgresResult>
        do {
            // It changed nothing: nothing is to be flushed.
            results = try connection.pipeline(statements + [PostgresStatement("ROLLBACK")])[...]
        } catch let error as PostgresError where error.isLockTimeout {
            guard let place = error.place, place >= tablesPlace, place < rowsPlace else {
                throw error
            }
            try connection.execute("ROLLBACK")
            return parts[place - tablesPlace].table.clock
        }
        results = results[rowsPlace...]
        for part in parts {
            take(part.ids, part.table, locked: results.removeFirst(), found: results.removeFirst())
        }
        let (freeClocks, found) = (results.removeFirst(), results.removeFirst())
        free.formUnion((0..<freeClocks.count).map { .table(freeClocks.text($0, 0)) })
        free.formUnion(whole.filter(\.hasOwnerClocks).map { .table($0.clock) })
        for row in 0..<found.count { holders[.table(found.text(row, 0))] = found.text(row, 1) }
        takeClocks(free: results.removeFirst(), found: results.removeFirst())
        return nil
    }

    private mutating func takeClocks(free: PostgresResult, found: PostgresResult) {
        self.free.formUnion(NamedOwnerClocks.keys(free).map { .clock($0) })
        for row in 0..<found.count {
            let key = ClockKey(table: found.text(row, 0), owner: found.text(row, 1))
            holders[.clock(key)] = found.text(row, 2)
        }
    }

    private mutating func take(
        _ ids: [String],
        _ table: PostgresTable,
        locked: PostgresResult,
        found: PostgresResult
    ) {
        var gone = Set(ids)
        for row in 0..<found.count {
            let id = found.text(row, 0)
            gone.remove(id)
            holders[.row(RowKey(table: table.clock, id: id))] = found.text(row, 1)
        }
        gone.formUnion((0..<locked.count).map { locked.text($0, 0) })
        free.formUnion(gone.map { .row(RowKey(table: table.clock, id: $0)) })
    }
}
