// RememberedRows: remembers the rows of an observed query, so that a change reads only the rows that it touches.

import Synchronization
import TidelineCore

/// The rows of a query as they were last read, and the state of the store that they belong to.
///
/// After a change, the rows that are read and the rows that are kept always show one committed state. If the store does
/// not know every change between the two states, all rows are read again.
struct RememberedRows: Sendable {
    /// The extent of a read.
    enum Source {
        /// All rows were read.
        case all
        /// Only changed rows were read, if any.
        case changes(StoreChange)
    }

    private(set) var rows: [Row] = []
    /// The state that the rows belong to; nil if it is not known.
    private var state: StoreState?
    /// The ids of the rows; nil until a change needs them.
    private var shown: Set<ItemKey>?

    /// Reads the rows that have changed since the last call, or all rows.
    mutating func read<Record>(
        _ query: ObservedQuery,
        _ coder: RecordCoder<Record>,
        of store: any LocalStoreReader
    ) throws -> Source {
        let (last, now) = (state, store.state)
        // After an error, the next read reads all rows.
        state = nil
        if !query.dependsOnMore, let last, let change = store.changes(since: last),
            try update(by: change, query, coder, of: store)
        {
            state = now
            return .changes(change)
        }
        rows = try coder.rows(query.storeQuery, of: store)
        shown = nil
        state = now
        return .all
    }

    /// Forgets the state, so that the next read reads all rows.
    mutating func forget() { state = nil }

    /// Reads the rows that a change touches; returns false if all rows have to be read.
    private mutating func update<Record>(
        by change: StoreChange,
        _ query: ObservedQuery,
        _ coder: RecordCoder<Record>,
        of store: any LocalStoreReader
    ) throws -> Bool {
        let changed: [StoreChange.ChangedRow]
        switch change.tables[coder.table.name] {
        case nil: return true
        case .all: return false
        case .rows(let rows): changed = rows
        }
        if shown == nil { shown = Set(rows.map { ItemKey($0.id) }) }
        let touched = changed.filter { changed in
            if shown?.contains(changed.id) == true { return true }
            guard let row = changed.row else { return false }
            return query.onChanges?.matches(row) ?? true
        }.map(\.id)
        if touched.isEmpty { return true }
        guard let order = query.rowOrder, coder.schema != nil else { return false }
        var byID = TableQuery(filter: query.storeQuery.filter)
        byID.includesDeleted = query.storeQuery.includesDeleted
        let keys = Set(touched)
        let found = try store.keyedRows(
            KeyedQuery(byID, column: SystemColumn.id, keys: keys.map(\.text)),
            in: coder.table.name,
            omitting: MembershipMask.name
        )
        guard let merged = merged(found, without: keys, order, limit: query.storeQuery.limit) else {
            return false
        }
        rows = merged
        shown?.subtract(keys)
        shown?.formUnion(found.map { ItemKey($0.id) })
        // The limit has removed rows at the end.
        if shown?.count != rows.count { shown = nil }
        return true
    }

    /// Returns the rows with some of them replaced; nil if the order or the limit does not show which rows follow.
    private func merged(
        _ found: [Row],
        without keys: Set<ItemKey>,
        _ order: ObservedOrder,
        limit: Int?
    ) -> [Row]? {
        var result = rows
        if shown?.isDisjoint(with: keys) == false {
            result.removeAll { keys.contains(ItemKey($0.id)) }
        }
        for row in found {
            guard let position = order.index(of: row, in: result) else { return nil }
            result.insert(row, at: position)
        }
        guard let limit else { return result }
        if rows.count >= limit {
            // Rows that are not known come after the last known row.
            guard limit > 0, let last = rows.last, result.count >= limit,
                order.isFitting(last), order.isFitting(result[limit - 1]),
                !order.precedes(last, result[limit - 1])
            else { return nil }
        }
        return Array(result.prefix(limit))
    }
}

/// The remembered rows of an observation, used by one run at a time.
final class RememberedList: Sendable {
    private let rows = Mutex(RememberedRows())

    /// Returns the rows of the store's state, and whether all of them were read.
    func read<Record>(
        _ query: ObservedQuery,
        _ coder: RecordCoder<Record>,
        of store: any LocalStoreReader
    ) throws -> (rows: [Row], isWhole: Bool) {
        try rows.withLock { remembered in
            switch try remembered.read(query, coder, of: store) {
            case .all: (remembered.rows, true)
            case .changes: (remembered.rows, false)
            }
        }
    }
}

/// A query that is observed.
struct ObservedQuery: Sendable {
    /// The query that the store runs.
    let storeQuery: TableQuery
    /// The condition that changed rows are checked against.
    let onChanges: Filter?
    /// Whether a row's membership depends on more than the row: the time, other rows, or a search index.
    let dependsOnMore: Bool
    /// The order of the rows in memory; nil if the values in memory do not determine it.
    let rowOrder: ObservedOrder?

    /// Prepares a query for one run; a query that depends on the time is prepared for each run.
    init<Record>(_ query: TableQuery, _ coder: RecordCoder<Record>, _ engine: SyncEngine) {
        let now = engine.environment.now()
        storeQuery = coder.applyingDefaults(query.bound(now: now))
        onChanges = coder.conditionOnChanges(query.filter, now: now)
        dependsOnMore = query.dependsOnMore
        rowOrder = query.select == nil ? ObservedOrder(query, coder) : nil
    }
}

extension TableQuery {
    /// Whether a row's membership in the result, or its position, depends on more than the row.
    ///
    /// With an offset, the removal of a row outside of the result can move other rows into the result.
    var dependsOnMore: Bool {
        if searches || offset != 0 { return true }
        if let filter = filter?.expression, filter.calls(.now) || filter.readsTables { return true }
        return order.contains { $0.expression.calls(.now) }
    }
}

/// The order of an observed query, for rows in memory.
struct ObservedOrder: Sendable {
    private let order: RowOrder
    /// The columns whose values determine the order.
    private let columns: [(name: String, kind: CellKind)]

    /// Returns nil for a localized order, in which only the store can compare strings.
    init?<Record>(_ query: TableQuery, _ coder: RecordCoder<Record>) {
        guard !query.order.contains(where: { $0.localized != nil }) else { return nil }
        var filled = query
        if let absent = coder.absent {
            filled = absent.ordered(query, without: absent.columns(in: query.order))
        }
        guard let keys = try? FilterChecker(onDevice: coder.table).order(filled.order) else {
            return nil
        }
        order = RowOrder(keys)
        var columns: [(name: String, kind: CellKind)] = []
        for key in keys {
            _ = key.expression.contains { kind in
                if case .field(let name) = kind, let column = coder.table.column(matching: name) {
                    columns.append((column.name, CellKind(column.type)))
                }
                return false
            }
        }
        self.columns = columns
    }

    /// Whether the store orders the row by its values: it orders a value of a different type like a missing value.
    func isFitting(_ row: Row) -> Bool {
        columns.allSatisfy { name, kind in
            guard let value = row[name], !value.isNull else { return true }
            return kind.holds(value)
        }
    }

    func precedes(_ one: Row, _ two: Row) -> Bool { order.precedes(one, two) }

    /// Returns the index of a row in ordered rows; nil if a value does not fit its column.
    func index(of row: Row, in rows: [Row]) -> Int? {
        guard isFitting(row) else { return nil }
        var (low, high) = (0, rows.count)
        while low < high {
            let middle = (low + high) / 2
            guard isFitting(rows[middle]) else { return nil }
            if precedes(rows[middle], row) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
