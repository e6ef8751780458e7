// ReadRegion: the part of a store that an observed closure has read, which decides whether a change affects it.

import TidelineCore

/// The tables, rows and conditions that a closure has read.
struct ReadRegion: Sendable {
    /// The rows of one query.
    private struct Rows: Sendable {
        var query: TableQuery
        /// The ids of the rows in the result.
        var shown: Set<ItemKey>
    }

    /// The rows that were counted.
    private struct Count: Sendable {
        var filter: Filter?
        /// The ids of the counted rows; nil if there are too many.
        var counted: Set<ItemKey>?
    }

    private struct Table: Sendable {
        /// Whether every change of the table counts.
        var isWhole = false
        var ids: Set<ItemKey> = []
        var rows: [Rows] = []
        var counts: [Count] = []
    }

    /// The maximum number of queries and counts of a table that are checked one by one.
    ///
    /// A closure may read in a loop. Beyond this number, each change of the table runs it again.
    static let queriesMax = 100
    /// The maximum number of rows that were read by id and are checked one by one.
    static let idsMax = 10_000

    private var tables: [String: Table] = [:]

    /// Adds a whole table.
    mutating func add(table: String) {
        // The details are no longer needed.
        tables[table] = Table(isWhole: true)
    }

    /// Adds one row, whether it exists or not.
    mutating func add(id: String, of name: String) {
        update(name) { $0.ids.insert(ItemKey(id)) }
    }

    /// Adds the rows of a query, whose filter is as `RecordCoder.conditionOnChanges` returns it.
    mutating func add(_ query: TableQuery, of name: String, shown: [Row]) {
        guard query.filter?.expression.calls(.now) != true else { return add(table: name) }
        let shown = Set(shown.map { ItemKey($0.id) })
        update(name) { $0.rows.append(Rows(query: query, shown: shown)) }
    }

    /// Adds the number of rows that a filter matches.
    mutating func add(countOf filter: Filter?, of name: String, counted: Set<ItemKey>?) {
        guard filter?.expression.calls(.now) != true else { return add(table: name) }
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
                || table.rows.contains { change.reaches($0.query, of: name, shown: $0.shown) }
                || table.counts.contains {
                    change.changesCount($0.filter, of: name, counted: $0.counted)
                }
        }
    }
}
