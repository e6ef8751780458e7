// InstantWindow: pages that are ordered by an instant.
//
// A server orders instants by their milliseconds (StoredInstants.swift), which requires an
// expression. An index on the column has a different order, so a page would sort the whole table.
// The two orders differ only within a millisecond, and only if one of its rows has microseconds,
// which is rare. A page is therefore first read in index order. If no row of the page has
// microseconds, and no row in the milliseconds at its ends does, both orders are the same.
// Otherwise, the page takes two statements: the first uses the index to find the key of the last
// row that the page can contain, and the second sorts the rows up to the end of that millisecond.

/// The index range that a page needs if its order begins with an instant.
package struct InstantWindow {
    private let renderer: FilterRenderer
    private let key: SortKey
    private let column: SQL
    private let isNullable: Bool
    /// The column of the first key.
    package let name: String
    /// Whether no other column of the order is truncated, so that a page can be read in index
    /// order.
    private let isAlone: Bool

    /// Creates the window; nil if the order does not need one, or if no index contains the column
    /// of the first key.
    package init?(_ renderer: FilterRenderer, order: [SortKey], indexes: [[String]]) {
        guard let key = order.first, renderer.isCut(key.expression),
            case .field(let name) = key.expression.kind,
            indexes.joined().contains(where: { $0.lowercased() == name.lowercased() })
        else { return nil }
        self.renderer = renderer
        self.key = key
        self.name = name
        isAlone = !order.dropFirst().contains { renderer.isCut($0.expression) }
        column = renderer.uncut(key.expression)
        isNullable = renderer.schema.column(named: name)?.isNullable ?? true
    }

    /// Returns the renderer for the order and keyset of a page that is read in index order.
    ///
    /// Returns nil if the page begins within a millisecond, or if more than one column must be
    /// truncated.
    ///
    /// - Parameter begin: The first key of the row before the page; nil for the first page.
    /// - Returns: The renderer.
    package func indexRenderer(after begin: Value?) -> FilterRenderer? {
        guard isAlone else { return nil }
        if case .date(let date)? = begin {
            guard Timestamp(date).cutToMilliseconds == Timestamp(date) else { return nil }
        }
        return renderer.withUncut(name)
    }

    /// Returns whether a stored instant has microseconds that an order truncates.
    package static func hasMicroseconds(_ stored: SQLValue) -> Bool {
        guard case .integer(let time) = stored else { return false }
        return time % 1000 != 0
    }

    /// Returns a statement that checks whether any row in these milliseconds has microseconds.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - instants: The first keys of three rows: the row before the page, and the first and last
    ///     rows of the page. In any other millisecond, a row with microseconds would be on the page
    ///     itself.
    /// - Returns: The statement; nil without instants.
    package func check(_ table: Identifier, _ instants: [Value?]) -> SQL? {
        let parts = instants.compactMap { value -> SQL? in
            guard case .date(let date)? = value else { return nil }
            var sql: SQL = "EXISTS (SELECT 1 FROM \(table) WHERE \(column) > "
            sql.append(renderer.literal(.date(date)))
            if let next = Timestamp(date).nextMillisecond {
                sql.append(" AND \(column) < \(renderer.literal(.date(next.date)))")
            }
            sql.append(")")
            return sql
        }
        guard !parts.isEmpty else { return nil }
        return "SELECT 1 WHERE \(parts.joined(separator: " OR "))"
    }

    /// Returns a statement that reads the key of the row after `count` rows; the statement returns
    /// no row if there is none.
    ///
    /// - Parameters:
    ///   - source: The `FROM` and `WHERE` clauses for the rows from the start of the page onward.
    ///   - count: The offset of the page plus its maximum number of rows.
    /// - Returns: The statement.
    package func probe(_ source: SQL, after count: Int) -> SQL {
        let order = column + renderer.dialect.direction(isAscending: key.isAscending)
        let offset = SQLValue.integer(Int64(count))
        return "SELECT \(column)\(source) ORDER BY \(order) LIMIT 1 OFFSET \(offset)"
    }

    /// Returns the condition on the rows that have an instant, for a page in descending order that
    /// may begin with such rows.
    ///
    /// Rows without an instant follow them. With the keyset condition alone, SQLite would read both
    /// ranges.
    ///
    /// - Parameter begin: The first key of the row before the page; nil for the first page.
    /// - Returns: The condition; nil for other pages.
    package func withInstants(after begin: Value?) -> QueryExpression? {
        guard !key.isAscending, isNullable, case .date? = begin else { return nil }
        return begin.map { compare(.le, Self.cut($0)) }
    }

    /// Returns the condition on the rows up to the end of a row's millisecond; nil if it includes
    /// all rows.
    ///
    /// - Parameters:
    ///   - found: The key of the row.
    ///   - mayBeNull: Whether the page may contain rows without an instant.
    /// - Returns: The condition.
    package func through(_ found: Value, mayBeNull: Bool) -> QueryExpression? {
        switch (key.isAscending, found.isNull) {
        case (true, true): return compare(.eq, .null)
        case (true, false):
            let through = compare(.le, Self.cut(found))
            guard mayBeNull, isNullable else { return through }
            return QueryExpression(.any([compare(.eq, .null), through]))
        case (false, true): return nil
        case (false, false): return compare(.ge, Self.cut(found))
        }
    }

    /// Returns the condition on the rows after a row's millisecond; nil if there are none.
    package func after(_ found: Value) -> QueryExpression? {
        switch (key.isAscending, found.isNull) {
        case (true, true): return compare(.ne, .null)
        case (true, false): return compare(.gt, Self.cut(found))
        case (false, true): return nil
        case (false, false):
            let after = compare(.lt, Self.cut(found))
            return isNullable ? QueryExpression(.any([after, compare(.eq, .null)])) : after
        }
    }

    private func compare(_ comparison: Comparison, _ value: Value) -> QueryExpression {
        QueryExpression(.compare(comparison, key.expression, QueryExpression(.value(value))))
    }

    private static func cut(_ value: Value) -> Value {
        guard case .date(let date) = value else { return value }
        return .date(Timestamp(date).cutToMilliseconds.date)
    }
}
