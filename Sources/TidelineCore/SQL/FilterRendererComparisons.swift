// FilterRendererComparisons: renders comparisons: operators, functions, and dates that lie between
// two units.

import Foundation

extension FilterRenderer {
    func compare(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ mode: Mode
    ) -> SQL {
        if left.isNullLiteral { return compareWithNull(comparison, right) }
        if right.isNullLiteral { return compareWithNull(comparison, left) }
        if let simple = condition(comparison, left, right, mode) { return simple }
        switch (type(left), type(right)) {
        case (.decimal, .decimal) where comparison == .eq || comparison == .ne: break
        case (.decimal, _) where dialect.keepsDecimalsAsText,
            (_, .decimal) where dialect.keepsDecimalsAsText:
            return compareDecimals(comparison, left, right, mode)
        case (.dateTime, .dateTime) where isComputedInstant(left) || isComputedInstant(right):
            let isNeverNull = isNeverNull(left) || isNeverNull(right)
            return apply(comparison, instant(left), instant(right), isNeverNull, mode)
        case (.dateTime, .dateTime):
            if let sql = compareDates(comparison, left, right, mode) { return sql }
            if let sql = compareCut(comparison, left, right, mode) { return sql }
        default: break
        }
        let isNeverNull = isNeverNull(left) || isNeverNull(right)
        return apply(comparison, plain(left), plain(right), isNeverNull, mode)
    }

    /// Renders a comparison of strings in a localized order, which can use an index with that
    /// collation.
    func localizedCompare(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ order: LocalizedOrder,
        _ mode: Mode
    ) -> SQL {
        let one: SQL = "\(plain(left))\(collation(order))"
        let sql = one + comparison.sql + plain(right)
        return mode == .strict ? dialect.orFalse(sql) : sql
    }

    func collation(_ order: LocalizedOrder) -> SQL { " COLLATE \(Identifier(order.collation))" }

    private func apply(
        _ comparison: Comparison,
        _ left: SQL,
        _ right: SQL,
        _ isNeverNull: Bool,
        _ mode: Mode
    ) -> SQL {
        switch comparison {
        case .eq where mode == .loose && isNeverNull: return "\(left) = \(right)"
        case .eq: return dialect.equal(left, right)
        case .ne: return dialect.notEqual(left, right)
        case .lt, .le, .gt, .ge:
            let sql = left + comparison.sql + right
            return mode == .strict ? dialect.orFalse(sql) : sql
        }
    }

    private func compareWithNull(_ comparison: Comparison, _ other: QueryExpression) -> SQL {
        switch comparison {
        case .eq: "\(uncut(other)) IS NULL"
        case .ne: "\(uncut(other)) IS NOT NULL"
        case .lt, .le, .gt, .ge: dialect.constant(false)
        }
    }

    /// Renders `f eq true` as `f`, so that an index can still be used.
    private func condition(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ mode: Mode
    ) -> SQL? {
        guard comparison == .eq else { return nil }
        if case .value(.bool(true)) = right.kind, left.isCondition { return grouped(left, mode) }
        if case .value(.bool(true)) = left.kind, right.isCondition { return grouped(right, mode) }
        return nil
    }

    private func grouped(_ expression: QueryExpression, _ mode: Mode) -> SQL {
        "(\(condition(expression, mode)))"
    }

    private func isNeverNull(_ expression: QueryExpression) -> Bool {
        switch expression.kind {
        case .value(let value), .orElse(_, let value): !value.isNull
        case .field(let name): schema.column(named: name)?.isNullable == false
        case .compare, .all, .any, .not, .isIn, .call, .arithmetic, .negate, .position, .member,
            .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            expression.isCondition
        }
    }

    /// Renders a comparison of decimals, which are stored as strings.
    ///
    /// A function decides their order, and whether they equal values of other types.
    private func compareDecimals(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ mode: Mode
    ) -> SQL {
        let (one, two) = (plain(left), plain(right))
        switch comparison {
        case .eq: return dialect.isTrue(dialect.call("decimal_equal", [one, two]))
        case .ne: return "NOT (\(dialect.isTrue(dialect.call("decimal_equal", [one, two]))))"
        case .lt, .le, .gt, .ge:
            let sql = dialect.decimalOrder(one, two) + comparison.sql + "0"
            return mode == .strict ? dialect.orFalse(sql) : sql
        }
    }

    // MARK: - Dates

    /// Renders a comparison with an instant that lies between two units of the column; nil for
    /// other comparisons.
    private func compareDates(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ mode: Mode
    ) -> SQL? {
        switch (left.kind, right.kind) {
        case (.value(.date(let one)), .value(.date(let two))):
            let order = ValueOrder.compare(.date(one), .date(two)) ?? 0
            return dialect.constant(comparison.holds(order))
        case (_, .value(.date(let date))) where !isWhole(date):
            return between(comparison, plain(left), date, mode)
        case (.value(.date(let date)), _) where !isWhole(date):
            return between(comparison.mirrored, plain(right), date, mode)
        default: return nil
        }
    }

    func isWhole(_ date: Date) -> Bool {
        Timestamp(date).microseconds % dateUnit.microseconds == 0
    }

    private func between(
        _ comparison: Comparison,
        _ value: SQL,
        _ date: Date,
        _ mode: Mode
    ) -> SQL {
        let floor = stored(.date(date))
        let sql: SQL
        switch comparison {
        case .eq: return dialect.constant(false)
        case .ne: return dialect.constant(true)
        case .lt, .le: sql = "\(value) <= \(floor)"
        case .gt, .ge: sql = "\(value) > \(floor)"
        }
        return mode == .strict ? dialect.orFalse(sql) : sql
    }

    // MARK: - Lists

    func isIn(_ operand: QueryExpression, _ elements: [QueryExpression], _ mode: Mode) -> SQL {
        if elements.isEmpty { return dialect.constant(false) }
        guard let values = listValues(operand, elements) else {
            let parts = elements.map {
                QueryExpression(.compare(.eq, operand, $0), at: operand.position)
            }
            return condition(parts.count == 1 ? parts[0] : QueryExpression(.any(parts)), mode)
        }
        if isCut(operand) { return isCutIn(operand, values, mode) }
        let list = values.map(literal).joined(separator: ", ")
        let sql: SQL = "\(isExactUpdate(operand) ? uncut(operand) : plain(operand)) IN (\(list))"
        return mode == .strict ? dialect.orFalse(sql) : sql
    }

    /// Returns the list as literals for a plain `=`; nil if an element requires a function.
    func listValues(
        _ operand: QueryExpression,
        _ elements: [QueryExpression]
    ) -> [Value]? {
        if case .value = operand.kind { return nil }
        if isComputedInstant(operand) && dateUnit != .microseconds { return nil }
        let type = type(operand)
        var values: [Value] = []
        for element in elements {
            guard case .value(let value) = element.kind, !value.isNull else { return nil }
            if case .date(let date) = value, !isWhole(date) { return nil }
            if (type == .decimal) != (ExpressionType(of: value) == .decimal) { return nil }
            values.append(value)
        }
        return values
    }
}

extension QueryExpression {
    var isNullLiteral: Bool { kind == .value(.null) }

    /// Whether the expression is a condition, that is, true or false and never null.
    var isCondition: Bool {
        switch kind {
        case .compare, .all, .any, .not, .isIn, .anyElement: true
        case .call(let function, _): function.isCondition
        case .search(let search): search != .rank
        case .related, .localizedCompare: true
        case .field, .value, .arithmetic, .negate, .position, .orElse, .member, .elementCount,
            .element:
            false
        }
    }
}

extension Comparison {
    /// The operator between two values that are not null.
    var sql: SQL {
        switch self {
        case .eq: " = "
        case .ne: " <> "
        case .lt: " < "
        case .le: " <= "
        case .gt: " > "
        case .ge: " >= "
        }
    }
}
