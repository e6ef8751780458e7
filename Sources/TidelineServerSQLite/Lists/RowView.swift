// RowView: rows that a caller may see.
//
// The view is part of the statement. Its text is the same for all users, so it is prepared once.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A reader of single rows of a table for a caller with a visibility filter.
struct RowView {
    private let table: SQLiteTable
    private let view: QueryExpression
    private let renderer: FilterRenderer

    init(_ table: SQLiteTable, _ view: QueryExpression) {
        self.table = table
        self.view = view
        renderer = FilterRenderer(schema: table.table.definition.schema, dateUnit: .microseconds)
    }

    /// Returns the row; nil if it is not visible.
    ///
    /// - Throws: The error of `bounds` if the row is too large.
    func row(_ id: String, _ database: Database, _ bounds: RowBounds) throws -> StoredRow? {
        var sql: SQL = "SELECT \(SQL(verbatim: table.cellNames)) FROM \(Identifier(table.name))"
        sql.append(" WHERE \"id\" = \(.text(id)) AND (\(renderer.condition(view)))")
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        return try statement.step() ? try table.row(statement, bounds) : nil
    }
}
