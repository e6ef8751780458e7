// QueryApply: applies a query to rows in memory: filters, sorts, pages, and selects columns.

extension Filter {
    /// Returns whether the row matches.
    ///
    /// A column that the row does not have counts as null, and so does `now()`.
    public func matches(_ row: Row) -> Bool {
        FilterEvaluator(row: row).matches(expression)
    }
}

/// The order of rows by a query's keys; ties are ordered by id, ascending, byte by byte.
package struct RowOrder: Sendable {
    private let keys: [SortKey]

    /// Creates an order.
    ///
    /// Enumerations are ordered by position if FilterChecker has checked the keys.
    package init(_ keys: [SortKey]) {
        self.keys = keys
    }

    /// Returns the values that determine a row's position.
    package func values(of row: Row) -> [Value] {
        let evaluator = FilterEvaluator(row: row)
        return keys.map { evaluator.evaluate($0.expression) }
    }

    package func precedes(_ one: Row, _ two: Row) -> Bool {
        precedes((values(of: one), Self.id(one)), (values(of: two), Self.id(two)))
    }

    /// Returns the id as a value; only a store's own tables have ids that are not strings.
    private static func id(_ row: Row) -> Value { row[SystemColumn.id] ?? .null }

    private func precedes(_ one: ([Value], Value), _ two: ([Value], Value)) -> Bool {
        for (index, key) in keys.enumerated() {
            let order = key.order(one.0[index], two.0[index])
            if order != 0 { return key.isAscending == (order < 0) }
        }
        return ValueOrder.sort(one.1, two.1) < 0
    }

    package func sorted(_ rows: [Row]) -> [Row] {
        let keyed = rows.map { (key: (values(of: $0), Self.id($0)), row: $0) }
        return keyed.sorted { precedes($0.key, $1.key) }.map(\.row)
    }
}

extension SortKey {
    /// Returns the order of two values by this key, regardless of its direction.
    fileprivate func order(_ one: Value, _ two: Value) -> Int {
        localized?.compare(one, two) ?? ValueOrder.sort(one, two)
    }
}

extension TableQuery {
    /// Returns the rows of the result, and the number of matching rows regardless of `limit` and
    /// `offset`.
    public func apply(to rows: [Row]) -> (rows: [Row], total: Int) {
        let fitting = rows.filter { row in
            if !includesDeleted, case .bool(true) = row[SystemColumn.deleted] { return false }
            return filter?.matches(row) ?? true
        }
        let rest = RowOrder(order).sorted(fitting).dropFirst(max(0, offset))
        let window = rest.prefix(max(0, limit ?? rest.count))
        return (window.map(selected), fitting.count)
    }

    private func selected(_ row: Row) -> Row {
        guard let select else { return row }
        var result = Row()
        for name in select { result[name] = row[name] }
        return result
    }
}
