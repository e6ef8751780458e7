// StoreChange: which rows transactions changed, as far as that is known, for those who watch a query.

import Synchronization
package import TidelineCore

/// A store that tells which rows each transaction changed.
package protocol RowChangeStore: LocalStore {
    /// What each transaction changed, after it was committed; bursts are joined.
    func rowChanges() -> AsyncStream<StoreChange>
}

/// What one or several transactions changed.
package struct StoreChange: JoinedChange {
    /// The changed rows of a table.
    package enum Rows: Sendable {
        case these([ChangedRow])
        /// Too many to tell, or not known.
        case all
    }

    /// A row as it was stored last, or that is gone.
    package struct ChangedRow: Sendable {
        var id: ItemKey
        var row: Row?

        package init(id: String, row: Row?) { (self.id, self.row) = (ItemKey(id), row) }
    }

    /// How many rows of a table are told one by one.
    private static let rowsMax = 256
    private static let lastNumber = Atomic<Int>(0)

    /// Which changes are joined in it.
    private var numbers: Set<Int>
    private(set) var tables: [String: Rows]

    package init(_ tables: [String: Rows]) {
        numbers = [Self.lastNumber.add(1, ordering: .relaxed).newValue]
        self.tables = tables
    }

    /// Any row of these tables.
    package init(all tables: Set<String>) {
        self.init(Dictionary(uniqueKeysWithValues: tables.map { ($0, .all) }))
    }

    package func covers(_ other: StoreChange) -> Bool { other.numbers.isSubset(of: numbers) }

    package mutating func join(_ other: StoreChange) {
        numbers.formUnion(other.numbers)
        for (table, rows) in other.tables {
            tables[table] = tables[table].map { Self.joined(rows, $0) } ?? rows
        }
    }

    static func joined(_ first: Rows, _ second: Rows) -> Rows {
        guard case .these(let first) = first, case .these(let second) = second,
            first.count + second.count <= rowsMax
        else { return .all }
        return .these(first + second)
    }

    /// Whether the result of a query may be another one now.
    ///
    /// A result changes with a row that is in it, and with one that the filter holds for. Where the
    /// first rows are left out, each row that comes or goes before them moves the others.
    package func reaches(_ query: TableQuery, of table: String, shown: Set<ItemKey>) -> Bool {
        switch tables[table] {
        case nil: return false
        case .all: return true
        case .these(let rows):
            // A result without ids tells of none.
            guard query.offset == 0, !shown.contains(ItemKey("")) else { return !rows.isEmpty }
            return rows.contains { changed in
                if shown.contains(changed.id) { return true }
                return Self.holds(query.filter, for: changed.row)
            }
        }
    }

    /// Whether a row is there and fulfils a condition.
    private static func holds(_ filter: Filter?, for row: Row?) -> Bool {
        guard let row else { return false }
        return filter.map { FilterEvaluator(row: row).matches($0.expression) } ?? true
    }
}

extension StoreChange {
    /// Whether another number of rows may fulfil a condition now; `counted` are those that did, nil where
    /// they are not known.
    package func changesCount(
        _ filter: Filter?,
        of table: String,
        counted: Set<ItemKey>?
    ) -> Bool {
        switch tables[table] {
        case nil: return false
        case .all: return true
        case .these(let rows):
            guard let counted else { return !rows.isEmpty }
            return rows.contains { changed in
                Self.holds(filter, for: changed.row) != counted.contains(changed.id)
            }
        }
    }
}

/// Notes which rows a transaction writes; used on its thread only.
final class RowRecorder {
    private(set) var tables: [String: StoreChange.Rows] = [:]

    func note(_ id: Value?, _ row: Row?, in table: String) {
        guard case .string(let id)? = id else { return noteAll(in: table) }
        let change = StoreChange.Rows.these([StoreChange.ChangedRow(id: id, row: row)])
        tables[table] = tables[table].map { StoreChange.joined($0, change) } ?? change
    }

    func noteAll(in table: String) { tables[table] = .all }
}

extension SyncEngine {
    /// What each transaction of the store changed.
    func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable {
        if let store = store as? any RowChangeStore { return store.rowChanges() }
        return store.changes().map { StoreChange(all: $0) }
    }
}
