// SQLiteTransaction+Related: the rows of several keys in one statement, and conditions on other tables.

import TidelineCore
import TidelineSQLite

extension SQLiteTransaction {
    var evaluatesRelatedRows: Bool { true }

    func recordRows(
        _ query: KeyedQuery,
        in name: String,
        omitting column: String
    ) throws -> [Row] {
        let table = try self.table(name)
        let columns = query.query.select.flatMap { table.columns(named: $0) }
        if query.query.filter?.expression.searches == true { try updateSearch(of: table) }
        return try searching(query.query, name) {
            var located = query
            located.query.filter = try self.located(query.query.filter)
            let sql = try KeyedSelect(located, table).select(only: columns)
            if query.query.select == nil, table.hasExtra, table.others.isEmpty,
                column == HeldMask.name
            {
                return try recordRows(of: sql, table)
            }
            let isMasked = column != HeldMask.name
            let rows = try rows(of: sql, table, columns, query.query.select, isMasked: isMasked)
            guard isMasked else { return rows }
            var member = RowMember(column)
            return rows.map { member.removed(from: $0) }
        }
    }

    /// Returns a filter whose conditions on other tables are checked for these tables.
    func located(_ filter: Filter?) throws -> Filter? {
        guard let filter, filter.expression.relates else { return filter }
        return Filter(
            try filter.expression.replacing { kind in
                guard case .related(let rows) = kind else { return nil }
                return .related(try located(rows))
            }
        )
    }

    private func located(_ rows: RelatedRows) throws -> RelatedRows {
        let other = try table(rows.table)
        guard let key = other.schema.column(matching: rows.key) else {
            throw SyncError.unsupportedQuery(
                "table '\(other.schema.name)' has no column '\(rows.key)'"
            )
        }
        if rows.condition?.searches == true { try updateSearch(of: other) }
        let inner = try located(rows.condition.map { Filter($0) })
        var result = rows
        result.key = key.name
        result.condition = try SQLiteStoreSQL.checked(inner, other)
        result.schema = other.schema
        return result
    }
}

/// The statement for the rows of several keys.
private struct KeyedSelect {
    private let query: KeyedQuery
    private let table: SQLiteTable
    private let column: Identifier

    init(_ query: KeyedQuery, _ table: SQLiteTable) throws {
        guard let column = table.schema.column(matching: query.column) else {
            throw SyncError.unsupportedQuery(
                "table '\(table.schema.name)' has no column '\(query.column)'"
            )
        }
        guard !query.query.order.contains(where: { $0.expression.searches }) else {
            throw SyncError.unsupportedQuery(
                "related records in the order of their ranks. Order them by a property."
            )
        }
        (self.query, self.table) = (query, table)
        self.column = Identifier(column.name)
    }

    /// `columns` are the columns to read; nil for whole rows.
    func select(only columns: [ColumnDefinition]?) throws -> SQL {
        let list = SQL(
            verbatim: columns?.map { Identifier($0.name).quoted }.joined(separator: ", ")
                ?? table.selectList
        )
        let order = SQLiteStoreSQL.renderer(table)
            .orderBy(try SQLiteStoreSQL.order(query.query.order, table))
        let (limit, offset) = (query.query.limit, query.query.offset)
        guard limit != nil || offset > 0 else {
            return "SELECT \(list)\(try rows())\nORDER BY \(column), \(order)"
        }
        let rank = Identifier("__rank")
        var sql: SQL = """
            SELECT \(list) FROM (
            SELECT \(list), row_number() OVER (PARTITION BY \(column) ORDER BY \(order)) AS \(rank)\(try rows()))
            WHERE \(rank) > \(.integer(Int64(offset)))
            """
        if let limit {
            let (last, isTooLarge) = limit.addingReportingOverflow(offset)
            sql.append(" AND \(rank) <= \(.integer(Int64(isTooLarge ? .max : last)))")
        }
        sql.append("\nORDER BY \(column), \(rank)")
        return sql
    }

    private func rows() throws -> SQL {
        // One parameter for any number of keys.
        var sql: SQL = """

            FROM \(Identifier(table.schema.name))
            WHERE \(column) IN (SELECT "value" FROM json_each(\(.text(list))))
            """
        if let condition = try SQLiteStoreSQL.condition(query.query.filter, table) {
            sql.append(" AND (\(condition))")
        }
        return sql
    }

    /// The keys as a JSON array.
    private var list: String {
        var writer = JSONWriter()
        writer.byte("[")
        for (index, key) in query.keys.enumerated() {
            if index > 0 { writer.byte(",") }
            writer.string(key)
        }
        writer.byte("]")
        return writer.text
    }
}
