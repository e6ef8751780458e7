// OrderedSelect: the statement for a query with a localized order that an index provides.

import TidelineCore

/// A query whose order a localized index provides.
struct OrderedSelect {
    private let query: TableQuery
    private let table: SQLiteTable
    private let tables: OrderTables
    private let filter: QueryExpression?
    private let order: [SortKey]

    /// Creates the query; nil if no index provides its order.
    ///
    /// The statement joins the table with the copy that has the index. SQLite decides whether to
    /// start with this index or with another one that excludes more rows.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the query is not valid.
    init?(_ query: TableQuery, _ table: SQLiteTable) throws {
        guard let tables = table.order, query.order.contains(where: { $0.localized != nil }) else {
            return nil
        }
        let filter = try SQLiteStoreSQL.checked(query.filter, table)
        let order = try SQLiteStoreSQL.order(query.order, table)
        guard let first = order.first,
            tables.indexes.contains(where: { $0.has(order, first, filter) })
        else { return nil }
        (self.query, self.table, self.tables) = (query, table, tables)
        (self.filter, self.order) = (filter, order)
    }

    /// `columns` contains the columns to read; nil to read whole rows.
    func select(only columns: [ColumnDefinition]?) throws -> SQL {
        let list =
            columns?.map { Identifier($0.name).quoted }.joined(separator: ", ") ?? table.selectList
        var renderer = SQLiteStoreSQL.renderer(table)
        renderer.copies = tables.copies
        let name = Identifier(table.schema.name)
        var sql: SQL = """
            SELECT \(SQL(verbatim: list)) FROM \(tables.copy)
            JOIN \(name) ON \(name)."id" = \(OrderTables.key)
            """
        if let filter { sql.append("\nWHERE \(renderer.condition(filter))") }
        sql.append("\nORDER BY \(renderer.orderBy(order))")
        if query.limit != nil || query.offset > 0 {
            let limit = SQLValue.integer(Int64(query.limit ?? -1))
            sql.append("\nLIMIT \(limit) OFFSET \(.integer(Int64(query.offset)))")
        }
        return sql
    }
}

extension OrderedSelect {
    /// Returns the statement that counts the rows with null in an index's first column; nil for
    /// other conditions.
    ///
    /// A read that is sorted by a non-optional property counts these rows first.
    static func count(_ filter: Filter?, _ table: SQLiteTable) throws -> SQL? {
        guard let tables = table.order, let filter, !filter.expression.searches,
            let condition = try SQLiteStoreSQL.checked(filter, table),
            condition.chainOfConditions.contains(where: { part in
                guard case .compare(.eq, let value, .null) = part.kind else { return false }
                return tables.indexes.contains { value.kind == .field($0.columns[0]) }
            })
        else { return nil }
        var renderer = SQLiteStoreSQL.renderer(table)
        renderer.copies = tables.copies
        let name = Identifier(table.schema.name)
        return """
            SELECT count(*) FROM \(tables.copy) JOIN \(name) ON \(name)."id" = \(OrderTables.key)
            WHERE \(renderer.condition(condition))
            """
    }
}

extension TableOrderIndex {
    /// Returns whether the index provides an order, given that the condition compares its leading
    /// columns with values.
    fileprivate func has(_ keys: [SortKey], _ first: SortKey, _ filter: QueryExpression?) -> Bool {
        let keys = keys.prefix { !$0.isID }
        let compared = columns.count - keys.count
        guard compared >= 0, keys.allSatisfy({ $0.isAscending == first.isAscending }) else {
            return false
        }
        let isSame = zip(columns.dropFirst(compared), keys).allSatisfy { column, key in
            key.expression.kind == .field(column)
                && key.localized == (column == columns.last ? order : nil)
        }
        let parts = filter?.chainOfConditions ?? []
        return isSame
            && columns.prefix(compared).allSatisfy { column in
                parts.contains { $0.isEquality(of: column) }
            }
    }
}

extension QueryExpression {
    /// Returns whether the condition compares a column with a single value.
    fileprivate func isEquality(of column: String) -> Bool {
        guard case .compare(.eq, let left, let right) = kind else { return kind == .field(column) }
        return switch (left.kind, right.kind) {
        case (.field(column), .value), (.value, .field(column)): true
        default: false
        }
    }
}
