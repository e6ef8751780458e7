// HeldLook: which tables, rows and clocks nobody has, and who has the others.

import TidelinePostgres
import TidelineServerCore

struct HeldLook {
    /// What nobody has; rows that are gone, too.
    private(set) var free: Set<HeldLock> = []
    /// The transactions that have locked things last, by their numbers; none if another transaction holds the whole
    /// table.
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

    /// Looks at what is of these tables; returns a table that another transaction holds.
    private mutating func look(
        at locks: Set<HeldLock>,
        of tables: [String: PostgresTable],
        _ connection: PostgresConnection,
        _ times: WriteTimes
    ) throws -> String? {
        var rows: [String: [String]] = [:]
        for lock in locks {
            switch lock {
            case .table(let name): rows[name, default: []] += []
            case .row(let key): rows[key.table, default: []].append(key.id)
            }
        }
        let clocks = HeldLock.tables(of: locks).sorted().compactMap { tables[$0]?.clock }
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
        statements += [
            WriteStatements.findFreeClocks(clocks), WriteStatements.findClockHolders(clocks),
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
        for row in 0..<found.count { holders[.table(found.text(row, 0))] = found.text(row, 1) }
        return nil
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
