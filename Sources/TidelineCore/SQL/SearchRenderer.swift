// SearchRenderer: renders searches of a table's search index, which only SQLite on a device has.

extension TableSchema {
    /// The name of the table's search index.
    package var searchIndex: Identifier { Identifier("tideline.\(name).search") }
}

extension Identifier {
    /// The key that SQLite itself gives each row of a table.
    package static let rowKey = Identifier("_rowid_")
    /// The key of a row that a ranked search found.
    package static let searchKey = Identifier("tideline.key")
    /// How well a row matches a ranked search.
    package static let searchRank = Identifier("tideline.rank")
}

extension FilterRenderer {
    /// The maximum depth of SQLite's stack for a search.
    static let searchSteps = 30

    /// Renders a search as a condition that is never null, or the rank of a row of a ranked search.
    func search(_ search: QueryExpression.Search) -> SQL {
        switch search {
        case .rank: return "\(Identifier.searchRank)"
        case .matches(let text):
            // FilterChecker has rejected a text that cannot be read.
            guard let words = try? SearchText(text) else { return dialect.constant(false) }
            let index = schema.searchIndex
            let key = column(Identifier.rowKey.name)
            func found(_ expression: String) -> SQL {
                "(SELECT \"rowid\" FROM \(index) WHERE \(index) MATCH \(.text(expression)))"
            }
            if let required = words.required { return "(\(key) IN \(found(required)))" }
            if let excluded = words.excluded { return "(\(key) NOT IN \(found(excluded)))" }
            return dialect.constant(true)
        }
    }

    /// Returns whether a condition contains a search in a part that only a program can evaluate, which cannot search: one
    /// that nests too deep for SQL, or reads a JSON document.
    package func nestsSearchTooDeep(_ condition: QueryExpression) -> Bool {
        guard condition.searches, steps(condition) > Self.stepsMax else { return false }
        guard case .all = condition.kind else { return true }
        let chain = condition.chain
        let joints = Self.steps(chain: chain.count)
        return chain.contains { $0.searches && steps($0) + joints > Self.stepsMax }
    }
}

extension QueryExpression {
    /// The searches that a row must match, and the rest of the condition; nil if none of the searches has a rank.
    package var rankedSearch: (search: String, rest: QueryExpression?)? {
        var searches: [String] = []
        var rest: [QueryExpression] = []
        for part in chainOfConditions {
            if case .search(.matches(let text)) = part.kind,
                let required = (try? SearchText(text))?.required
            {
                searches.append(required)
            } else {
                rest.append(part)
            }
        }
        guard !searches.isEmpty else { return nil }
        let condition = rest.count > 1 ? QueryExpression(.all(rest)) : rest.first
        return (searches.joined(separator: " AND "), condition)
    }

    /// The conditions that must all be true.
    private var chainOfConditions: [QueryExpression] {
        if case .all = kind { chain } else { [self] }
    }
}
