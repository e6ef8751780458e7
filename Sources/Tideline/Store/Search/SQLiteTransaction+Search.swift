// SQLiteTransaction+Search: queries that use a table's search index.

import TidelineCore
import TidelineSQLite

/// An error that ends a transaction, which is then repeated with updated indexes.
///
/// The indexes are search indexes or localized indexes. Only a writer in an open transaction can
/// update an index.
struct IndexBehind: Error {
    var tables: Set<String>
    /// Whether an index is damaged, in which case all indexes of the tables are rebuilt.
    var isDamaged = false
}

extension SQLiteTransaction {
    /// The maximum number of matching rows that are ordered by rank, because a rank must be
    /// computed for each of them.
    static let rankedRowsMax = 3000

    /// Returns the statement for a query; first updates the search index if the query uses it.
    func select(
        _ query: TableQuery,
        _ table: SQLiteTable,
        only columns: [ColumnDefinition]?
    ) throws -> SQL {
        var query = query
        query.filter = try located(query.filter)
        guard query.searches else {
            guard let select = try OrderedSelect(query, table) else {
                return try SQLiteStoreSQL.select(query, table, only: columns)
            }
            try updateOrder(of: table)
            return try select.select(only: columns)
        }
        try updateSearch(of: table)
        guard let ranked = try RankedSelect(query, table) else {
            query.order.removeAll { $0.expression.searches }
            return try SQLiteStoreSQL.select(query, table, only: columns)
        }
        return try ranked.select(only: columns, from: matches(of: ranked))
    }

    /// Returns the rows of a query, with the positions of the matches.
    ///
    /// If the search text contains no words, the rows have no matches.
    func search(_ query: TableQuery, in name: String) throws -> [SearchedRow] {
        try searching(query, name) {
            let table = try self.table(name)
            try updateSearch(of: table)
            var query = query
            query.filter = try located(query.filter)
            guard let ranked = try RankedSelect(query, table) else {
                var plain = query
                plain.order.removeAll { $0.expression.searches }
                return try rows(plain, in: name, isMasked: false).map { row in
                    SearchedRow(row: row, rank: 0, excerpts: Excerpts.plain(of: row, table))
                }
            }
            let sql = try ranked.select(only: nil, from: matches(of: ranked), withRank: true)
            let statement = try database.prepare(sql.text(for: .sqlite))
            defer { statement.reset() }
            try statement.bind(sql.bindings)
            let place = table.extraIndex
            var found: [(row: Row, key: Int64, rank: Double)] = []
            while try statement.step() {
                found.append(
                    (
                        row(statement, table, isMasked: false), statement.integer(place),
                        statement.cell(place + 1).real
                    )
                )
            }
            let excerpts = try Excerpts.read(ranked, keys: found.map(\.key), table, database)
            return found.map { row, key, rank in
                SearchedRow(row: row, rank: rank, excerpts: excerpts[key] ?? [:])
            }
        }
    }

    /// Runs a query; if an index is damaged, rebuilds the indexes that the query may use and runs
    /// the query again.
    func searching<Result>(
        _ query: TableQuery,
        _ table: String,
        _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError where error.isCorrupt {
            var names = query.searchedTables(in: table)
            let hasOrder = try self.table(table).order != nil
            if hasOrder { names.insert(table) }
            guard !names.isEmpty else { throw error }
            guard isWriter, database.isInTransaction else {
                throw IndexBehind(tables: names, isDamaged: true)
            }
            for table in try names.map({ try self.table($0) }) {
                try table.search?.remake(in: database)
                try table.order?.remake(in: database)
            }
            return try body()
        }
    }

    /// Returns the matches to read; they are ordered by rank unless there are too many.
    private func matches(of ranked: RankedSelect) throws -> SearchMatches {
        let sql = ranked.newestKeys(upTo: Self.rankedRowsMax + 1)
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var keys: [Int64] = []
        while try statement.step() { keys.append(statement.integer(0)) }
        return keys.count <= Self.rankedRowsMax ? .ranked : .newest(keys)
    }

    /// Updates the search index of a table if the transaction may write.
    ///
    /// - Throws: ``IndexBehind`` if the index is outdated and the transaction can only read.
    func updateSearch(of table: SQLiteTable) throws {
        guard let search = table.search, try search.isBehind(in: database) else { return }
        guard isWriter else { throw IndexBehind(tables: [table.schema.name]) }
        try search.update(in: database)
    }

    /// Updates the localized indexes of a table if the transaction may write.
    ///
    /// - Throws: ``IndexBehind`` if the indexes are outdated and the transaction can only read.
    func updateOrder(of table: SQLiteTable) throws {
        guard let order = table.order, try order.isBehind(in: database) else { return }
        guard isWriter else { throw IndexBehind(tables: [table.schema.name]) }
        try order.update(in: database)
    }

    /// Updates the search indexes and localized indexes of all tables at the end of a transaction.
    func updateIndexes() throws {
        for table in tables.values {
            try table.search?.update(in: database)
            try table.order?.update(in: database)
        }
    }

    func eraseRemovedWords(in table: String) throws {
        try self.table(table).search?.eraseRemovedWords(in: database)
    }
}

extension SyncError {
    /// Returns the error for a search whose index differs from the model's index or cannot be used.
    static func changedSearch(_ table: String) -> SyncError {
        .unsupportedQuery(
            """
            table '\(table)' has no usable search index. If another version of the app changed it, initialize the \
            client again; if this build of SQLite has no full-text search (FTS5), use one that has it.
            """
        )
    }
}

/// A reader of the match positions in a row's columns.
private enum Excerpts {
    /// The maximum number of words in a snippet; SQLite's own limit is 64.
    private static let snippetWords = 32

    /// Reads the excerpts of the rows that a search found, by row key.
    static func read(
        _ ranked: RankedSelect,
        keys: [Int64],
        _ table: SQLiteTable,
        _ database: Database
    ) throws -> [Int64: [String: SearchExcerpts]] {
        guard !keys.isEmpty else { return [:] }
        let columns = table.search?.search.columns ?? []
        let sql = ranked.excerpts(columns.count, keys: keys, words: snippetWords)
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var found: [Int64: [String: SearchExcerpts]] = [:]
        while try statement.step() {
            var excerpts: [String: SearchExcerpts] = [:]
            for (index, name) in columns.enumerated() {
                let place = Int32(2 * index + 1)
                guard !statement.isNull(place) else { continue }
                excerpts[name] = SearchExcerpts(
                    snippet: SearchExcerpt(marked: statement.text(place)),
                    whole: SearchExcerpt(marked: statement.text(place + 1))
                )
            }
            found[statement.integer(0)] = excerpts
        }
        return found
    }

    /// Returns the excerpts for a row without matches.
    static func plain(of row: Row, _ table: SQLiteTable) -> [String: SearchExcerpts] {
        var excerpts: [String: SearchExcerpts] = [:]
        for name in table.search?.search.columns ?? [] {
            guard let text = row[name]?.text else { continue }
            let words = text.split(maxSplits: snippetWords, whereSeparator: \.isWhitespace)
            let start = words.prefix(snippetWords).joined(separator: " ")
            excerpts[name] = SearchExcerpts(
                snippet: SearchExcerpt(marked: words.count > snippetWords ? start + "…" : text),
                whole: SearchExcerpt(marked: text)
            )
        }
        return excerpts
    }
}
