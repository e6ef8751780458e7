// RankedSelect: the statement for a query whose matches are ordered by rank.

import TidelineCore

/// A query that is ordered by how well its rows match a search.
struct RankedSelect {
    private let query: TableQuery
    private let table: SQLiteTable
    private let search: String
    /// The condition without the search.
    private let rest: QueryExpression?
    private let order: [SortKey]

    /// Creates the query; nil if it is not ordered by rank.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the order is by rank but there is no
    ///   search.
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

    private var isByRank: Bool { order.first?.expression.searches == true }

    /// Whether every match of the search is a result, and the results are ordered by rank.
    private var isPlain: Bool { isByRank && rest == nil }

    /// Returns the statement that selects the keys of the search's matches, newest rows first.
    ///
    /// For each statement, FTS5 merges the lists of all words that begin with a prefix. A single
    /// statement that returns keys therefore takes half the time of two statements that count and
    /// read.
    func newestKeys(upTo limit: Int) -> SQL {
        """
        SELECT "rowid" FROM \(index) WHERE \(index) MATCH \(.text(search))
        ORDER BY "rowid" DESC LIMIT \(limit)
        """
    }

    /// Returns the newest matches that the query's limit and offset select; nil if the query needs
    /// more matches.
    private func shown(_ newest: [Int64]) -> ArraySlice<Int64>? {
        guard isPlain, let limit = query.limit else { return nil }
        let (end, overflows) = query.offset.addingReportingOverflow(limit)
        guard !overflows, end <= newest.count else { return nil }
        return newest[query.offset..<end]
    }

    /// Returns the statement that selects the rows.
    ///
    /// If `withRank` is true, the key and rank of each row follow its columns.
    func select(
        only columns: [ColumnDefinition]?,
        from matches: SearchMatches,
        withRank: Bool = false
    ) throws -> SQL {
        var list =
            columns?.map { Identifier($0.name).quoted }.joined(separator: ", ") ?? table.selectList
        if withRank {
            list += ", \(Identifier.searchKey.quoted), \(Identifier.searchRank.quoted)"
        }
        let key = Identifier.searchKey
        let rowKey = Identifier.rowKey
        let isRanked = matches.isRanked
        let source: SQL
        if case .newest(let newest) = matches, let keys = shown(newest) {
            source = """
                SELECT "value" AS \(key), 0.0 AS \(Identifier.searchRank)
                FROM json_each(\(.text(Self.list(keys))))
                """
        } else {
            // The limit applies to the matches themselves, so that only the result rows are read.
            source =
                self.matches(isRanked: isRanked) + (isPlain ? matchesOrder(isRanked) + limit : "")
        }
        var sql: SQL = """
            SELECT \(SQL(verbatim: list))
            FROM (\(source))
            CROSS JOIN \(Identifier(table.schema.name))
            ON \(Identifier(table.schema.name)).\(rowKey) = \(key)
            """
        if let rest { sql.append("\nWHERE \(SQLiteStoreSQL.renderer(table).condition(rest))") }
        if isByRank {
            sql.append(matchesOrder(isRanked))
        } else {
            let order = try SQLiteStoreSQL.order(order, table)
            sql.append("\nORDER BY \(SQLiteStoreSQL.renderer(table).orderBy(order))")
        }
        if !isPlain { sql.append(limit) }
        return sql
    }

    /// Returns the statement for the marked excerpts of rows: for each column, the best snippet and
    /// the whole text.
    ///
    /// The statement reads the matches only once. With an index lookup per key, FTS5 would merge
    /// the word lists each time.
    func excerpts(_ columns: Int, keys: [Int64], words: Int) -> SQL {
        let start = SQLValue.text(String(SearchExcerpt.start))
        let end = SQLValue.text(String(SearchExcerpt.end))
        let parts = (0..<columns).map { column -> SQL in
            """
            , snippet(\(index), \(column), \(start), \(end), '…', \(words)),
            highlight(\(index), \(column), \(start), \(end))
            """
        }
        return """
            SELECT "rowid"\(parts.joined(separator: "")) FROM \(index)
            WHERE \(index) MATCH \(.text(search))
            AND "rowid" BETWEEN \(.integer(keys.min() ?? 0)) AND \(.integer(keys.max() ?? 0))
            AND +"rowid" IN (SELECT "value" FROM json_each(\(.text(Self.list(keys[...])))))
            """
    }

    /// Returns a JSON array of keys.
    private static func list(_ keys: ArraySlice<Int64>) -> String {
        "[\(keys.map(String.init).joined(separator: ","))]"
    }

    /// Selects the keys and ranks of the matches.
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

/// The matches of a search that a query must read.
enum SearchMatches {
    /// All matches, ordered by rank.
    case ranked
    /// Too many matches to compute the rank of each.
    ///
    /// The newest rows come first; the keys are those of the newest rows.
    case newest([Int64])

    var isRanked: Bool {
        switch self {
        case .ranked: true
        case .newest: false
        }
    }
}
