// SyncTable+Search: searches that return the places of the matches.

import TidelineCore

extension SyncTable {
    /// Returns the records that have all words of a text, the best matches first.
    ///
    /// ```swift
    /// for hit in try await jobs.search("boil* kiel") {
    ///     show(hit.record.title, hit.snippet(\.notes))
    /// }
    /// ```
    ///
    /// ``Columns/matching(_:)`` explains the text. A text without words finds the first records by id, without matches.
    ///
    /// - Parameters:
    ///   - text: The words to search for.
    ///   - condition: A condition that the records also meet.
    ///   - limit: The largest number of records to return, at most 1,000.
    /// - Returns: The records, each with its matches.
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the model declares no ``SyncRecord/search``, if the store is
    ///   not a ``SQLiteStore``, or for a text of more than 1,000 bytes or 32 words; `rowDoesNotFit`; `storeFailure`.
    ///   Errors of the closure are rethrown.
    @concurrent
    public func search(
        _ text: String,
        where condition: @Sendable (Columns<Record>) throws -> Condition = { _ in .always() },
        limit: Int = 50
    ) async throws -> [SearchHit<Record>] {
        let query = try searchQuery(text, Query(where: condition), limit)
        return try hits(try await searchedRows(query), .throw)
    }

    /// Emits the records that have all words of a text, now and after every change of the table.
    ///
    /// ```swift
    /// for try await hits in jobs.observeSearch("boil* kiel") { show(hits) }
    /// ```
    ///
    /// A change after which the result is the same emits no value. A row that does not decode is skipped. The iteration
    /// throws as ``search(_:where:limit:)``.
    public func observeSearch(
        _ text: String,
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        limit: Int = 50
    ) -> some AsyncSequence<[SearchHit<Record>], any Error> & Sendable {
        let query = Result { try searchQuery(text, Query(where: condition), limit) }
        return QueryObservation(engine: engine).observe { ObservedHits(self, try query.get()) }
    }

    private func searchQuery(
        _ text: String,
        _ query: Query<Record>,
        _ limit: Int
    ) throws -> TableQuery {
        var query = query.matching(text).table
        query.limit = min(limit, Self.hitsMax)
        try query.checkWindow()
        return query
    }

    /// The maximum number of records of a search, each of which costs two excerpts for each column.
    private static var hitsMax: Int { 1000 }

    fileprivate func searchedRows(_ query: TableQuery) async throws -> [SearchedRow] {
        let table = name
        let query = coder.meant(query.bound(now: engine.environment.now()))
        return try await engine.read { try $0.store.search(query, in: table) }
    }

    fileprivate func hits(
        _ rows: [SearchedRow],
        _ onDecodingFailure: DecodingFailurePolicy
    ) throws -> [SearchHit<Record>] {
        let coder = coder
        return try rows.compactMap { found in
            guard let record = try hand([found.row], onDecodingFailure).first else { return nil }
            return SearchHit(record, found) { try coder.column(for: $0) }
        }
    }
}

/// The records that a search found.
private struct ObservedHits<Record: Sendable>: Observed {
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
    func isReached(by change: StoreChange) -> Bool { change.tables[table.name] != nil }
}

extension SearchedRow: Equatable {
    /// Returns whether two rows look the same: their ranks may differ, because other rows change them.
    public static func == (one: SearchedRow, other: SearchedRow) -> Bool {
        one.row == other.row && one.excerpts == other.excerpts
    }
}
