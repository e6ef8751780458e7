// FilterSplit: the parts of a filter that PostgreSQL evaluates exactly.
//
// PostgreSQL does not have the server's functions. A part of a filter is rendered as SQL only if
// SQL returns exactly the same result for every row. SQL then finds the candidates, with an index
// if possible, and FilterEvaluator evaluates the rest of the filter for each candidate. Pure.

/// A split of a filter into a part for PostgreSQL and a part that the server evaluates row by row.
package struct FilterSplit {
    private let schema: TableSchema

    package init(schema: TableSchema) {
        self.schema = schema
    }

    /// Returns the part that the database evaluates and the part that the server evaluates.
    ///
    /// A row is in the result if both parts are true; a nil part is always true.
    package func split(
        _ condition: QueryExpression?
    ) -> (exact: QueryExpression?, rest: QueryExpression?) {
        guard let condition else { return (nil, nil) }
        var exact: [QueryExpression] = []
        var rest: [QueryExpression] = []
        var literals = 0
        for part in condition.chainOfConditions {
            let sum = literals + Self.literals(in: part)
            if sum <= Self.literalsMax, isExact(part) {
                literals = sum
                exact.append(part)
            } else {
                rest.append(part)
            }
        }
        return (
            Self.join(exact, at: condition.position), Self.join(rest, at: condition.position)
        )
    }

    /// The maximum number of literals in SQL: each literal is a parameter, and a statement has at
    /// most 65,535 parameters.
    ///
    /// The remaining parameters are for literals that SQL repeats, for the keys, and for the page
    /// size.
    private static let literalsMax = 60_000

    /// Returns the number of literals in an expression.
    private static func literals(in expression: QueryExpression) -> Int {
        var count = 0
        _ = expression.contains { kind in
            if case .value = kind { count += 1 }
            return false
        }
        return count
    }

    private static func join(
        _ parts: [QueryExpression],
        at position: Int
    ) -> QueryExpression? {
        parts.count > 1 ? QueryExpression(.all(parts), at: position) : parts.first
    }

    /// Returns whether an order has the same result in SQL.
    package func isExact(_ keys: [SortKey]) -> Bool {
        keys.allSatisfy { isExactValue($0.expression) }
    }

    /// Returns whether a condition has the same result in SQL.
    package func isExact(_ condition: QueryExpression) -> Bool {
        switch condition.kind {
        case .all(let parts), .any(let parts): parts.allSatisfy(isExact)
        case .not(let operand): isExact(operand)
        case .compare(_, let left, let right): compares(left, right)
        case .isIn(let operand, let elements):
            isExactValue(operand) && elements.allSatisfy { compares(operand, $0) }
        case .value: true
        case .field(let name): schema.column(named: name)?.type == .boolean
        case .call(.contains, let parts), .call(.startswith, let parts),
            .call(.endswith, let parts):
            parts.count == 2 && parts.allSatisfy(isExactText)
        case .call, .arithmetic, .negate, .position, .orElse, .member, .elementCount, .anyElement,
            .element, .search, .related, .localizedCompare:
            false
        }
    }

    private func compares(_ left: QueryExpression, _ right: QueryExpression) -> Bool {
        if left.isNullLiteral && right.isNullLiteral { return false }
        if left.isNullLiteral { return isExactValue(right) }
        if right.isNullLiteral { return isExactValue(left) }
        guard isExactValue(left), isExactValue(right) else { return false }
        return kind(left) == kind(right)
    }

    private func isExactText(_ value: QueryExpression) -> Bool {
        isExactValue(value) && kind(value) == .text
    }

    private func isExactValue(_ value: QueryExpression) -> Bool {
        switch value.kind {
        case .field: kind(value) != nil
        case .value(.string(let text)):
            // PostgreSQL rejects text with this character.
            !text.utf8.contains(0)
        case .value(.number(let number)): number.isFinite
        case .value: kind(value) != nil
        case .position(let operand, _): isExactText(operand)
        case .call(.length, let parts): parts.count == 1 && parts.allSatisfy(isExactText)
        case .compare, .all, .any, .not, .isIn: isExact(value)
        case .call(let function, _): function.isCondition && isExact(value)
        case .arithmetic, .negate, .orElse, .member, .elementCount, .anyElement, .element, .search,
            .related, .localizedCompare:
            false
        }
    }

    // MARK: - Kinds

    /// The kinds of values whose order in SQL is the same as the server's.
    private enum Kind {
        case text
        /// Whole numbers and decimals, which PostgreSQL compares without rounding.
        case exactNumber
        case real
        case boolean
        case instant
        case bytes
    }

    private func kind(_ value: QueryExpression) -> Kind? {
        // The version is a string on the wire, but an integer in the database.
        if value.kind == .field(SystemColumn.version) { return .exactNumber }
        return switch value.type(in: schema) {
        case .string, .enumeration, .guid, .date, .time: .text
        case .integer, .decimal: .exactNumber
        case .number: .real
        case .boolean: .boolean
        case .dateTime: .instant
        case .binary: .bytes
        case .null, .json, .any: nil
        }
    }
}
