// LockProbe: probes locks.

import TidelinePostgres
import TidelineServerCore

/// A probe that finds the free locks, and the transactions that hold the others.
struct LockProbe {
    /// The free locks, including those of rows that no longer exist.
    private(set) var free: Set<ContendedLock> = []
    /// The id of the transaction that last acquired each lock; absent if another transaction has locked the
    /// whole table.
    private(set) var holders: [ContendedLock: String] = [:]

    /// The time that a probe waits for the lock of a whole table, in milliseconds.
    private static let wait = 10

    /// Probes the locks in a transaction that is rolled back.
    ///
    /// - Parameters:
    ///   - locks: The locks of tables and rows.
    ///   - tables: The tables of the locks, by clock name.
    ///   - connection: A connection without a transaction.
    ///   - times: The time limits of statements.
    /// - Throws: ``PostgresError``
    init(
        at locks: Set<ContendedLock>,
        of tables: [String: PostgresTable],
        _ connection: PostgresConnection,
        _ times: WriteTimes
    ) throws {
        var tables = tables
        // If another transaction has locked a whole table, all locks of the table count as held.
        while let locked = try probe(locks, of: tables, connection, times) {
            tables[locked] = nil
        }
    }

    /// Probes the locks of these tables; returns the clock of a table that another transaction has locked.
    private mutating func probe(
        _ locks: Set<ContendedLock>,
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
        let clocks = ContendedLock.tables(of: locks).sorted().compactMap { tables[$0]?.clock }
        let parts = rows.sorted { $0.key < $1.key }
            .compactMap { name, ids in tables[name].map { (table: $0, ids: ids.sorted()) } }
        var statements = [
            PostgresStatement("BEGIN"), WriteStatements.settings(times, lock: Self.wait),
        ]
        let tablesIndex = statements.count
        statements += parts.map { WriteStatements.lockSoon($0.table) }
        let rowsIndex = statements.count
        for part in parts {
            statements.append(WriteStatements.lock(part.ids, of: part.table, skippingLocked: true))
            statements.append(WriteStatements.holders(of: part.ids, in: part.table))
        }
        statements += [
            WriteStatements.findFreeClocks(clocks), WriteStatements.findClockHolders(clocks),
        ]
        var results: ArraySlice<PostgresResult>
        do {
            // Nothing has changed, so a rollback saves the flush.
            results = try connection.pipeline(statements + [PostgresStatement("ROLLBACK")])[...]
        } catch let error as PostgresError where error.isLockTimeout {
            guard let place = error.place, place >= tablesIndex, place < rowsIndex else {
                throw error
            }
            try connection.execute("ROLLBACK")
            return parts[place - tablesIndex].table.clock
        }
        results = results[rowsIndex...]
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
