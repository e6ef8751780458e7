// SearchRenderer: renders searches in a table's search index, which only SQLite on a device has.

extension TableSchema {
    /// The name of the table's search index.
    package var searchIndex: Identifier { Identifier("tideline.\(name).search") }
}

extension Identifier {
    /// The key that SQLite assigns to each row of a table.
    package static let rowKey = Identifier("_rowid_")
    /// The key of a row that a ranked search found.
    package static let searchKey = Identifier("tideline.key")
    /// The rank of a row in a ranked search.
    package static let searchRank = Identifier("tideline.rank")
}

extension QueryExpression {
    /// The searches that a row must match, and the rest of the condition; nil if no search has a
    /// rank.
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
    package var chainOfConditions: [QueryExpression] {
        if case .all = kind { chain } else { [self] }
    }
}
