// KeysetRenderer: paging by the key values of the last row.
//
// Keyset paging never skips or repeats a row while other rows are inserted and deleted. Nulls are
// the smallest values; ties are ordered by id, ascending.

/// A renderer of the condition that selects the rows after a given row.
package struct KeysetRenderer {
    package let renderer: FilterRenderer
    package let keys: [SortKey]

    /// Creates a renderer for checked `keys`; appends the id unless the keys contain it.
    package init(_ renderer: FilterRenderer, order keys: [SortKey]) {
        self.renderer = renderer
        let decisive = keys.firstIndex { $0.isID }.map { Array(keys[...$0]) }
        self.keys = decisive ?? keys + [SortKey(column: SystemColumn.id)]
    }

    /// Returns the values of a row's keys, for `condition(after:)`.
    package func values(of row: Row) -> [Value] {
        RowOrder(keys).values(of: row)
    }

    /// Returns the condition on the rows after the row with these values of `keys`.
    package func condition(after values: [Value]) -> SQL {
        precondition(values.count == keys.count, "one value for each key")
        if isPlain(values) {
            let columns = keys.map { renderer.value($0.expression) }.joined(separator: ", ")
            let bounds = values.map(renderer.literal).joined(separator: ", ")
            return keys.count == 1 ? "\(columns) > \(bounds)" : "(\(columns)) > (\(bounds))"
        }
        return renderer.condition(expression(after: values))
    }

    /// Returns the same condition as an expression.
    package func expression(after values: [Value]) -> QueryExpression {
        let (values, uncertain) = cut(values)
        var choices: [QueryExpression] = []
        for index in keys.indices {
            let isUncertain = index == uncertain
            let step = Self.step(keys[index], after: values[index], orAt: isUncertain)
            if let step {
                let same = (0..<index).map { Self.compare(.eq, keys[$0], values[$0]) }
                choices.append(Self.join(same + [step], QueryExpression.Kind.all))
            }
            if isUncertain { break }
        }
        let after = Self.join(choices, QueryExpression.Kind.any)
        guard keys.count > 1, let bound = bound(values[0]) else { return after }
        return QueryExpression(.all([bound, after]))
    }

    /// Truncates instants as the order does, and returns the index of the first key that had
    /// microseconds.
    ///
    /// Such keys come from a link of a server that ordered by microseconds. The next page then
    /// starts with all rows of that millisecond, because the link does not show which of them were
    /// on earlier pages.
    private func cut(_ values: [Value]) -> (values: [Value], uncertain: Int?) {
        var uncertain: Int?
        let cut = zip(keys.indices, values).map { index, value -> Value in
            guard case .date(let date) = value, renderer.isCut(keys[index].expression) else {
                return value
            }
            let instant = Timestamp(date)
            let millisecond = instant.cutToMilliseconds
            if millisecond == instant { return value }
            if uncertain == nil { uncertain = index }
            return .date(millisecond.date)
        }
        return (cut, uncertain)
    }

    /// Returns whether a single comparison of row values suffices, because all keys are ascending
    /// and have plain values.
    private func isPlain(_ values: [Value]) -> Bool {
        zip(keys, values).allSatisfy { key, value in
            if case .date(let date) = value, !renderer.isWhole(date) { return false }
            if renderer.isComputedInstant(key.expression) { return false }
            if renderer.isCut(key.expression) { return false }
            return key.isAscending && !value.isNull && renderer.type(key.expression) != .decimal
        }
    }

    /// Returns a condition on the first key alone, which can use an index.
    private func bound(_ value: Value) -> QueryExpression? {
        guard !value.isNull else { return nil }
        if keys[0].isAscending { return Self.compare(.ge, keys[0], value) }
        guard case .field(let name) = keys[0].expression.kind,
            renderer.schema.column(named: name)?.isNullable == false
        else { return nil }
        return Self.compare(.le, keys[0], value)
    }

    /// Returns the condition on the rows after a value in the order of one key, optionally
    /// including the value.
    ///
    /// Returns nil if there are no such rows.
    private static func step(
        _ key: SortKey,
        after value: Value,
        orAt isIncluded: Bool
    ) -> QueryExpression? {
        switch (key.isAscending, value.isNull) {
        case (true, true): return compare(.ne, key, .null)
        case (true, false): return compare(isIncluded ? .ge : .gt, key, value)
        case (false, true): return nil
        case (false, false):
            let before = compare(isIncluded ? .le : .lt, key, value)
            return QueryExpression(.any([before, compare(.eq, key, .null)]))
        }
    }

    private static func compare(
        _ comparison: Comparison,
        _ key: SortKey,
        _ value: Value
    ) -> QueryExpression {
        QueryExpression(.compare(comparison, key.expression, QueryExpression(.value(value))))
    }

    private static func join(
        _ parts: [QueryExpression],
        _ joint: ([QueryExpression]) -> QueryExpression.Kind
    ) -> QueryExpression {
        switch parts.count {
        case 0: QueryExpression(.value(.bool(false)))
        case 1: parts[0]
        default: QueryExpression(joint(parts))
        }
    }
}
