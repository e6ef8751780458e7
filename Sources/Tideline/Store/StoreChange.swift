// StoreChange: the rows that transactions changed, if they are known, for observations.

import Synchronization
public import TidelineCore

/// The changes that one or more transactions made to a store.
public struct StoreChange: Sendable {
    /// The changed rows of a table.
    public enum Rows: Sendable {
        /// The changed rows.
        case rows([ChangedRow])
        /// Any row, because there are too many rows to list or the rows are not known.
        case all
    }

    /// A row in the state in which it was last stored, or a removed row.
    public struct ChangedRow: Sendable {
        var id: ItemKey
        var row: Row?

        /// Creates a changed row; pass nil for `row` if the row was removed.
        public init(id: String, row: Row?) { (self.id, self.row) = (ItemKey(id), row) }
    }

    /// The maximum number of rows of a table that are listed individually.
    private static let rowsMax = 256
    private static let lastNumber = Atomic<Int>(0)

    /// The numbers of the changes that were merged into this change.
    private var numbers: Set<Int>
    private(set) var tables: [String: Rows]

    /// Creates the change of a transaction.
    public init(_ tables: [String: Rows]) {
        numbers = [Self.lastNumber.add(1, ordering: .relaxed).newValue]
        self.tables = tables
    }

    /// Creates a change that may affect any row of these tables.
    public init(all tables: Set<String>) {
        self.init(Dictionary(uniqueKeysWithValues: tables.map { ($0, .all) }))
    }

    static func joined(_ first: Rows, _ second: Rows) -> Rows {
        guard case .rows(let first) = first, case .rows(let second) = second,
            first.count + second.count <= rowsMax
        else { return .all }
        return .rows(first + second)
    }

    /// Returns whether the change may affect the result of a query.
    ///
    /// A changed row affects a result if the result contains it or if it matches the filter. If the
    /// query has an offset, a row that is added or removed before the result shifts the other rows.
    ///
    /// `mayMatch` is an additional condition on new rows.
    package func reaches(
        _ query: TableQuery,
        of table: String,
        shown: Set<ItemKey>,
        where mayMatch: (Row) -> Bool = { _ in true }
    ) -> Bool {
        switch tables[table] {
        case nil: return false
        case .all: return true
        case .rows(let rows):
            // Without ids, it is not known which rows the result contains.
            guard query.offset == 0, !shown.contains(ItemKey("")) else { return !rows.isEmpty }
            return rows.contains { changed in
                if shown.contains(changed.id) { return true }
                guard let row = changed.row, mayMatch(row) else { return false }
                return Self.holds(query.filter, for: row)
            }
        }
    }

    /// The number of rows that are listed individually.
    var rowsListed: Int {
        tables.values.reduce(0) { sum, rows in
            guard case .rows(let rows) = rows else { return sum }
            return sum + rows.count
        }
    }

    /// Returns whether any row of a table changed.
    func changes(_ table: String) -> Bool { tables[table] != nil }

    /// Returns whether any row of these tables changed.
    func changes(anyOf names: Set<String>?) -> Bool {
        names?.contains { tables[$0] != nil } ?? false
    }

    /// Returns whether any of these rows changed.
    func changes(anyOf ids: Set<ItemKey>, of table: String) -> Bool {
        switch tables[table] {
        case nil: false
        case .all: !ids.isEmpty
        case .rows(let rows): rows.contains { ids.contains($0.id) }
        }
    }

    /// Returns whether a row exists and matches a filter.
    private static func holds(_ filter: Filter?, for row: Row?) -> Bool {
        guard let row else { return false }
        return filter.map { FilterEvaluator(row: row).matches($0.expression) } ?? true
    }
}

extension StoreChange: JoinedChange {
    package func covers(_ other: StoreChange) -> Bool { other.numbers.isSubset(of: numbers) }

    package mutating func join(_ other: StoreChange) {
        numbers.formUnion(other.numbers)
        for (table, rows) in other.tables {
            tables[table] = tables[table].map { Self.joined(rows, $0) } ?? rows
        }
    }
}

extension StoreChange {
    /// Returns whether the number of matching rows may have changed; `counted` contains the ids
    /// that matched before, or is nil if they are unknown.
    package func changesCount(
        _ filter: Filter?,
        of table: String,
        counted: Set<ItemKey>?
    ) -> Bool {
        switch tables[table] {
        case nil: return false
        case .all: return true
        case .rows(let rows):
            guard let counted else { return !rows.isEmpty }
            return rows.contains { changed in
                Self.holds(filter, for: changed.row) != counted.contains(changed.id)
            }
        }
    }
}

/// A recorder of the rows that a transaction writes, used only on that transaction's thread.
final class RowRecorder {
    private(set) var tables: [String: StoreChange.Rows] = [:]

    func note(_ id: Value?, _ row: Row?, in table: String) {
        guard case .string(let id)? = id else { return noteAll(in: table) }
        let change = StoreChange.Rows.rows([StoreChange.ChangedRow(id: id, row: row)])
        tables[table] = tables[table].map { StoreChange.joined($0, change) } ?? change
    }

    func noteAll(in table: String) { tables[table] = .all }
}
