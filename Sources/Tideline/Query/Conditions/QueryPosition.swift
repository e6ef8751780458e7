// QueryPosition: the condition for the records after a given record in the order of a query.
//
// The condition consists of comparisons with the values that the record has for the keys of the order, so records that
// are added or removed in the meantime do not move the position. The condition is part of the filter, so every store
// and every server can evaluate it. The exception is a localized order, which only a device supports.

import TidelineCore

/// The position of a record in an order.
struct QueryPosition {
    fileprivate struct Key {
        var term: SortKey
        var value: Value
        /// Whether records can have null for the key.
        var mayBeNull: Bool
    }

    private let keys: [Key]

    init<Record: SyncRecord>(of record: Record, in query: TableQuery) throws {
        let isRanked = query.order.isEmpty && query.filter?.expression.searches == true
        guard !isRanked, !query.order.contains(where: { $0.expression.searches }) else {
            throw SyncError.unsupportedQuery(
                "the records after a record of a query ordered by rank. Sort the query by a property."
            )
        }
        let schema = try RecordSchema.of(Record.self)
        let row = try RowWriter.row(of: record, schema)
        func column(_ name: String) -> String {
            schema.columns.first { $0.name.lowercased() == name.lowercased() }?.name ?? name
        }
        let evaluator = FilterEvaluator { row[column($0)] ?? .null }
        var terms = query.order
        if !terms.contains(where: \.isID) { terms.append(SortKey(column: SystemColumn.id)) }
        let last = terms.firstIndex(where: \.isID) ?? terms.count - 1
        keys = try terms[...last].map { term in
            let columns = term.expression.columns.map(column)
            for name in columns {
                guard row[name] != nil, query.select?.contains(name) ?? true else {
                    throw SyncError.unsupportedQuery(
                        """
                        the records after one that was read without '\(name)', which the order uses. Add the property \
                        to the model and to the selected properties.
                        """
                    )
                }
            }
            return Key(
                term: term,
                value: evaluator.evaluate(term.expression),
                mayBeNull:
                    !(columns.count == 1 && term.expression.kind == .field(columns[0])
                    && (schema.neverNil.contains(columns[0]) || columns[0] == SystemColumn.id))
            )
        }
    }

    /// The condition on the records after the position.
    var condition: QueryExpression {
        var after = QueryExpression.constant(false)
        for key in keys.reversed() { after = .or(key.step, .and(key.compare(.eq), after)) }
        guard let bound = keys.first?.bound else { return after }
        return .and(bound, after)
    }
}

extension QueryPosition.Key {
    private var expression: QueryExpression { term.expression }
    private var isNull: QueryExpression { .compare(.eq, expression, .null) }
    private var isNotNull: QueryExpression { .compare(.ne, expression, .null) }

    /// Returns the condition on a record's value that compares it with the value of the position.
    func compare(_ comparison: Comparison) -> QueryExpression {
        if comparison == .eq, value.isNull { return isNull }
        let other = QueryExpression(.value(value))
        if let localized = term.localized, case .string = value {
            return QueryExpression(.localizedCompare(comparison, expression, other, localized))
        }
        return .compare(comparison, expression, other)
    }

    /// The condition on the records whose value alone places them after the position.
    var step: QueryExpression {
        switch (value, term.isAscending) {
        case (.null, true): isNotNull
        case (.null, false): .constant(false)
        // Conditions have no order, but false comes before true.
        case (.bool(let isTrue), true):
            isTrue ? .constant(false) : .compare(.eq, expression, .constant(true))
        case (.bool(let isTrue), false):
            orNull(isTrue ? .compare(.eq, expression, .constant(false)) : .constant(false))
        case (_, true): compare(.gt)
        case (_, false): orNull(compare(.lt))
        }
    }

    /// A condition on the first key alone that all records after the position satisfy, for which an index can be used;
    /// nil if there is none.
    ///
    /// If the condition has one alternative for null and one for other values, a store can read each part with an
    /// index (NullsApart).
    var bound: QueryExpression? {
        switch (value, term.isAscending) {
        case (.null, true): QueryExpression(.any([isNull, isNotNull]))
        case (.null, false): isNull
        case (.bool, _): nil
        case (_, true): compare(.ge)
        case (_, false): orNull(compare(.le))
        }
    }

    /// Extends a condition to null, which is the smallest value, if records can have null for the key.
    private func orNull(_ condition: QueryExpression) -> QueryExpression {
        mayBeNull ? .or(condition, isNull) : condition
    }
}

extension QueryExpression {
    /// The columns that the expression names.
    fileprivate var columns: [String] {
        var columns: [String] = []
        _ = contains { kind in
            if case .field(let name) = kind { columns.append(name) }
            return false
        }
        return columns
    }
}
