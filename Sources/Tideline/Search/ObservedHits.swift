// ObservedHits: an observed search, with the ranges of the matches.

import TidelineCore

/// The records that a search found.
struct ObservedHits<Record: Sendable>: Observed {
    private let table: SyncTable<Record>
    private let query: TableQuery
    private var last: [SearchedRow]?

    init(_ table: SyncTable<Record>, _ query: TableQuery) {
        (self.table, self.query) = (table, query)
    }

    mutating func run() async throws -> [SearchHit<Record>]? {
        let rows = try await table.searchedRows(query)
        if let last, last.elementsEqual(rows, by: { $0.looksLike($1) }) { return nil }
        last = rows
        return try table.hits(rows, .skip)
    }

    /// The words of each row affect the ranks of all other rows.
    func isReached(by change: StoreChange) -> Bool {
        let related = table.engine.catalog.relatedTables(of: query.filter)
        return change.changes(table.name) || change.changes(anyOf: related)
    }
}

extension SearchedRow {
    /// Returns whether both rows have the same values and matches; their ranks may differ, because other rows
    /// affect them.
    fileprivate func looksLike(_ other: SearchedRow) -> Bool {
        row == other.row && excerpts == other.excerpts
    }
}
