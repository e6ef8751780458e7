// RowChange: performs schema steps.
//
// A row counts as changed if a device that has it would show values other than the server's. It moves to the end of the
// order of `updatedAt`, so that devices pull it again.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The schema steps of one table, which give the changed rows a new version.
struct RowChange {
    private let database: Database
    private let table: String
    private let report: (_ part: String, _ rows: Int) -> Void

    /// `report` is called with each column and the number of its converted values.
    init(_ database: Database, table: String, report: @escaping (String, Int) -> Void) {
        self.database = database
        self.table = table
        self.report = report
    }

    func carryOut(_ step: SchemaStep.Kind) throws {
        switch step {
        case .createTable, .adoptTable, .removeOwnerClocks, .keepTable, .restoreTable, .forgetTable,
            .restoreColumn,
            .restoreTriggers:
            break
        case .addColumn(let column, let rows):
            try database.execute(ServerSchema.add(column, to: table))
            if rows > 0 { try flag("1") }
        case .renameColumn(let old, let column):
            try database.execute(ServerSchema.rename(old, to: column.name, in: table))
        case .dropColumn(let column, _):
            try dropColumn(column.name)
        case .convert(let old, let new, _, _):
            try convert(old, new)
            if !new.isNullable { try fillNulls(new) }
        case .fillNulls(let column, _):
            try fillNulls(column)
        }
    }

    /// Erases the values of existing tombstones, which devices do not notice.
    func eraseTombstones(of table: TableDefinition) throws {
        if let erase = ServerSchema.eraseTombstones(of: table) { try database.execute(erase) }
        try database.prepare(ServerSchema.dropBasesOfDeleted(table.name)).run([.text(table.name)])
    }

    /// Gives the changed rows their new versions.
    func giveNewVersions(now: () -> Int64) throws {
        let hasFlags = try database.integer(
            "SELECT count(*) FROM sqlite_temp_master WHERE \"name\" = 'tideline_changed'"
        )
        guard hasFlags == 1 else { return }
        let rows = try database.integer("SELECT count(*) FROM temp.\"tideline_changed\"") ?? 0
        let last = try database.integer(ServerSchema.readTimestamp, [.text(table)]) ?? 0
        // Greater than every assigned commit timestamp, and before the wall clock if possible.
        let first = max(
            last + SQLiteWriteTransaction.spacing,
            now() - rows * SQLiteWriteTransaction.spacing
        )
        if rows > 0 {
            try database.prepare(ServerSchema.renewTimestamps(table)).run([
                .integer(first), .integer(SQLiteWriteTransaction.spacing),
            ])
            try database.prepare(ServerSchema.putTimestamp).run([
                .text(table), .integer(first + rows * SQLiteWriteTransaction.spacing),
            ])
        }
        try database.execute("DROP TABLE temp.\"tideline_changed\"")
    }

    /// Sets the table clock back to a time, and gives rows with later times new versions, in the same order.
    ///
    /// - Returns: The number of these rows.
    func resetClock(to now: Int64) throws -> Int {
        try makeFlags()
        let future: [SQLValue] = [.integer(now)]
        try database.prepare(ServerSchema.markFuture(table)).run(future)
        let rows = try database.integer("SELECT count(*) FROM temp.\"tideline_changed\"") ?? 0
        let last = try database.integer(ServerSchema.lastVersion(table), future) ?? 0
        let first = max(last, now - rows * SQLiteWriteTransaction.spacing)
        try database.prepare(ServerSchema.renewTimestamps(table)).run([
            .integer(first), .integer(SQLiteWriteTransaction.spacing),
        ])
        try database.prepare(ServerSchema.dateCreation(table)).run(future)
        try database.execute("DROP TABLE temp.\"tideline_changed\"")
        // Earlier links are invalid in the new epoch, and the clocks restart.
        let log = ServerSchema.logName(table)
        if try database.integer(ServerSchema.hasTable, [.text(log)]) != 0 {
            try database.execute("DELETE FROM \(ServerSchema.quoted(log))")
        }
        try database.prepare(ServerSchema.dropFutureBases).run([.text(table)] + future)
        try database.prepare(ServerSchema.dropReceiptsOf).run([.text(table)])
        let clock = max(now, first + rows * SQLiteWriteTransaction.spacing)
        try database.prepare(ServerSchema.resetClock).run([.text(table), .integer(clock)])
        return Int(clamping: rows)
    }

    // MARK: - Columns

    private func fillNulls(_ column: ColumnDefinition) throws {
        try flag("\(ServerSchema.quoted(column.name)) IS NULL")
        try database.execute(ServerSchema.fillNulls(column, in: table))
    }

    private func dropColumn(_ name: String) throws {
        do {
            try database.execute(ServerSchema.dropColumn(name, from: table))
        } catch let error as SQLiteError where error.isGeneric {
            throw SchemaError(
                "Table '\(table)', column '\(name)': an index, a view or a trigger that this "
                    + "server did not create uses it. Nothing was changed. Drop that object first."
            )
        }
    }

    /// The number of rows that are in memory at the same time.
    private static let chunkRows: Int64 = 1000

    private func convert(_ old: ColumnDefinition, _ new: ColumnDefinition) throws {
        let isInPlace = ServerSchema.affinity(old.type) == ServerSchema.affinity(new.type)
        let target = isInPlace ? old.name : ServerSchema.newColumn
        if !isInPlace { try database.execute(ServerSchema.addNewColumn(new.type, to: table)) }
        try makeFlags()
        let conversion = ColumnConversion(old, to: new)
        var last = ""
        while true {
            let chunk = try values(of: old.name, after: last)
            for (row, value) in chunk {
                let converted = conversion.convert(value)
                try database.prepare(ServerSchema.set(target, in: table)).run([
                    .text(row), converted ?? .null,
                ])
                if !conversion.isSame(value, converted) { try flag(row: row) }
            }
            guard let end = chunk.last else { break }
            last = end.row
            report("\(table).\(new.name)", chunk.count)
        }
        guard !isInPlace else { return }
        try dropColumn(old.name)
        try database.execute(ServerSchema.renameNewColumn(to: new.name, in: table))
    }

    private func values(
        of column: String,
        after row: String
    ) throws -> [(row: String, value: SQLValue)] {
        let statement = try database.prepare(ServerSchema.valuesByRow(column, in: table))
        defer { statement.reset() }
        try statement.bind([.text(row), .integer(Self.chunkRows)])
        var values: [(row: String, value: SQLValue)] = []
        while try statement.step() { values.append((statement.text(0), statement.value(1))) }
        return values
    }

    // MARK: - Changed rows

    private func makeFlags() throws {
        try database.execute(
            "CREATE TEMP TABLE IF NOT EXISTS \"tideline_changed\" (\"row\" TEXT PRIMARY KEY)"
        )
    }

    /// Marks the rows that get new versions; tombstones do not, because no device has them.
    private func flag(_ condition: String) throws {
        try makeFlags()
        try database.execute(
            """
            INSERT OR IGNORE INTO temp."tideline_changed"
            SELECT "id" FROM \(ServerSchema.quoted(table)) WHERE "deleted" = 0 AND (\(condition))
            """
        )
    }

    private func flag(row: String) throws {
        let sql = """
            INSERT OR IGNORE INTO temp."tideline_changed"
            SELECT "id" FROM \(ServerSchema.quoted(table)) WHERE "id" = ?1 AND "deleted" = 0
            """
        try database.prepare(sql).run([.text(row)])
    }
}
