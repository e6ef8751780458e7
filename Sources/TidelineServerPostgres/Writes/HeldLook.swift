// HeldLook: which rows and clocks of owners nobody has, and who has the others.

import TidelinePostgres
import TidelineServerCore

struct HeldLook {
    /// What nobody has; rows that are gone, too.
    private(set) var free: Set<HeldLock> = []
    /// The transactions that have locked things last, by their numbers; none where a clock is still to be made.
    private(set) var holders: [HeldLock: String] = [:]

    /// How long it waits for somebody who has a whole table, in milliseconds.
    private static let wait = 10

    /// Looks in a transaction of its own, and locks nothing that is not free.
    ///
    /// - Parameters:
    ///   - locks: What to look at.
    ///   - tables: The tables of the rows, by the names of their clocks.
    ///   - connection: Where there is no transaction.
    ///   - times: How long a statement may take.
    /// - Throws: ``PostgresError``, also when somebody has a whole table.
    init(
        at locks: Set<HeldLock>,
        of tables: [String: PostgresTable],
        _ connection: PostgresConnection,
        _ times: WriteTimes
    ) throws {
        var rows: [String: [String]] = [:]
        var clocks: [ClockKey] = []
        for lock in locks {
            switch lock {
            case .row(let key): rows[key.table, default: []].append(key.id)
            case .clock(let key): clocks.append(key)
            }
        }
        let parts = rows.sorted { $0.key < $1.key }
            .compactMap { name, ids in tables[name].map { (table: $0, ids: ids.sorted()) } }
        var statements = [
            PostgresStatement("BEGIN"), WriteStatements.settings(times, lock: Self.wait),
        ]
        for part in parts {
            statements.append(WriteStatements.lock(part.ids, of: part.table, passingHeld: true))
            statements.append(WriteStatements.holders(of: part.ids, in: part.table))
        }
        clocks.sort()
        statements += [NamedOwnerClocks.findFree(clocks), NamedOwnerClocks.findHolders(clocks)]
        // It changed nothing: nothing is to be flushed.
        var results = try connection.pipeline(statements + [PostgresStatement("ROLLBACK")])[2...]
        for part in parts {
            take(part.ids, part.table, locked: results.removeFirst(), found: results.removeFirst())
        }
        free.formUnion(NamedOwnerClocks.keys(results.removeFirst()).map { .clock($0) })
        let found = results.removeFirst()
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
