// UnmaskedWriter: gives all code except pulls access to the rows of a store without their
// membership masks.
//
// A new row gets the bits of all queries of its table, because it was written on this device and
// each query will report it. An existing row keeps its mask.

import TidelineCore

/// The membership mask of rows, which a synced table stores in its own column.
enum MembershipMask {
    /// The column of the membership mask in a synced table.
    static let column = ColumnDefinition("__queries", .integer)

    static var name: String { column.name }

    /// The membership mask of a row; nil if no query has reported the row.
    static func bits(_ row: Row) -> Int64? {
        guard case .integer(let bits) = row[name] else { return nil }
        return bits
    }
}

/// A writer that adds masks to rows; consecutive rows with the same layout share one new layout.
struct MaskWriter {
    private var layout: RowLayout?
    private var masked: RowLayout?

    mutating func row(_ row: Row, bits: Int64?) -> Row {
        let mask = bits.map(Value.integer) ?? .null
        if layout !== row.rowLayout {
            layout = row.rowLayout
            let names = row.rowLayout.names
            masked =
                names.contains(MembershipMask.name) ? nil : RowLayout(names + [MembershipMask.name])
        }
        guard let masked else {
            var copy = row
            copy[MembershipMask.name] = mask
            return copy
        }
        var values: [Value] = []
        values.reserveCapacity(row.count + 1)
        values += row.allValues
        values.append(mask)
        return Row(layout: masked, values: values)
    }
}

extension TableSchema {
    /// The schema of a synced table in a store, including the membership mask.
    package var withMembershipMask: TableSchema {
        var schema = self
        schema.columns.append(MembershipMask.column)
        return schema
    }
}

extension LocalStoreWriter {
    /// Sets the membership mask of an existing row.
    func setMask(_ bits: Int64, of row: Row, in table: String) throws {
        try set(MembershipMask.name, to: .integer(bits), ofRow: row["id"] ?? .null, in: table)
    }
}

/// A reader of rows without their membership masks.
struct UnmaskedReader: LocalStoreReader {
    let inner: any LocalStoreReader
    private let related: RelatedConditions

    init(inner: any LocalStoreReader, catalog: TableCatalog) {
        self.inner = inner
        related = RelatedConditions(catalog: catalog, store: inner)
    }

    func rows(_ query: TableQuery, in table: String) throws -> [Row] {
        let query = try related.resolved(query)
        guard query.select == nil, !SystemTables.names.contains(table) else {
            return try inner.rows(query, in: table)
        }
        return try inner.rows(query, in: table, omitting: MembershipMask.name)
    }

    func row(id: Value, in table: String) throws -> Row? {
        var row = try inner.row(id: id, in: table)
        row?[MembershipMask.name] = nil
        return row
    }

    func count(_ filter: Filter?, in table: String) throws -> Int {
        try inner.count(related.resolved(filter), in: table)
    }

    func recordRows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] {
        try inner.recordRows(related.resolved(query), in: table, omitting: column)
    }

    func keyedRows(
        _ query: KeyedQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] {
        var query = query
        query.query = try related.resolved(query.query)
        return try inner.keyedRows(query, in: table, omitting: column)
    }

    var evaluatesRelatedRows: Bool { true }

    var state: StoreState? { inner.state }

    func changes(since state: StoreState) -> StoreChange? { inner.changes(since: state) }

    func totals(_ query: TotalsQuery, in table: String) throws -> [RowTotals] {
        var query = query
        query.filter = try related.resolved(query.filter)
        return try inner.totals(query, in: table)
    }

    func sql(_ request: SQLRequest) throws -> SQLRows { try inner.sql(request) }

    func uncertainRows(_ filter: Filter?, in table: String) throws -> UncertainRows {
        try inner.uncertainRows(filter, in: table)
    }

    func search(_ query: TableQuery, in table: String) throws -> [SearchedRow] {
        try inner.search(related.resolved(query), in: table)
    }
}

/// A writer of rows that hides the membership masks, for one transaction.
final class UnmaskedWriter: LocalStoreWriter {
    let inner: any LocalStoreWriter
    private let reader: UnmaskedReader
    private var takenBits: [String: Int64] = [:]
    private var queries: [String: [HoldingQuery]] = [:]
    private let account: AccountView
    /// The writer that preserves local columns; nil if no table has local columns.
    private let local: LocalColumnWriter?
    private var otherAccounts: [String: Int64] = [:]

    init(
        _ inner: any LocalStoreWriter,
        account: AccountView = .unused,
        catalog: TableCatalog = .empty,
        local: LocalColumnWriter? = nil
    ) {
        self.local = local
        self.inner = inner
        self.account = account
        reader = UnmaskedReader(inner: inner, catalog: catalog)
    }

    func rows(_ query: TableQuery, in table: String) throws -> [Row] {
        try reader.rows(query, in: table)
    }

    func row(id: Value, in table: String) throws -> Row? { try reader.row(id: id, in: table) }

    func count(_ filter: Filter?, in table: String) throws -> Int {
        try reader.count(filter, in: table)
    }

    func recordRows(
        _ query: TableQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] { try reader.recordRows(query, in: table, omitting: column) }

    func keyedRows(
        _ query: KeyedQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] { try reader.keyedRows(query, in: table, omitting: column) }

    var evaluatesRelatedRows: Bool { reader.evaluatesRelatedRows }

    func totals(_ query: TotalsQuery, in table: String) throws -> [RowTotals] {
        try reader.totals(query, in: table)
    }

    func sql(_ request: SQLRequest) throws -> SQLRows { try reader.sql(request) }

    func uncertainRows(_ filter: Filter?, in table: String) throws -> UncertainRows {
        try reader.uncertainRows(filter, in: table)
    }

    func search(_ query: TableQuery, in table: String) throws -> [SearchedRow] {
        try reader.search(query, in: table)
    }

    func eraseRemovedWords(in table: String) throws { try inner.eraseRemovedWords(in: table) }

    func noteUncertain(rowWith id: String, in table: String) throws {
        try inner.noteUncertain(rowWith: id, in: table)
    }

    func put(_ rows: [Row], in table: String) throws {
        guard !SystemTables.names.contains(table) else { return try inner.put(rows, in: table) }
        try inner.put(
            rows.map { row in
                var copy = row
                let stored = try row["id"].flatMap { try inner.row(id: $0, in: table) }
                if let stored {
                    copy[MembershipMask.name] = stored[MembershipMask.name] ?? .null
                } else {
                    let bits = try newBits(table)
                    copy[MembershipMask.name] = bits == 0 ? .null : .integer(bits)
                }
                return copy
            },
            in: table
        )
    }

    /// Stores rows that the caller knows to be new, without a check.
    func putNew(_ rows: [Row], in table: String) throws {
        let bits = try newBits(table)
        var masks = MaskWriter()
        try inner.put(rows.map { masks.row($0, bits: bits == 0 ? nil : bits) }, in: table)
    }

    /// Runs `body`, which stores rows with new values of local columns.
    func settingLocalColumns<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let local else { return try body() }
        local.setsColumns = true
        defer { local.setsColumns = false }
        return try body()
    }

    /// Appends a row.
    ///
    /// Only system tables have keys that the store creates, and system tables have no masks.
    func append(_ row: Row, in table: String) throws -> Int64 {
        try inner.append(row, in: table)
    }

    func delete(ids: [Value], in table: String) throws -> Int {
        try inner.delete(ids: ids, in: table)
    }

    /// Returns the queries of a table, which are read only once in a transaction.
    func holdingQueries(_ table: String, _ reader: QueueReader) throws -> [HoldingQuery] {
        if let known = queries[table] { return known }
        let read = try reader.membership.queries(of: table)
        queries[table] = read
        return read
    }

    /// Returns the mask of a row that was inserted on this device and that the account's queries
    /// will return.
    func newBits(_ table: String) throws -> Int64 {
        try taken(table) & ~otherAccountBits(table)
    }

    /// Returns the bits of other accounts' queries.
    func otherAccountBits(_ table: String) throws -> Int64 {
        guard account != .unused else { return 0 }
        if let known = otherAccounts[table] { return known }
        let reader = QueueReader(store: inner, catalog: TableCatalog.empty, account: account)
        let bits = try reader.membership.bits(of: account, table, isOwn: false)
        otherAccounts[table] = bits
        return bits
    }

    /// Returns the bits that the queries of a table use.
    func taken(_ table: String) throws -> Int64 {
        if let known = takenBits[table] { return known }
        let id = Value.string(QueueReader.configID(table, "", QueryHold.takenType))
        let text = try inner.row(id: id, in: SystemTables.config)?["value"]?.text
        let bits = text.flatMap { Int64($0) } ?? 0
        takenBits[table] = bits
        return bits
    }

    /// Stores the bits that the queries of a table use.
    func setTaken(_ bits: Int64, _ table: String) throws {
        guard try taken(table) != bits else { return }
        takenBits[table] = bits
        try inner.put(
            [
                [
                    "id": .string(QueueReader.configID(table, "", QueryHold.takenType)),
                    "key": "", "keyType": .integer(Int64(QueryHold.takenType)),
                    "table": .string(table), "value": .string(String(bits)),
                ]
            ],
            in: SystemTables.config
        )
    }
}
