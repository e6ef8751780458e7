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
        if let last, last == rows { return nil }
        last = rows
        return try table.hits(rows, .skip)
    }

    /// The words of any row change the rank of the others.
    func isReached(by change: StoreChange) -> Bool {
        change.changes(table.name) || change.changes(anyOf: query.filter?.expression.relatedTables)
    }
}

extension SearchedRow: Equatable {
    /// Returns whether two rows look the same: their ranks may differ, because other rows change them.
    public static func == (one: SearchedRow, other: SearchedRow) -> Bool {
        one.row == other.row && one.excerpts == other.excerpts
    }
}
