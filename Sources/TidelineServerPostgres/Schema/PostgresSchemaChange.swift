// PostgresSchemaChange: changes tables, unless stored values would be lost.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A change that brings the tables of a database to their declarations.
struct PostgresSchemaChange {
    let connection: PostgresConnection
    /// Returns the time in microseconds since 1970; nil for the time of the database.
    let now: (@Sendable () -> Int64)?
    /// The statements of the change.
    let script: SchemaScript
    /// Whether stored values may change, and existing tables may be adopted.
    let hasConsent: Bool

    init(
        connection: PostgresConnection,
        now: (@Sendable () -> Int64)?,
        hasConsent: Bool = false,
        isDry: Bool = false
    ) {
        self.connection = connection
        self.now = now
        self.hasConsent = hasConsent
        script = SchemaScript(connection, isDry: isDry)
    }

    /// Prepares the tables in one transaction; nothing is changed if it throws, or in a dry run.
    ///
    /// - Parameters:
    ///   - declared: The tables.
    ///   - filtered: The tables, in lower case, whose rows a hook filters; nil if this is not for a server.
    ///   - isComplete: Whether stored columns that are not declared must be dropped.
    ///   - isCopy: Whether the tables are created for a copy that is not complete yet.
    /// - Returns: All tables of the database, and the steps that were done.
    /// - Throws: ``SchemaError`` for a step that would change or lose stored values.
    func prepare(
        _ declared: [TableDefinition],
        filtered: Set<String>?,
        isComplete: Bool,
        isCopy: Bool = false
    ) throws -> (tables: [TableDefinition], steps: [SchemaStep]) {
        do {
            let lock = PostgresSchema.lock(waiting: Self.lockMilliseconds)
            try connection.execute("BEGIN; \(PostgresSchema.idle); \(lock)")
            try open()
            guard try isCopy || value(of: CopyProgress.key) == nil else {
                throw DatabaseError(.unavailable, CopyProgress.rejection)
            }
            let result = try bring(declared, filtered, isComplete)
            try connection.execute(script.isDry ? "ROLLBACK" : "COMMIT")
            return result
        } catch {
            _ = connection.endTransaction()
            throw error
        }
    }

    private func open() throws {
        let found = try connection.run("SELECT to_regclass('tideline.state') IS NULL")
        if found.boolean(0, 0) {
            try script.execute(PostgresSchema.open)
        } else {
            try connection.execute(PostgresSchema.open)
        }
        let format = try connection.run(PostgresSchema.readFormat).text(0, 0)
        guard let number = Int64(format), number <= PostgresSchema.formatVersion else {
            throw DatabaseError(
                .newerFormat,
                "The tables of this database were created by a newer server (format \(format)). "
                    + "Use that version or a later one."
            )
        }
    }

    private func bring(
        _ declared: [TableDefinition],
        _ filtered: Set<String>?,
        _ isComplete: Bool
    ) throws -> (tables: [TableDefinition], steps: [SchemaStep]) {
        if let fault = declared.lazy.compactMap({ PostgresName.fault(of: $0.schema) }).first {
            throw SchemaError(fault)
        }
        let isOld = try value(of: "format") != String(PostgresSchema.formatVersion)
        let migrated = try isOld ? OwnerClockRemoval(script).run().map(\.name) : []
        var stored = try storedTables()
        let losses = try SchemaLosses(of: stored, for: declared, connection)
        var restored = losses.steps(for: declared)
        guard hasConsent || restored.isEmpty else { throw Self.rejection(restored) }
        try losses.forget(&stored, hasConsent: hasConsent, script)
        if hasConsent { restored += losses.forgotten(except: declared) }
        try spellAsDeclared(declared, &stored)
        let adoptions = try adoptions(declared, stored)
        let adopting = adoptions.map { adoption in
            let name = adoption.definition.name
            return SchemaStep(table: name, kind: .adoptTable(changes: adoption.changes))
        }
        guard hasConsent || adopting.isEmpty else { throw Self.rejection(adopting) }
        try keepWritersOut(adoptions.map(\.definition.name))
        for statement in adoptions.flatMap(\.statements) {
            try script.runOnRows(statement.sql, instead: statement.instead)
        }
        stored += adoptions.map(\.definition)
        var steps =
            try restored + adopting + plan(declared, stored, isComplete)
        let keys = try PostgresForeignKeys.read(among: declared, connection)
        for var table in declared {
            table.references = ReferenceRules.extended(table, by: keys[table.name] ?? [])
            let place = stored.firstIndex { SchemaPlan.isSame($0.name, table.name) }
            let own = steps.filter { $0.table == table.name && $0.changesDatabase }
            let isAdopted = adoptions.contains { $0.definition.name == table.name }
            let merged = try bring(
                table,
                from: place.map { stored[$0] },
                by: own,
                isAdopted: isAdopted
            )
            if let place { stored[place] = merged } else { stored.append(merged) }
        }
        let gone = Set(losses.tables.map { $0.name.lowercased() })
        for table in stored {
            let name = table.name.lowercased()
            let isDeclared = declared.contains { SchemaPlan.isSame($0.name, table.name) }
            // A missing table that is not declared keeps its stored definition.
            guard isDeclared || !gone.contains(name) else { continue }
            try beginLog(of: table, isFiltered: filtered?.contains(name))
        }
        let withoutTriggers = stored.filter { table in
            losses.withoutTriggers.contains { SchemaPlan.isSame($0, table.name) }
        }
        steps += withoutTriggers.map { SchemaStep(table: $0.name, kind: .restoreTriggers) }
        steps += migrated.map { SchemaStep(table: $0, kind: .removeOwnerClocks) }
        if !restored.isEmpty || !withoutTriggers.isEmpty || !migrated.isEmpty {
            try script.run(PostgresSchema.renewEpoch, [])
        }
        if isOld { try put(String(PostgresSchema.formatVersion), as: "format") }
        // Tables that were migrated may have lost their triggers, too.
        try assignMissingTimestamps(
            withoutTriggers
                + stored.filter { table in
                    let isThere = !gone.contains(table.name.lowercased())
                    return isThere && migrated.contains { SchemaPlan.isSame($0, table.name) }
                }
        )
        return (stored, steps)
    }

    /// Returns the steps, while the tables whose rows they depend on cannot be written to.
    private func plan(
        _ declared: [TableDefinition],
        _ stored: [TableDefinition],
        _ isComplete: Bool
    ) throws -> [SchemaStep] {
        let plan = SchemaPlan(stored, in: PostgresFacts(connection: connection))
        func steps() throws -> [SchemaStep] {
            let steps = try plan.steps(to: declared, isComplete: isComplete)
            let rejected = hasConsent ? [] : steps.filter(\.needsConsent)
            guard rejected.isEmpty else { throw Self.rejection(rejected) }
            return steps
        }
        let names = plan.tablesToInspect(declared, isComplete: isComplete)
        // A change that is rejected must not block writers.
        if names.isEmpty || !hasConsent {
            let steps = try steps()
            if names.isEmpty { return steps }
        }
        try keepWritersOut(names)
        return try steps()
    }

    /// Waits for writers of these tables, and blocks new ones, before rows are examined.
    ///
    /// Reads continue until an object that they depend on, such as a column, is changed. The tables are locked
    /// in the order in which writers lock them.
    ///
    /// A dry run does not block writers.
    private func keepWritersOut(_ tables: [String]) throws {
        let tables = Dictionary(tables.map { ($0.lowercased(), $0) }) { $1 }
        for (_, name) in tables.sorted(by: { $0.key < $1.key }) {
            try script.runOnRows("LOCK TABLE \(PostgresName.quoted(name)) IN EXCLUSIVE MODE")
        }
    }

    /// Returns the tables that another program created.
    private func adoptions(
        _ declared: [TableDefinition],
        _ stored: [TableDefinition]
    ) throws -> [PostgresAdoption] {
        try declared.filter { table in
            !stored.contains { SchemaPlan.isSame($0.name, table.name) }
        }
        .compactMap { try PostgresAdoption($0, connection) }
    }

    private static func rejection(_ steps: [SchemaStep]) -> SchemaError {
        SchemaError(
            """
            The declared tables do not match the tables in the database:
            \(steps.map { "  " + $0.rejection }.joined(separator: "\n"))
            Nothing was changed. Declare the tables as they are in the database, or change the tables: \
            'tideline migrate --dry-run' with the same options shows what would be done, and \
            'tideline migrate --apply' does it.
            """
        )
    }

    /// Creates the table, or its missing columns, in the open transaction.
    ///
    /// - Parameters:
    ///   - table: The table with the missing columns.
    ///   - isFiltered: Whether a hook filters its rows.
    ///   - begin: The schema version before the transaction, if the transaction has already changed it.
    ///   - wait: The lock timeout, in milliseconds.
    /// - Returns: The table with all its columns, and the schema version before the transaction.
    /// - Throws: ``SchemaError`` if another server has created a column of another type in the meantime, and
    ///   ``OutdatedTable`` if it created another schema version.
    func grow(
        _ table: TableDefinition,
        isFiltered: Bool,
        begin: Int64?,
        waiting wait: Int
    ) throws -> (table: TableDefinition, begin: Int64?) {
        // All other writes wait in the meantime.
        try connection.execute(PostgresSchema.lock(waiting: wait))
        if let fault = PostgresName.fault(of: table.schema) { throw SchemaError(fault) }
        let stored = try Self.stored(table.name, connection)
        let begin = begin ?? stored?.form
        if let stored, table.form != nil, table.form != begin { throw OutdatedTable(stored) }
        var table = table
        if let stored { table.schema.name = stored.name }
        let facts = PostgresFacts(connection: connection)
        let steps = try SchemaPlan(stored.map { [$0] } ?? [], in: facts)
            .steps(to: [table], isComplete: false)
        for step in steps {
            switch step.kind {
            case .createTable, .addColumn: break
            case .adoptTable, .renameColumn, .dropColumn, .convert, .fillNulls, .removeOwnerClocks,
                .restoreTable,
                .forgetTable, .restoreColumn, .restoreTriggers, .keepTable:
                throw SchemaError("\(step.place): another server created it with a different type.")
            }
        }
        let lacksTriggers =
            try stored.map { try SchemaLosses.lacksTriggers($0, connection) } ?? false
        let merged = try bring(table, from: stored, by: steps)
        // With new columns the log is created again, and so are the triggers that write to it.
        try beginLog(of: merged, isFiltered: isFiltered)
        if lacksTriggers {
            try script.run(PostgresSchema.renewEpoch, [])
            try assignMissingTimestamps([merged])
        }
        return (merged, begin)
    }

    // MARK: - Current schema

    private func storedTables() throws -> [TableDefinition] {
        let result = try connection.run(PostgresSchema.readTables)
        return try (0..<result.count).map { try Self.table(result, $0) }
    }

    /// Returns the stored table with this name; nil if it does not exist.
    static func stored(
        _ name: String,
        _ connection: PostgresConnection
    ) throws -> TableDefinition? {
        let found = try connection.run(PostgresSchema.readTable, [.text(name.lowercased())])
        return found.count > 0 ? try table(found, 0) : nil
    }

    /// Returns the stored table, without waiting for long schema changes; for a request that otherwise fails.
    static func storedSoon(
        _ name: String,
        _ connection: PostgresConnection
    ) throws -> TableDefinition? {
        let found = try connection.pipeline([
            PostgresStatement(
                "SELECT set_config('statement_timeout', $1, true)",
                values: [.text(String(checkMilliseconds))]
            ),
            PostgresStatement(PostgresSchema.readTable, values: [.text(name.lowercased())]),
        ])[1]
        return found.count > 0 ? try table(found, 0) : nil
    }

    /// The lock timeout of a schema change.
    private static let lockMilliseconds = 10_000

    /// The time limit of a read that does not wait for schema changes.
    private static let checkMilliseconds = 2000

    private static func table(_ result: PostgresResult, _ row: Int) throws -> TableDefinition {
        var table = try PostgresSchema.table(result.text(row, 0), result.text(row, 1))
        table.form = result.integer(row, 2)
        return table
    }

    /// Renames stored tables and columns that differ from their declarations only in letter case.
    private func spellAsDeclared(
        _ declared: [TableDefinition],
        _ stored: inout [TableDefinition]
    ) throws {
        for table in declared {
            guard let place = stored.firstIndex(where: { SchemaPlan.isSame($0.name, table.name) })
            else { continue }
            let old = stored[place].name
            if old != table.name {
                let name = PostgresName.quoted(table.name)
                try script.execute("ALTER TABLE \(PostgresName.quoted(old)) RENAME TO \(name)")
                try script.execute(
                    "ALTER TABLE IF EXISTS \(PostgresName.log(old)) RENAME TO "
                        + PostgresName.quoted("log.\(table.name)")
                )
                stored[place].schema.name = table.name
            }
            for column in table.schema.columns {
                let columns = stored[place].schema.columns
                guard
                    let same = columns.firstIndex(where: {
                        SchemaPlan.isSame($0.name, column.name)
                    }), columns[same].name != column.name
                else { continue }
                let old = columns[same].name
                try script.execute(PostgresSchema.rename(old, to: column.name, in: table.name))
                stored[place].schema.columns[same].name = column.name
                if let expression = stored[place].databaseDefaults.removeValue(forKey: old) {
                    stored[place].databaseDefaults[column.name] = expression
                }
            }
        }
    }

    // MARK: - Execution

    /// Changes a table to match its declaration; existing columns keep their positions, and new ones follow.
    private func bring(
        _ table: TableDefinition,
        from stored: TableDefinition?,
        by steps: [SchemaStep],
        isAdopted: Bool = false
    ) throws -> TableDefinition {
        let name = [SQLValue.text(table.name.lowercased())]
        if stored == nil { try script.execute(PostgresSchema.create(table.name)) }
        try script.run(PostgresSchema.putClock, name)
        var columns = stored?.schema.columns ?? []
        for column in table.schema.columns {
            let place = columns.firstIndex { SchemaPlan.isSame($0.name, column.name) }
            if let place { columns[place] = column } else { columns.append(column) }
        }
        columns.removeAll { column in
            steps.contains { step in
                switch step.kind {
                case .dropColumn(let dropped, _): dropped.name == column.name
                case .renameColumn(let old, _): old == column.name
                case .createTable, .adoptTable, .addColumn, .convert, .fillNulls,
                    .removeOwnerClocks, .restoreTable, .forgetTable, .restoreColumn,
                    .restoreTriggers, .keepTable:
                    false
                }
            }
        }
        let rows = PostgresRowChange(
            script: script,
            table: table.name,
            now: time
        )
        try rows.carryOut(steps)
        if isAdopted { try rows.giveFirstVersions() }
        try indexes(table)
        var merged = table
        merged.databaseDefaults = try databaseDefaults(
            of: table,
            known: isAdopted ? nil : knownDefaults(of: stored, after: steps)
        )
        let form = try script.run(
            PostgresSchema.putTable,
            name + [
                .text(table.name),
                .text(ColumnsText.write(columns, defaults: merged.databaseDefaults)),
            ]
        ).integer(0, 0)
        if table.tombstones == .bare {
            merged.foreignKeyColumns =
                try PostgresForeignKeys.columns(of: table.name, connection)
            for sql in PostgresSchema.eraseTombstones(of: merged) { try script.runOnRows(sql) }
        }
        if table.conflict != .merge {
            try script.run("DELETE FROM tideline.bases WHERE \"table\" = $1", name)
        }
        merged.schema.columns = columns
        merged.form = form
        try prepareLog(merged, before: isAdopted ? nil : stored)
        return merged
    }

    private func time() throws -> Int64 {
        try now?() ?? connection.run(PostgresClock.now).integer(0, 0)
    }

    private func indexes(_ table: TableDefinition) throws {
        var wanted = [[SystemColumn.updatedAt, SystemColumn.id]] + table.indexes
        if let owner = table.owner {
            wanted.append([owner, SystemColumn.updatedAt, SystemColumn.id])
        }
        var texts: [String: String] = [:]
        for columns in wanted {
            texts[PostgresName.index(table.name, columns)] =
                PostgresSchema.index(table.name, columns)
        }
        texts[PostgresSchema.missingTimestampIndexName(table.name)] =
            PostgresSchema.missingTimestampIndex(table.name)
        if table.tombstoneDays != nil || table.tombstones == .bare {
            texts[PostgresSchema.tombstoneIndexName(table.name)] =
                PostgresSchema.tombstoneIndex(table.name)
        }
        for reference in table.references.checked {
            texts[PostgresSchema.referenceIndexName(table.name, reference.column)] =
                PostgresSchema.referenceIndex(table.name, reference.column)
        }
        var unique: [String: (rule: [String], columns: [String])] = [:]
        for rule in zip(table.schema.rules.unique, table.uniqueIndexes) {
            unique[PostgresUnique.indexName(table.name, rule.1)] = rule
        }
        let found = try connection.run(
            PostgresSchema.indexesOf,
            [.text(PostgresName.quoted(table.name))]
        )
        // An existing index is not touched: even inspecting it would wait for open transactions.
        for name in (0..<found.count).map({ found.text($0, 0) })
        where texts.removeValue(forKey: name) == nil && unique.removeValue(forKey: name) == nil {
            try script.execute("DROP INDEX \(PostgresName.quoted(name))")
        }
        for text in texts.values.sorted() { try script.runOnRows(text) }
        for (_, (rule, columns)) in unique.sorted(by: { $0.key < $1.key }) {
            try PostgresUnique.create(rule, columns, in: table, script, connection)
        }
    }

    // MARK: - The state

    func value(of key: String) throws -> String? {
        let found = try connection.run(
            "SELECT \"value\" FROM tideline.state WHERE \"key\" = $1",
            [.text(key)]
        )
        return found.count > 0 ? found.text(0, 0) : nil
    }

    func put(_ value: String, as key: String) throws {
        try script.run(PostgresSchema.putState, [.text(key), .text(value)])
    }
}
