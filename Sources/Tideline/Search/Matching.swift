// Matching: searches in queries, for `where:` closures and as a method of a query.

import TidelineCore

extension Columns {
    /// Whether the record contains all words of a search text, in the properties of the model's search index.
    ///
    /// Letter case and accents are ignored. `wart*` matches the beginning of a word, `"…"` matches a phrase, and
    /// `-word` excludes records that contain the word. Everything else is read as words, so every search text is valid.
    /// A search text without letters and digits matches every record, so an empty search field shows all records.
    ///
    /// ```swift
    /// let found = try await todos.read(where: { $0.matching("oat mil*") && !$0.complete })
    /// ```
    ///
    /// If all records of a query must match, and the query has no order, the best matches come first
    /// (``SortTerm/rank``).
    ///
    /// Only a ``SQLiteStore`` can evaluate a search, and only for a model that declares ``SyncRecord/search``. A read
    /// from the server, a pull and other stores throw ``SyncError`` with code `unsupportedQuery`. A search text of more
    /// than 1,000 bytes or 32 words throws the same error.
    public func matching(_ text: String) -> Condition {
        Column(QueryExpression(.search(.matches(text))))
    }
}

extension TableQuery {
    /// Whether the filter or the order uses the table's search index.
    var searches: Bool {
        filter?.expression.searches == true || order.contains { $0.expression.searches }
    }

    /// Returns the tables whose search indexes the filter and the order use.
    func searchedTables(in table: String) -> Set<String> {
        let parts = order.map(\.expression) + (filter.map { [$0.expression] } ?? [])
        return parts.reduce(into: []) { $0.formUnion($1.searchedTables(in: table)) }
    }
}

extension QueryExpression {
    /// Returns the tables whose search indexes an expression on the rows of a table uses.
    func searchedTables(in table: String) -> Set<String> {
        var tables: Set<String> = []
        _ = contains { part in
            switch part {
            case .search: tables.insert(table)
            case .related(let rows):
                guard let condition = rows.condition else { return false }
                tables.formUnion(condition.searchedTables(in: rows.table))
            case .call, .all, .any, .isIn, .compare, .arithmetic, .not, .negate, .position,
                .orElse, .member, .elementCount, .anyElement, .localizedCompare, .field, .value,
                .element:
                return false
            }
            return false
        }
        return tables
    }
}

extension SyncError {
    /// Returns the error of a store without search indexes.
    static func noSearch() -> SyncError {
        .unsupportedQuery(
            "a search for words (matching) in a store other than SQLiteStore. Use a SQLiteStore."
        )
    }
}
