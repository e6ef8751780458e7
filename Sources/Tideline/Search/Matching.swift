// Matching: searches in queries, for `where:` closures and as a method of a query.

import TidelineCore

extension Columns {
    /// Whether the record has all words of a text, in the properties of the model's search index.
    ///
    /// Letter case and accents do not matter. `wart*` is the beginning of a word, `"…"` is a phrase whose words follow
    /// each other, and `-word` excludes the records with the word. All else is read as words: no text is a syntax
    /// error. A text without letters and digits matches every record, so an empty search field shows all.
    ///
    /// ```swift
    /// let found = try await todos.read(where: { $0.matching("oat mil*") && !$0.complete })
    /// ```
    ///
    /// If all records of a query must match, and the query has no order, the best matches come first
    /// (``SortTerm/rank``).
    ///
    /// Only a ``SQLiteStore`` can evaluate it, for a model that declares ``SyncRecord/search``. A read from the server,
    /// a pull and other stores throw ``SyncError`` with code `unsupportedQuery`. So does a text of more than 1,000
    /// bytes or 32 words.
    public func matching(_ text: String) -> Condition {
        Column(QueryExpression(.search(.matches(text))))
    }
}

extension TableQuery {
    /// Whether the filter or the order uses the table's search index.
    var searches: Bool {
        filter?.expression.searches == true || order.contains { $0.expression.searches }
    }
}

extension SyncError {
    /// Returns the error of a store without search indexes.
    static func noSearch() -> SyncError {
        .unsupportedQuery("a search for words (matching) in a store other than SQLiteStore")
    }
}
