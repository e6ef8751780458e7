// SQLiteRelatedReads: reads the rows of several keys in one statement, and prepares conditions on
// other tables.

import TidelineCore
import TidelineSQLite

/// The reads of related rows in a transaction.
struct SQLiteRelatedReads {
    let transaction: SQLiteTransaction

    /// Returns the rows of several keys, omitting one column.
    func rows(_ query: KeyedQuery, in name: String, omitting column: String) throws -> [Row] {
        guard Database.readsRowsOfKeys else {
            return try rowsOfEachKey(query, in: name, omitting: column)
        }
        let table = try transaction.table(name)
        let names = query.query.select
        let columns = names.flatMap { table.columns(named: $0) }
        if query.query.filter?.expression.searches == true {
            try transaction.updateSearch(of: table)
        }
        return try transaction.searching(query.query, name) {
            var located = query
            located.query.filter = try filter(query.query.filter)
            let sql = try KeyedSelect(located, table).select(only: columns)
            let isMasked = column != MembershipMask.name
            if names == nil, table.hasExtra, table.others.isEmpty, !isMasked {
                return try transaction.recordRows(of: sql, table)
            }
            let rows = try transaction.rows(of: sql, table, columns, names, isMasked: isMasked)
            guard isMasked else { return rows }
            var member = RowMember(column)
            return rows.map { member.removed(from: $0) }
        }
    }

    /// Reads the rows of each key with a separate statement, for a version of SQLite without JSON
    /// or window functions.
    private func rowsOfEachKey(
        _ query: KeyedQuery,
        in name: String,
        omitting column: String
    ) throws -> [Row] {
        try query.keys.flatMap { key in
            let hasKey = Filter.equal(query.column, .string(key))
            var one = query.query
            one.filter = one.filter.map { $0 && hasKey } ?? hasKey
            return try transaction.recordRows(one, in: name, omitting: column)
        }
    }

    /// Returns a filter whose conditions on other tables are checked against those tables.
    func filter(_ filter: Filter?) throws -> Filter? {
        guard let filter, filter.expression.relates else { return filter }
        return Filter(
            try filter.expression.replacing { kind in
                guard case .related(let rows) = kind else { return nil }
                return .related(try located(rows))
            }
        )
    }

    private func located(_ rows: RelatedRows) throws -> RelatedRows {
        let other = try transaction.table(rows.table)
        guard let key = other.schema.column(matching: rows.key) else {
            throw SyncError.unsupportedQuery(
                "table '\(other.schema.name)' has no column '\(rows.key)'"
            )
        }
        if rows.condition?.searches == true { try transaction.updateSearch(of: other) }
        let inner = try filter(rows.condition.map { Filter($0) })
        var result = rows
        result.key = key.name
        result.condition = try SQLiteStoreSQL.checked(inner, other)
        result.schema = other.schema
        return result
    }
}

/// The SELECT statement for the rows of several keys.
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
                "related records ordered by rank. Order them by a property."
            )
        }
        (self.query, self.table) = (query, table)
        self.column = Identifier(column.name)
    }

    /// `columns` contains the columns to read; nil to read whole rows.
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
        if table.schema.indexes.contains(where: { $0.first == column.name }) {
            return try selectByKey(list, order)
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

    /// Finds the rows of each key with the column's index, which is faster than ranking all rows.
    private func selectByKey(_ list: SQL, _ order: SQL) throws -> SQL {
        let (name, key, row) = (
            Identifier(table.schema.name), Identifier("__key"), Identifier.rowKey
        )
        let limit = SQLValue.integer(Int64(query.query.limit ?? -1))
        return """
            SELECT \(list) FROM (SELECT "value" AS \(key) FROM json_each(\(.text(keys))))
            CROSS JOIN \(name) ON \(name).\(row) IN (
            SELECT \(row) FROM \(name) WHERE \(column) = \(key)\(try condition())
            ORDER BY \(order) LIMIT \(limit) OFFSET \(.integer(Int64(query.query.offset))))
            ORDER BY \(column), \(order)
            """
    }

    private func rows() throws -> SQL {
        // A single parameter carries any number of keys.
        """

        FROM \(Identifier(table.schema.name))
        WHERE \(column) IN (SELECT "value" FROM json_each(\(.text(keys))))\(try condition())
        """
    }

    /// Returns the query's condition, to be appended to another condition.
    private func condition() throws -> SQL {
        let condition = try SQLiteStoreSQL.condition(query.query.filter, table)
        return condition.map { " AND (\($0))" } ?? ""
    }

    /// The keys as a JSON array.
    private var keys: String {
        var writer = JSONWriter()
        writer.strings(query.keys)
        return writer.text
    }
}
