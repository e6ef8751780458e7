// PostgresWriteTransaction: the reads of a transaction: all requested rows at its beginning, single rows later.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresWriteTransaction {
    mutating func takeClocks(_ result: PostgresResult) {
        for row in 0..<result.count {
            state.clocks[result.text(row, 0)] = WriteState.Clock(
                timestamp: result.integer(row, 1),
                counted: result.integer(row, 2)
            )
        }
    }

    /// Records the schema versions of the tables in a result.
    mutating func takeForms(_ result: PostgresResult) {
        for row in 0..<result.count {
            let name = result.text(row, 0)
            state.forms[name] = result.integer(row, 1)
            if result.boolean(row, 2) { state.hasExternalEffects = true }
        }
    }

    mutating func takeLedger(_ result: PostgresResult, _ names: Set<LedgerKey>) {
        for name in names { state.ledger[name] = .some(nil) }
        for row in 0..<result.count {
            state.ledger[LedgerKey(result, row)] = LedgerEntry(result, row)
        }
    }

    mutating func take(_ result: PostgresResult, _ ids: [String], _ table: PostgresTable) throws {
        try table.checkTypes(result)
        for id in ids { state.rows[RowKey(table: table.clock, id: id)] = WriteState.Cell() }
        for row in 0..<result.count {
            let image = table.image(result, row)
            let key = RowKey(table: table.clock, id: image.id)
            state.rows[key] = WriteState.Cell(stored: image, planned: image)
        }
    }

    /// Returns an error if a batch was built for a schema version that no longer matches; otherwise nil.
    func outdated(_ batch: PostgresBatch) throws -> OutdatedTable? {
        for table in batch.allTables {
            if let outdated = try outdated(table) { return outdated }
        }
        return nil
    }

    func outdated(_ table: PostgresTable) throws -> OutdatedTable? {
        guard !table.table.needsGrowth, let own = table.table.definition.form,
            let found = state.forms[table.clock], found != own,
            let stored = try PostgresSchemaChange.stored(table.clock, connection)
        else { return nil }
        return OutdatedTable(stored)
    }

    // MARK: - Single rows

    /// Returns the row after the planned writes.
    mutating func image(_ id: String, _ table: PostgresTable) throws -> RowImage? {
        let key = RowKey(table: table.clock, id: id)
        if let known = state.rows[key] { return known.planned }
        let ids = [id]
        _ = try connection.run(WriteStatements.lock(ids, of: table))
        try take(try connection.run(WriteStatements.read(ids, of: table)), ids, table)
        return state.rows[key]?.planned
    }

    /// Returns the values by column that the row had in this version; nil for unknown values.
    func base(
        _ id: String,
        _ version: Int64,
        of table: PostgresTable
    ) throws -> [SQLValue?]? {
        let planned = state.bases.last { base in
            base.table.clock == table.clock && base.image.id == id
                && base.image.version == version
        }
        if let planned {
            return try? table.table.members(of: planned.image.stored(in: planned.table.table).json)
        }
        let result = try connection.run(
            """
            SELECT "row" FROM tideline.bases WHERE "table" = $1 AND "id" = $2 AND "version" = $3
            """,
            [.text(table.clock), .text(id), .integer(version)]
        )
        guard result.count > 0 else { return nil }
        return try? table.table.members(of: Array(result.bytes(0, 0)))
    }
}

extension PostgresWriteTransaction {
    /// Returns the write with the database's defaults for the absent columns.
    ///
    /// The database evaluates them, because they may use a sequence or the time. An error rejects only this write.
    func withDefaults(
        _ operation: WriteOperation,
        on stored: RowImage?,
        in table: PostgresTable
    ) throws -> WriteOperation {
        let expressions = table.table.definition.databaseDefaults
        let isWritten = (stored == nil) == (operation.kind == .insert)
        guard !expressions.isEmpty, isWritten else { return operation }
        let resets = operation.patch?.resets ?? []
        let places = table.table.columns.indices.filter { place in
            guard expressions[table.table.columns[place].name] != nil else { return false }
            return operation.fillsDefaults
                ? operation.values[place] == nil
                : resets.contains(place) && operation.databaseDefaults[place] == nil
        }
        guard !places.isEmpty else { return operation }
        let found = try connection.run(table.databaseDefaults(of: places))
        var operation = operation
        for (place, value) in table.databaseDefaults(found, of: places) {
            if operation.fillsDefaults {
                operation.values[place] = value
            } else {
                operation.databaseDefaults[place] = value
            }
        }
        return operation
    }
}

extension PostgresWriteTransaction {
    /// Records the existing rows that could not be locked, because another transaction has locked or just
    /// inserted them.
    mutating func noteLocked(_ ids: [String], _ table: PostgresTable, locked: PostgresResult) {
        let locked = Set((0..<locked.count).map { locked.text($0, 0) })
        for id in ids where !locked.contains(id) {
            let key = RowKey(table: table.clock, id: id)
            if state.rows[key]?.stored != nil { state.lockedRows.insert(key) }
        }
    }

    /// Returns the locks of rows that a batch needs and that other transactions hold.
    func missing(_ batch: PostgresBatch) -> Set<ContendedLock> {
        var locks = missingReferences(batch)
        for (group, tables) in zip(batch.batch.groups, batch.tables) {
            for (write, table) in zip(group.writes, tables) where !table.table.needsGrowth {
                let key = RowKey(table: table.clock, id: write.operation.id)
                let row = state.rows[key]?.stored
                // A caller who may not see a row must not learn from a wait that it exists; nothing is written to it.
                if let row, !row.isVisible(in: write.operation.view, of: table.table) { continue }
                if state.lockedRows.contains(key) { locks.insert(.row(key)) }
            }
        }
        return locks
    }
}
