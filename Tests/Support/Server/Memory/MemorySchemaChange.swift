// MemorySchemaChange: creates the tables and columns of the in-memory backend.

import TidelineCore
import TidelineServerCore

/// A change of the tables of a state, which only creates tables and adds columns.
enum MemorySchemaChange {
    /// Prepares the declared tables; returns all tables.
    ///
    /// - Throws: ``SchemaError`` for a change of stored rows, and for a table with options that this backend lacks.
    static func prepare(
        _ declared: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool,
        in state: inout MemoryState
    ) throws -> [TableDefinition] {
        for table in declared { try table.checkForMemory() }
        let steps = try steps(to: declared, isComplete: isComplete, in: state)
        let rejected = steps.filter { !$0.keepsRows }
        guard rejected.isEmpty else {
            let lines = rejected.map { "\n  " + $0.rejectionInMemory }.joined()
            throw SchemaError("The declared tables do not match the tables in memory:" + lines)
        }
        for table in declared { _ = try bring(table, in: &state) }
        let all = state.definitions.map { stored in
            var table = declared.first { SchemaPlan.isSame($0.name, stored.name) } ?? stored
            table.schema.columns = stored.schema.columns
            return table
        }
        for table in all {
            let key = table.name.lowercased()
            state.tables[key]?.begin(LogScope(table, isFiltered: filtered.contains(key)))
        }
        return all
    }

    /// Creates the table, or its missing columns; returns the table with all its columns.
    ///
    /// - Throws: ``SchemaError`` if the table already has such a column with a different type.
    static func grow(
        _ definition: TableDefinition,
        isFiltered: Bool,
        in state: inout MemoryState
    ) throws -> TableDefinition {
        try definition.checkForMemory()
        let key = definition.name.lowercased()
        let isNew = state.tables[key] == nil
        for step in try steps(to: [definition], isComplete: false, in: state)
        where !step.keepsRows {
            throw SchemaError("\(step.place): another write created it with a different type.")
        }
        let grown = try bring(definition, in: &state)
        if isNew { state.tables[key]?.begin(LogScope(grown, isFiltered: isFiltered)) }
        return grown
    }

    private static func steps(
        to declared: [TableDefinition],
        isComplete: Bool,
        in state: MemoryState
    ) throws -> [SchemaStep] {
        try SchemaPlan(state.definitions, in: MemoryFacts(state: state))
            .steps(to: declared, isComplete: isComplete)
    }

    /// Changes a table to match its definition; existing columns keep their positions, and new ones follow.
    private static func bring(
        _ definition: TableDefinition,
        in state: inout MemoryState
    ) throws -> TableDefinition {
        let key = definition.name.lowercased()
        var table = state.tables[key] ?? StoredTable(definition.name)
        for column in definition.schema.columns {
            let index = table.columns.firstIndex { SchemaPlan.isSame($0.name, column.name) }
            if let index { table.columns[index] = column } else { table.add(column) }
        }
        var grown = definition
        grown.schema.name = table.name
        grown.schema.columns = table.columns
        let derived = MemoryTable(Table(grown))
        try table.checkUniqueRules(derived)
        if !derived.keepsBases { table.bases = [:] }
        state.tables[key] = table
        return grown
    }
}

extension TableDefinition {
    /// Rejects the options of a table that the in-memory backend lacks.
    fileprivate func checkForMemory() throws {
        let lacking = [
            audit ? "audit" : nil,
            references.checked.isEmpty ? nil : "references",
            tombstones == .bare ? "tombstones without values" : nil,
        ]
        if let option = lacking.compactMap({ $0 }).first {
            throw SchemaError("Table '\(name)': the in-memory backend does not support \(option).")
        }
    }
}

extension SchemaStep {
    /// The reason why the step is rejected, and what to do.
    fileprivate var rejectionInMemory: String {
        guard case .addColumn = kind else { return rejection }
        return "\(place): the in-memory backend adds no column whose default changes stored rows. "
            + "Declare the column without a default."
    }

    /// Whether the step leaves the rows of devices as they are.
    fileprivate var keepsRows: Bool {
        switch kind {
        case .createTable, .keepTable: true
        case .addColumn(_, let rows): rows == 0
        case .adoptTable, .renameColumn, .dropColumn, .convert, .fillNulls, .removeOwnerClocks,
            .restoreTable, .forgetTable, .restoreColumn, .restoreTriggers:
            false
        }
    }
}

extension StoredTable {
    /// Adds a column; empties the change log, whose rows lack it.
    fileprivate mutating func add(_ column: ColumnDefinition) {
        columns.append(column)
        for key in rows.keys {
            rows[key]?.values[column.name.lowercased()] = column.storedDefault
        }
        if let last = log.last { raiseHorizon(to: last.timestamp) }
        log = []
    }

    /// Sets the scope of the change log.
    ///
    /// If it becomes wider, the horizon rises, so that callers with earlier links start over.
    fileprivate mutating func begin(_ scope: LogScope) {
        if !logScope.covers(scope) { raiseHorizon(to: clock.timestamp) }
        logScope = scope
    }
}

/// The facts about the stored rows that a schema plan needs.
private struct MemoryFacts: SchemaFacts {
    let state: MemoryState

    /// Every table was created by this server.
    func hasTable(_ name: String) -> Bool { false }

    func countLive(in table: String) -> Int64 {
        Int64(rows(of: table).count { !$0.isDeleted })
    }

    func countValues(of column: String, in table: String) -> Int64 {
        Int64(values(of: column, in: table).count { $0 != .null })
    }

    func countNulls(of column: String, in table: String) -> Int64 {
        Int64(values(of: column, in: table).count { $0 == .null })
    }

    func forEachValue(
        of column: ColumnDefinition,
        in table: String,
        _ body: (SQLValue) -> Void
    ) {
        for value in values(of: column.name, in: table) where value != .null { body(value) }
    }

    private func values(of column: String, in table: String) -> [SQLValue] {
        rows(of: table).map { $0.values[column.lowercased()] ?? .null }
    }

    private func rows(of table: String) -> [MemoryRow] {
        Array((state.tables[table.lowercased()]?.rows ?? [:]).values)
    }
}
