// LocalColumnWriter: preserves the values of local columns when a server row replaces the local
// row.

import TidelineCore

/// A writer that preserves the values of local columns during one transaction.
///
/// Every row of a transaction is stored through this writer. A row from the server has no local
/// columns, and a row from the queue may have outdated values for them. The stored values therefore
/// remain unless the app itself sets the columns.
final class LocalColumnWriter: LocalStoreWriter {
    private let inner: any LocalStoreWriter
    /// The local columns of each table that has any.
    private let columns: [String: Set<String>]
    /// Whether rows are stored with their own values for local columns, because the app has set
    /// them.
    var setsColumns = false

    init(_ inner: any LocalStoreWriter, _ columns: [String: Set<String>]) {
        self.inner = inner
        self.columns = columns
    }

    func put(_ rows: [Row], in table: String) throws {
        guard let names = columns[table], !setsColumns else {
            return try inner.put(rows, in: table)
        }
        try inner.put(
            rows.map { row in
                let stored = try row[SystemColumn.id].flatMap { try inner.row(id: $0, in: table) }
                var kept = row
                for name in names { kept[name] = stored?[name] }
                return kept
            },
            in: table
        )
    }

    func put(page: RowPage, in table: String) throws {
        guard columns[table] == nil else { return try put(page.rows(), in: table) }
        try inner.put(page: page, in: table)
    }

    // MARK: - Unchanged

    func append(_ row: Row, in table: String) throws -> Int64 {
        try inner.append(row, in: table)
    }

    @discardableResult
    func delete(ids: [Value], in table: String) throws -> Int {
        try inner.delete(ids: ids, in: table)
    }

    func set(_ column: String, to value: Value, ofRow id: Value, in table: String) throws {
        try inner.set(column, to: value, ofRow: id, in: table)
    }

    func noteUncertain(rowWith id: String, in table: String) throws {
        try inner.noteUncertain(rowWith: id, in: table)
    }

    func eraseRemovedWords(in table: String) throws { try inner.eraseRemovedWords(in: table) }

    func rows(_ query: TableQuery, in table: String) throws -> [Row] {
        try inner.rows(query, in: table)
    }

    func row(id: Value, in table: String) throws -> Row? { try inner.row(id: id, in: table) }

    func count(_ filter: Filter?, in table: String) throws -> Int {
        try inner.count(filter, in: table)
    }

    func totals(_ query: TotalsQuery, in table: String) throws -> [RowTotals] {
        try inner.totals(query, in: table)
    }

    func sql(_ request: SQLRequest) throws -> SQLRows { try inner.sql(request) }

    func rows(_ query: TableQuery, in table: String, omitting column: String) throws -> [Row] {
        try inner.rows(query, in: table, omitting: column)
    }

    func recordRows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] { try inner.recordRows(query, in: table, omitting: column) }

    func keyedRows(_ query: KeyedQuery, in table: String, omitting column: String) throws -> [Row] {
        try inner.keyedRows(query, in: table, omitting: column)
    }

    var evaluatesRelatedRows: Bool { inner.evaluatesRelatedRows }

    var state: StoreState? { inner.state }

    func changes(since state: StoreState) -> StoreChange? { inner.changes(since: state) }

    func uncertainRows(_ filter: Filter?, in table: String) throws -> UncertainRows {
        try inner.uncertainRows(filter, in: table)
    }

    func search(_ query: TableQuery, in table: String) throws -> [SearchedRow] {
        try inner.search(query, in: table)
    }
}
