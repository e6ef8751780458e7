// SchemaPlan: what has to be done to the tables of a database; reads it and changes nothing.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct SchemaPlan {
    let database: Database
    /// The tables as they are in the database.
    let stored: [TableDefinition]

    /// What differs, table by table; with `isComplete` what is not declared is not wanted.
    func steps(to declared: [TableDefinition], isComplete: Bool) throws -> [SchemaStep] {
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

    static func isSame(_ one: String, _ other: String) -> Bool {
        one.lowercased() == other.lowercased()
    }

    /// Two declarations of one name would be two answers to what it is.
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
            guard try database.integer(ServerSchema.hasTable, [.text(table.name)]) == 0 else {
                throw SchemaError(
                    "Table '\(table.name)' is in the database, but this server did not make it. "
                        + "Rename one of the two."
                )
            }
            kinds.append(.createTable)
        }
        for column in table.schema.columns {
            let old = stored?.first { Self.isSame($0.name, column.name) }
            if let old {
                kinds += try differences(old, column, table.name)
            } else {
                let hasRows = stored != nil && Self.isUnknownDefault(column)
                let rows = hasRows ? try count(ServerSchema.countLive(table.name)) : 0
                kinds.append(.addColumn(column, rows: rows))
            }
        }
        if isComplete {
            for column in stored ?? []
            where !table.schema.columns.contains(where: { Self.isSame($0.name, column.name) }) {
                let values = try count(ServerSchema.countValues(column.name, in: table.name))
                kinds.append(.dropColumn(column, values: values))
            }
        }
        return kinds.map { SchemaStep(table: table.name, kind: $0) }
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
            // Members of an enumeration that no row holds may go.
            if !isNarrower || lost > 0 {
                kinds.append(.convert(old, to: new, values: values, lost: lost))
            }
        }
        if old.isNullable, !new.isNullable {
            let rows = try count(ServerSchema.countNulls(old.name, in: table))
            if rows > 0 { kinds.append(.fillNulls(new, rows: rows)) }
        }
        return kinds
    }

    /// How many values there are, and how many of them do not fit.
    private func conversion(
        _ old: ColumnDefinition,
        _ new: ColumnDefinition,
        _ table: String
    ) throws -> (values: Int64, lost: Int64) {
        let conversion = ColumnConversion(old, to: new)
        let statement = try database.prepare(ServerSchema.values(old.name, in: table))
        defer { statement.reset() }
        var values: Int64 = 0
        var lost: Int64 = 0
        while try statement.step() {
            values += 1
            if conversion.convert(statement.value(0)) == nil { lost += 1 }
        }
        return (values, lost)
    }

    private func count(_ sql: String) throws -> Int64 { try database.integer(sql) ?? 0 }

    /// Whether a device that lacks the column reads something else than this default in it.
    ///
    /// Null and absent members read as zero there, in the types that have one.
    private static func isUnknownDefault(_ column: ColumnDefinition) -> Bool {
        let value = column.storedDefault
        guard value != .null else { return false }
        switch column.type {
        case .string, .integer, .number, .decimal, .boolean:
            return value != SQLValue(column.type.zero, type: column.type)
        default: return true
        }
    }
}
