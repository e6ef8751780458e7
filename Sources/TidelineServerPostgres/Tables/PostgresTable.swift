// PostgresTable: statements and names for each table.

import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The derived tables of a store, cached for as long as their definitions are the same.
final class DerivedTables: Sendable {
    private let tables = Mutex<[String: PostgresTable]>([:])

    func derived(_ table: Table) -> PostgresTable {
        tables.withLock { tables in
            if let known = tables[table.name], known.table === table { return known }
            let created = PostgresTable(table)
            // A table that a write may create might never exist.
            if !table.needsGrowth { tables[table.name] = created }
            return created
        }
    }
}

/// The values that are derived once from a table: its columns and its SQL statements.
final class PostgresTable: Sendable {
    let table: Table
    let name: String
    let quoted: String
    /// The name of the table clock, in lower case.
    let clock: String
    /// Whether replaced rows are stored for merges.
    let keepsBases: Bool
    let log: LogRules
    /// The columns, then the system columns.
    let columns: [PostgresColumn]
    /// The indexes of the columns with references that are checked.
    let referenceIndexes: [Int]

    init(_ table: Table) {
        self.table = table
        name = table.name
        quoted = PostgresName.quoted(table.name)
        clock = table.name.lowercased()
        keepsBases = table.definition.conflict == .merge
        log = LogRules(table)
        referenceIndexes = table.definition.references.checked.compactMap { reference in
            table.columns.firstIndex { $0.name == reference.column }
        }
        columns =
            table.columns.map { PostgresColumn($0) }
            + SystemColumn.definitions.map { PostgresColumn($0, isSystem: true) }
    }

    /// Returns the cells of a row, in the order that `image` reads.
    func cells(from alias: String = "") -> String {
        columns.map { $0.selected(from: alias) }.joined(separator: ", ")
    }

    /// Returns the same cells, with null for all but these indexes among columns and system columns.
    func cells(of places: Set<Int>) -> String {
        let count = columns.count - SystemColumn.definitions.count
        return columns.enumerated().map { place, column in
            place >= count || places.contains(place) ? column.selected() : "NULL"
        }
        .joined(separator: ", ")
    }

    /// Rejects cells of unexpected types, which result from an external change of a column and would be
    /// misread.
    ///
    /// - Parameters:
    ///   - result: A result with the cells of ``cells(from:)``.
    ///   - start: The index of the first of these cells.
    ///   - places: The indexes of the cells that were read; nil for all.
    /// - Throws: ``PostgresError``, as for a missing column.
    func checkTypes(
        _ result: PostgresResult,
        from start: Int = 0,
        of places: Set<Int>? = nil
    ) throws {
        for (place, column) in columns.enumerated() {
            guard places?.contains(place) ?? true,
                !column.cellTypes.contains(result.type(start + place))
            else {
                continue
            }
            throw PostgresError(
                state: "42703",
                "column \(column.quoted) of \(quoted) has another type"
            )
        }
    }

    /// Returns the row of a result whose cells begin at a column.
    func image(_ result: PostgresResult, _ row: Int, from start: Int = 0) -> RowImage {
        let count = columns.count - SystemColumn.definitions.count
        return RowImage(
            id: result.text(row, start + count),
            values: (0..<count).map { columns[$0].value(result, row, start + $0) },
            createdAt: PostgresColumn.instant(result.integer(row, start + count + 1)),
            updatedAt: PostgresColumn.instant(result.integer(row, start + count + 2)),
            version: result.integer(row, start + count + 3),
            isDeleted: result.boolean(row, start + count + 4)
        )
    }

    /// Returns the statement that evaluates the database's defaults of columns.
    func databaseDefaults(of places: [Int]) -> PostgresStatement {
        let expressions = table.definition.databaseDefaults
        let cells = places.map { place in
            columns[place].selected(expression: expressions[table.columns[place].name] ?? "NULL")
        }
        return PostgresStatement("SELECT \(cells.joined(separator: ", "))")
    }

    /// Returns the values of the same columns.
    ///
    /// A column that must not be null cannot use a default of null.
    func databaseDefaults(_ result: PostgresResult, of places: [Int]) -> [Int: SQLValue] {
        var values: [Int: SQLValue] = [:]
        for (cell, place) in places.enumerated() {
            let value = columns[place].value(result, 0, cell)
            if value != .null || table.columns[place].isNullable { values[place] = value }
        }
        return values
    }

    var renderer: FilterRenderer { renderer(nil) }

    func renderer(_ alias: Identifier?) -> FilterRenderer {
        FilterRenderer(
            schema: table.definition.schema,
            dateUnit: .microseconds,
            dialect: .postgres,
            table: alias
        )
    }

    var split: FilterSplit { FilterSplit(schema: table.definition.schema) }
}
