// SchemaChange: changes tables. A server makes only changes at startup that lose no data; an operator confirms the
// others (`tideline migrate --apply`).

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A change that brings the tables of a database to their declarations.
struct SchemaChange {
    let database: Database
    /// Returns the time in microseconds since 1970.
    let now: @Sendable () -> Int64
    /// Called repeatedly with the number of converted rows of a column.
    var report: (_ part: String, _ rows: Int) -> Void = { _, _ in }

    /// Prepares the tables in one transaction; nothing is changed if it throws.
    ///
    /// - Parameters:
    ///   - declared: The tables.
    ///   - filtered: The tables, in lower case, whose rows a hook filters; nil if this is not for a server.
    ///   - isComplete: Whether stored columns that are not declared must be dropped.
    ///   - hasConsent: Whether stored values may be converted and removed.
    ///   - isCopy: Whether the tables are created for a copy that is not complete yet.
    /// - Returns: All tables of the database, and the steps that were done.
    /// - Throws: ``SchemaError`` for a step that needs consent if `hasConsent` is false.
    func prepare(
        _ declared: [TableDefinition],
        filtered: Set<String>? = nil,
        isComplete: Bool,
        hasConsent: Bool = false,
        isCopy: Bool = false
    ) throws -> (tables: [TableDefinition], steps: [SchemaStep]) {
        try database.transaction {
            if isCopy { try open() } else { try openWhole() }
            var stored = try Self.storedTables(database)
            let plan = SchemaPlan(stored, in: SQLiteFacts(database: database))
            let steps = try plan.steps(to: declared, isComplete: isComplete)
            let rejected = hasConsent ? [] : steps.filter(\.needsConsent)
            guard rejected.isEmpty else { throw Self.rejection(rejected) }
            for var table in declared {
                let keys = try foreignKeys(of: table.name, among: declared)
                table.references = ReferenceRules.extended(table, by: keys)
                let place = stored.firstIndex { SchemaPlan.isSame($0.name, table.name) }
                let own = steps.filter { $0.table == table.name && $0.changesDatabase }
                let merged = try bring(table, from: place.map { stored[$0] }, by: own)
                if let place { stored[place] = merged } else { stored.append(merged) }
            }
            // Undeclared tables need logs as well, because files of older storage formats have none.
            for table in stored {
                try ChangeLog.prepare(table, database)
                guard let filtered else { continue }
                let isFiltered = filtered.contains(table.name.lowercased())
                try LogScope(table, isFiltered: isFiltered).begin(table.name, database)
            }
            return (stored, steps)
        }
    }

    /// Creates the table, or its missing columns, in the open transaction.
    ///
    /// - Returns: The table with all its columns, and with its name in the database.
    /// - Throws: ``SchemaError`` if the database already has such a column with a different type.
    func grow(_ table: TableDefinition, isFiltered: Bool) throws -> TableDefinition {
        // Only this table is read, because a caller may have created many tables with many columns.
        let stored = try Self.storedTable(table.name, database)
        var table = table
        if let stored { table.schema.name = stored.name }
        let steps = try SchemaPlan(stored.map { [$0] } ?? [], in: SQLiteFacts(database: database))
            .steps(to: [table], isComplete: false)
        for step in steps where !step.onlyAdds {
            throw SchemaError("\(step.place): another server created it with a different type.")
        }
        let merged = try bring(table, from: stored, by: steps)
        if stored == nil {
            try LogScope(table, isFiltered: isFiltered).begin(table.name, database)
        }
        return merged
    }

    /// Returns the steps that `prepare` would perform, and changes nothing.
    static func plan(
        _ declared: [TableDefinition],
        isComplete: Bool,
        in database: Database
    ) throws -> [SchemaStep] {
        let isNew = try database.integer(ServerSchema.hasTable, [.text("tideline_tables")]) == 0
        let stored = isNew ? [] : try storedTables(database)
        return try SchemaPlan(stored, in: SQLiteFacts(database: database))
            .steps(to: declared, isComplete: isComplete)
    }

    /// Creates the server's own tables; rejects a database with an unfinished copy.
    func openWhole() throws {
        try open()
        try Self.rejectPartialCopy(database)
    }

    static func rejectPartialCopy(_ database: Database) throws {
        guard try database.integer(ServerSchema.hasTable, [.text("tideline_state")]) != 0 else {
            return
        }
        let copies = try database.integer(ServerSchema.countCopies, [.text(CopyProgress.key)])
        guard copies == 0 else { throw DatabaseError(.unavailable, CopyProgress.rejection) }
    }

    /// Creates the server's own tables.
    func open() throws {
        try database.execute(ServerSchema.tables)
        if try database.integer(ServerSchema.hasHorizon) == 0 {
            try database.execute(ServerSchema.addHorizon)
        }
        try database.execute(ServerSchema.state)
        try database.execute(ServerSchema.bases)
        try Ledger.prepare(database)
        try database.execute(ServerSchema.audit)
        try database.execute(ServerSchema.auditIndex)
        try database.execute(ServerSchema.receipts)
        try database.execute(ServerSchema.cascades)
        try database.execute("PRAGMA application_id = \(ServerSchema.applicationID)")
        try database.execute("PRAGMA user_version = \(ServerSchema.formatVersion)")
    }

    private static func storedTables(_ database: Database) throws -> [TableDefinition] {
        let statement = try database.prepare(ServerSchema.readTables)
        defer { statement.reset() }
        var tables: [TableDefinition] = []
        while try statement.step() { tables.append(try storedTable(statement)) }
        return tables
    }

    /// Returns the table with this name, in any letter case.
    private static func storedTable(
        _ name: String,
        _ database: Database
    ) throws -> TableDefinition? {
        let statement = try database.prepare(ServerSchema.readTable)
        defer { statement.reset() }
        statement.bind(1, text: name)
        return try statement.step() ? try storedTable(statement) : nil
    }

    private static func storedTable(_ statement: Statement) throws -> TableDefinition {
        TableDefinition(statement.text(0), columns: try ColumnsText.read(statement.text(1)))
    }

    private static func rejection(_ steps: [SchemaStep]) -> SchemaError {
        SchemaError(
            """
            The declared tables do not match the tables in the database:
            \(steps.map { "  " + $0.rejection }.joined(separator: "\n"))
            Nothing was changed. Declare the tables as they are in the database, or change the stored rows: \
            'tideline migrate' with the same options shows what would be done, and \
            'tideline migrate --apply' does it.
            """
        )
    }

    /// Returns the foreign keys of a table on one column that name the id of a declared table.
    private func foreignKeys(
        of table: String,
        among declared: [TableDefinition]
    ) throws -> [TableReference] {
        let statement = try database.prepare(ServerSchema.foreignKeys)
        defer { statement.reset() }
        statement.bind(1, text: table)
        var keys: [TableReference] = []
        while try statement.step() {
            let name = statement.text(1)
            let parent = declared.first { SchemaPlan.isSame($0.name, name) }
            guard let parent else { continue }
            let rule: DeleteRule =
                switch statement.text(2) {
                case "CASCADE": .cascade
                case "SET NULL": .setNull
                default: .restrict
                }
            keys.append(TableReference(statement.text(0), to: parent.name, onDelete: rule))
        }
        return keys
    }

    // MARK: - Execution

    /// Changes a table to match its declaration; existing columns keep their positions, and new ones follow.
    private func bring(
        _ table: TableDefinition,
        from stored: TableDefinition?,
        by steps: [SchemaStep]
    ) throws -> TableDefinition {
        if stored == nil {
            try database.execute(ServerSchema.create(table.name, table.schema.columns))
        }
        var columns = stored?.schema.columns ?? []
        for column in table.schema.columns {
            let place = columns.firstIndex { SchemaPlan.isSame($0.name, column.name) }
            if let place { columns[place] = column } else { columns.append(column) }
        }
        let rows = RowChange(database, table: table.name, report: report)
        if steps.contains(where: \.rebuildsColumns) { try dropIndexes(table.name, but: []) }
        for step in steps {
            // A new table is created with its columns.
            if case .addColumn = step.kind, stored == nil { continue }
            try rows.carryOut(step.kind)
            if case .dropColumn(let column, _) = step.kind {
                columns.removeAll { SchemaPlan.isSame($0.name, column.name) }
            }
            if case .renameColumn(let old, _) = step.kind {
                columns.removeAll { SchemaPlan.isSame($0.name, old) }
            }
        }
        try indexes(table)
        try database.prepare(ServerSchema.putTable).run([
            .text(table.name), .text(ColumnsText.write(columns)),
        ])
        if table.tombstones == .bare { try rows.eraseTombstones(of: table) }
        if table.conflict != .merge { try MergeBases.drop(table: table.name, database) }
        try rows.giveNewVersions(now: now)
        var merged = table
        merged.schema.columns = columns
        try ChangeLog.prepare(merged, database)
        return merged
    }

    private func indexes(_ table: TableDefinition) throws {
        var wanted = [[SystemColumn.updatedAt, SystemColumn.id]] + table.indexes
        if let owner = table.owner {
            wanted.append([owner, SystemColumn.updatedAt, SystemColumn.id])
        }
        var names = Set(wanted.map { ServerSchema.indexName(table.name, $0).lowercased() })
        if table.tombstoneDays != nil || table.tombstones == .bare {
            names.insert(ServerSchema.tombstoneIndexName(table.name).lowercased())
            try database.execute(ServerSchema.tombstoneIndex(table.name))
        }
        for reference in table.references.checked {
            names.insert(
                ServerSchema.referenceIndexName(table.name, reference.column).lowercased()
            )
            try database.execute(ServerSchema.referenceIndex(table.name, reference.column))
        }
        for columns in table.uniqueIndexes {
            names.insert(ServerSchema.uniqueIndexName(table.name, columns).lowercased())
        }
        try dropIndexes(table.name, but: names)
        try uniqueIndexes(table)
        for columns in wanted { try database.execute(ServerSchema.index(table.name, columns)) }
    }

    /// Creates the missing indexes of the `unique` rules.
    ///
    /// - Throws: ``SchemaError`` if rows already break a rule.
    private func uniqueIndexes(_ table: TableDefinition) throws {
        guard !table.uniqueIndexes.isEmpty else { return }
        let known = Set(try indexNames(table.name).map { $0.lowercased() })
        for (rule, columns) in zip(table.schema.rules.unique, table.uniqueIndexes) {
            let name = ServerSchema.uniqueIndexName(table.name, columns)
            guard !known.contains(name.lowercased()) else { continue }
            let rows = try database.integer(ServerSchema.countEqualRows(table.name, columns))
            guard rows == 0 else { throw SchemaError.notUnique(rule, in: table.name, rows: rows) }
            try database.execute(ServerSchema.uniqueIndex(table.name, columns))
        }
    }

    private func dropIndexes(_ table: String, but wanted: Set<String>) throws {
        for name in try indexNames(table) where !wanted.contains(name.lowercased()) {
            try database.execute("DROP INDEX \(ServerSchema.quoted(name))")
        }
    }

    private func indexNames(_ table: String) throws -> [String] {
        let statement = try database.prepare(ServerSchema.indexesOf)
        defer { statement.reset() }
        try statement.bind([.text(table)])
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }
}

extension SchemaStep {
    /// Whether the steps only add objects, without reading stored rows.
    fileprivate var onlyAdds: Bool {
        switch kind {
        case .createTable, .addColumn: true
        case .adoptTable, .renameColumn, .dropColumn, .convert, .fillNulls, .removeOwnerClocks,
            .restoreTable,
            .forgetTable, .restoreColumn, .restoreTriggers, .keepTable:
            false
        }
    }

    /// Whether the step removes a column, which then must not be part of an index.
    fileprivate var rebuildsColumns: Bool {
        switch kind {
        case .dropColumn, .convert: true
        case .createTable, .adoptTable, .addColumn, .renameColumn, .fillNulls, .removeOwnerClocks,
            .restoreTable,
            .forgetTable, .restoreColumn, .restoreTriggers, .keepTable:
            false
        }
    }
}
