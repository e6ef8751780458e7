// RankedSelect: the statement of a query whose matches are ordered by rank.

import TidelineCore

/// A query that is ordered by how well its rows match a search.
struct RankedSelect {
    private let query: TableQuery
    private let table: SQLiteTable
    private let search: String
    /// The rest of the condition.
    private let rest: QueryExpression?
    private let order: [SortKey]

    /// Nil if the query is not ordered by rank.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an order by rank without a search.
    init?(_ query: TableQuery, _ table: SQLiteTable) throws {
        let isByRank = query.order.contains { $0.expression.searches }
        guard isByRank || query.order.isEmpty else { return nil }
        let filter = query.filter?.expression
        guard filter?.searches == true else {
            throw SyncError.unsupportedQuery(
                "an order by rank needs a search. Add 'matching' to the condition."
            )
        }
        let checked = try SQLiteStoreSQL.checked(query.filter, table)
        guard let (search, rest) = checked?.rankedSearch else { return nil }
        self.query = query
        self.table = table
        self.search = search
        self.rest = rest
        order =
            query.order.isEmpty
            ? [SortKey(QueryExpression(.search(.rank)), ascending: true)] : query.order
    }

    private var index: Identifier { table.schema.searchIndex }

    /// Returns the statement that counts the matches of the search alone, up to a number.
    func count(upTo limit: Int) -> SQL {
        "SELECT count(*) FROM (SELECT 1 FROM \(index) WHERE \(index) MATCH \(.text(search)) LIMIT \(limit))"
    }

    /// Returns the statement for the rows.
    ///
    /// Without `isRanked`, the rows that were stored first on the device come last. `withRank` adds the key and the rank
    /// of each row after its columns.
    func select(
        only columns: [ColumnDefinition]?,
        isRanked: Bool,
        withRank: Bool = false
    ) throws -> SQL {
        var list =
            columns?.map { Identifier($0.name).quoted }.joined(separator: ", ") ?? table.selectList
        if withRank {
            list += ", \(Identifier.searchKey.quoted), \(Identifier.searchRank.quoted)"
        }
        let first = order.first?.expression.searches == true
        let key = Identifier.searchKey
        let rowKey = Identifier.rowKey
        // The limit applies to the matches themselves, so that only the rows of the result are read.
        let isPlain = first && rest == nil
        var sql: SQL = """
            SELECT \(SQL(verbatim: list))
            FROM (\(matches(isRanked: isRanked))\(isPlain ? matchesOrder(isRanked) + limit : ""))
            CROSS JOIN \(Identifier(table.schema.name))
            ON \(Identifier(table.schema.name)).\(rowKey) = \(key)
            """
        if let rest { sql.append("\nWHERE \(SQLiteStoreSQL.renderer(table).condition(rest))") }
        if first {
            sql.append(matchesOrder(isRanked))
        } else {
            let order = try SQLiteStoreSQL.order(order, table)
            sql.append("\nORDER BY \(SQLiteStoreSQL.renderer(table).orderBy(order))")
        }
        if !isPlain { sql.append(limit) }
        return sql
    }

    /// Returns the statement for the marked excerpts of a row: for each column the best part, and the whole text.
    func excerpts(_ columns: Int, key: Int64, words: Int) -> SQL {
        let start = SQLValue.text(String(SearchExcerpt.start))
        let end = SQLValue.text(String(SearchExcerpt.end))
        let parts = (0..<columns).map { column -> SQL in
            """
            snippet(\(index), \(column), \(start), \(end), '…', \(words)),
            highlight(\(index), \(column), \(start), \(end))
            """
        }
        return """
            SELECT \(parts.joined(separator: ", ")) FROM \(index)
            WHERE \(index) MATCH \(.text(search)) AND "rowid" = \(.integer(key))
            """
    }

    /// Selects the keys and the ranks of the matches.
    private func matches(isRanked: Bool) -> SQL {
        let (key, rank) = (Identifier.searchKey, Identifier.searchRank)
        var weights = SQL()
        for weight in table.search?.search.weights ?? [] { weights.append(", \(.real(weight))") }
        let value: SQL = isRanked ? "bm25(\(index)\(weights))" : "0.0"
        return """
            SELECT "rowid" AS \(key), \(value) AS \(rank) FROM \(index)
            WHERE \(index) MATCH \(.text(search))
            """
    }

    private func matchesOrder(_ isRanked: Bool) -> SQL {
        let (key, rank) = (Identifier.searchKey, Identifier.searchRank)
        return isRanked ? "\nORDER BY \(rank), \(key)" : "\nORDER BY \(key) DESC"
    }

    private var limit: SQL {
        guard query.limit != nil || query.offset > 0 else { return "" }
        let limit = SQLValue.integer(Int64(query.limit ?? -1))
        return "\nLIMIT \(limit) OFFSET \(.integer(Int64(query.offset)))"
    }
}
