// SchemaPlan: compares schemas. It reads the database and changes nothing.

package import TidelineCore

/// The queries that a plan makes on a database.
package protocol SchemaFacts {
    /// Returns whether a table of this name exists.
    func hasTable(_ name: String) throws -> Bool
    func countLive(in table: String) throws -> Int64
    func countValues(of column: String, in table: String) throws -> Int64
    func countNulls(of column: String, in table: String) throws -> Int64
    /// Calls `body` with each non-null value of a column.
    func forEachValue(
        of column: ColumnDefinition,
        in table: String,
        _ body: (SQLValue) -> Void
    ) throws
}

/// A plan of the changes that the tables of a database need.
package struct SchemaPlan {
    private let database: any SchemaFacts
    /// The tables of the database.
    private let stored: [TableDefinition]

    package init(_ stored: [TableDefinition], in database: any SchemaFacts) {
        self.stored = stored
        self.database = database
    }

    /// Returns the steps, table by table; with `isComplete`, undeclared columns are dropped.
    package func steps(to declared: [TableDefinition], isComplete: Bool) throws -> [SchemaStep] {
        try Self.checkNames(declared)
        var steps: [SchemaStep] = []
        for table in declared {
            let old = stored.first { Self.isSame($0.name, table.name) }
            steps += try self.steps(table, from: old?.schema.columns, isComplete: isComplete)
        }
        guard isComplete else { return steps }
        for table in stored where !declared.contains(where: { Self.isSame($0.name, table.name) }) {
            steps.append(SchemaStep(table: table.name, kind: .keepTable))
        }
        return steps
    }

    /// Returns the tables whose rows ``steps(to:isComplete:)`` examines.
    ///
    /// The steps are valid as long as these tables are not written to.
    package func tablesToInspect(_ declared: [TableDefinition], isComplete: Bool) -> [String] {
        declared.filter { table in
            guard let old = stored.first(where: { Self.isSame($0.name, table.name) }) else {
                return false
            }
            let isInspected = table.schema.columns.contains { column in
                let before = old.schema.columns.first { Self.isSame($0.name, column.name) }
                guard let before else { return Self.isUnknownDefault(column) }
                return ColumnConversion.isNeeded(before.type, column.type)
                    || before.isNullable && !column.isNullable
            }
            let isLess = old.schema.columns.contains { column in
                !table.schema.columns.contains { Self.isSame($0.name, column.name) }
            }
            return isInspected || isComplete && isLess
        }.map(\.name)
    }

    package static func isSame(_ one: String, _ other: String) -> Bool {
        one.lowercased() == other.lowercased()
    }

    /// Rejects two declarations of the same table.
    private static func checkNames(_ tables: [TableDefinition]) throws {
        var names: Set<String> = []
        for table in tables {
            guard names.insert(table.name.lowercased()).inserted else {
                throw SchemaError("Table '\(table.name)' is declared twice.")
            }
            var columns: Set<String> = []
            for column in table.schema.columns
            where !columns.insert(column.name.lowercased()).inserted {
                throw SchemaError(
                    "Table '\(table.name)', column '\(column.name)': it is declared twice."
                )
            }
        }
    }

    private func steps(
        _ table: TableDefinition,
        from stored: [ColumnDefinition]?,
        isComplete: Bool
    ) throws -> [SchemaStep] {
        var kinds: [SchemaStep.Kind] = []
        if stored == nil {
            guard try !database.hasTable(table.name) else {
                throw SchemaError(
                    "Table '\(table.name)' exists in the database, but was not created by a Tideline "
                        + "server. Rename one of the two tables."
                )
            }
            kinds.append(.createTable)
        }
        let renamed = Self.renamed(table, in: stored ?? [])
        for column in table.schema.columns {
            let old = stored?.first { Self.isSame($0.name, column.name) }
            if let old {
                kinds += try differences(old, column, table.name)
            } else if let old = renamed[column.name] {
                kinds.append(.renameColumn(old.name, to: column))
                kinds += try differences(old, column, table.name).map {
                    $0.renamed(to: column.name)
                }
            } else {
                let hasRows = stored != nil && Self.isUnknownDefault(column)
                let rows = hasRows ? try database.countLive(in: table.name) : 0
                kinds.append(.addColumn(column, rows: rows))
            }
        }
        if isComplete {
            for column in stored ?? []
            where !table.schema.columns.contains(where: { Self.isSame($0.name, column.name) })
                && !renamed.values.contains(where: { $0.name == column.name })
            {
                let values = try database.countValues(of: column.name, in: table.name)
                kinds.append(.dropColumn(column, values: values))
            }
        }
        return kinds.map { SchemaStep(table: table.name, kind: $0) }
    }

    /// Returns the stored columns that only have the former name of a declared one, by its name.
    private static func renamed(
        _ table: TableDefinition,
        in stored: [ColumnDefinition]
    ) -> [String: ColumnDefinition] {
        var renamed: [String: ColumnDefinition] = [:]
        for (old, new) in table.aliases.sorted(by: { $0.key < $1.key }) {
            guard renamed[new] == nil, !stored.contains(where: { isSame($0.name, new) }) else {
                continue
            }
            renamed[new] = stored.first { isSame($0.name, old) }
        }
        return renamed
    }

    private func differences(
        _ old: ColumnDefinition,
        _ new: ColumnDefinition,
        _ table: String
    ) throws -> [SchemaStep.Kind] {
        var kinds: [SchemaStep.Kind] = []
        if ColumnConversion.isNeeded(old.type, new.type) {
            let (values, lost) = try conversion(old, new, table)
            let isNarrower = old.type.name == new.type.name
            // Members of an enumeration that no row contains may be removed.
            if !isNarrower || lost > 0 {
                kinds.append(.convert(old, to: new, values: values, lost: lost))
            }
        }
        if old.isNullable, !new.isNullable {
            let rows = try database.countNulls(of: old.name, in: table)
            if rows > 0 { kinds.append(.fillNulls(new, rows: rows)) }
        }
        return kinds
    }

    /// Returns the number of values, and the number of those that do not fit.
    private func conversion(
        _ old: ColumnDefinition,
        _ new: ColumnDefinition,
        _ table: String
    ) throws -> (values: Int64, lost: Int64) {
        let conversion = ColumnConversion(old, to: new)
        var values: Int64 = 0
        var lost: Int64 = 0
        try database.forEachValue(of: old, in: table) { value in
            values += 1
            if conversion.convert(value) == nil { lost += 1 }
        }
        return (values, lost)
    }

    /// Returns whether a device without the column would read a value other than this default.
    ///
    /// Such a device reads zero for null and absent members, in the types that have a zero.
    private static func isUnknownDefault(_ column: ColumnDefinition) -> Bool {
        let value = column.storedDefault
        guard value != .null else { return false }
        switch column.type {
        case .string, .integer, .number, .decimal, .boolean:
            return value != SQLValue(column.type.zero, type: column.type)
        case .dateTime, .date, .time, .guid, .binary, .json, .enumeration: return true
        }
    }
}

extension SchemaStep.Kind {
    /// Returns the step for a column that was renamed before it.
    fileprivate func renamed(to name: String) -> SchemaStep.Kind {
        guard case .convert(var old, let new, let values, let lost) = self else { return self }
        old.name = name
        return .convert(old, to: new, values: values, lost: lost)
    }
}
