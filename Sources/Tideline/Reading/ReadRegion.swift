// ReadRegion: the tables, rows and conditions that an observed closure has read. A change to any of them runs the
// closure again.

import TidelineCore

/// The tables, rows and conditions that a closure has read.
struct ReadRegion: Sendable {
    /// The rows of one query.
    private struct Rows: Sendable {
        var query: TableQuery
        /// The ids of the rows in the result.
        var shown: Set<ItemKey>
        /// The column that has one of these keys in each row; nil without such a condition.
        var keys: (column: String, keys: Set<ItemKey>)?

        func isReached(by change: StoreChange, of table: String) -> Bool {
            guard let keys else { return change.reaches(query, of: table, shown: shown) }
            return change.reaches(query, of: table, shown: shown) { row in
                guard let key = row[keys.column]?.text else { return false }
                return keys.keys.contains(ItemKey(key))
            }
        }
    }

    /// The rows that were counted.
    private struct Count: Sendable {
        var filter: Filter?
        /// The ids of the counted rows; nil if there are too many.
        var counted: Set<ItemKey>?
    }

    private struct Table: Sendable {
        /// Whether every change to the table counts.
        var isWhole = false
        var ids: Set<ItemKey> = []
        var rows: [Rows] = []
        var counts: [Count] = []
    }

    /// The maximum number of queries and counts of a table that are checked individually.
    ///
    /// A closure may read in a loop. Beyond this number, each change to the table runs the closure again.
    static let queriesMax = 100
    /// The maximum number of rows that were read by id and are checked individually.
    static let idsMax = 10_000

    /// The client's tables, which a condition may name in another letter case.
    private let catalog: TableCatalog
    private var tables: [String: Table] = [:]

    init(catalog: TableCatalog = .empty) { self.catalog = catalog }

    /// Adds a whole table.
    mutating func add(table: String) {
        // The details are no longer needed.
        tables[table] = Table(isWhole: true)
    }

    /// Adds one row, whether it exists or not.
    mutating func add(id: String, of name: String) {
        update(name) { $0.ids.insert(ItemKey(id)) }
    }

    /// Adds every row of a table, and the other tables of a condition on its rows.
    mutating func add(table name: String, where filter: Filter?) {
        add(table: name)
        for table in catalog.relatedTables(of: filter) { add(table: table) }
    }

    /// Adds the rows of a query, whose filter comes from `RecordCoder.conditionOnChanges`.
    mutating func add(_ query: TableQuery, of name: String, shown: [Row]) {
        add(query, of: name, shown: shown, keys: nil)
    }

    /// Adds the rows of a query for several keys.
    mutating func add(_ query: KeyedQuery, of name: String, shown: [Row]) {
        let keys = (query.column, Set(query.keys.map { ItemKey($0) }))
        add(query.query, of: name, shown: shown, keys: keys)
    }

    private mutating func add(
        _ query: TableQuery,
        of name: String,
        shown: [Row],
        keys: (String, Set<ItemKey>)?
    ) {
        guard !addWhole(name, query.filter), !query.searches else { return add(table: name) }
        let shown = Set(shown.map { ItemKey($0.id) })
        update(name) { $0.rows.append(Rows(query: query, shown: shown, keys: keys)) }
    }

    /// Adds the other tables of a condition; returns whether every change to its own table counts because a changed row
    /// does not show whether it matches.
    private mutating func addWhole(_ name: String, _ filter: Filter?) -> Bool {
        guard let condition = filter?.expression else { return false }
        for table in catalog.relatedTables(of: filter) { add(table: table) }
        return condition.calls(.now) || condition.readsTables
    }

    /// Adds the number of rows that a filter matches.
    mutating func add(countOf filter: Filter?, of name: String, counted: Set<ItemKey>?) {
        if addWhole(name, filter) { return add(table: name) }
        update(name) { $0.counts.append(Count(filter: filter, counted: counted)) }
    }

    private mutating func update(_ name: String, _ change: (inout Table) -> Void) {
        var table = tables.removeValue(forKey: name) ?? Table()
        if !table.isWhole {
            change(&table)
            let queries = table.rows.count + table.counts.count
            if queries > Self.queriesMax || table.ids.count > Self.idsMax {
                table = Table(isWhole: true)
            }
        }
        tables[name] = table
    }

    /// Returns whether a change may affect what was read.
    func isReached(by change: StoreChange) -> Bool {
        tables.contains { name, table in
            guard change.changes(name) else { return false }
            return table.isWhole || change.changes(anyOf: table.ids, of: name)
                || table.rows.contains { $0.isReached(by: change, of: name) }
                || table.counts.contains {
                    change.changesCount($0.filter, of: name, counted: $0.counted)
                }
        }
    }
}
