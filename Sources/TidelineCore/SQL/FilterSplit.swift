// FilterSplit: which part of a filter PostgreSQL answers, and which part is evaluated row by row.
//
// PostgreSQL has none of our functions. A part of a filter goes into SQL when SQL means exactly the
// same by it, for every row; it finds the candidates, by an index where there is one. What is left
// over is evaluated by FilterEvaluator on the candidates. Pure.

package struct FilterSplit {
    private let schema: TableSchema

    package init(schema: TableSchema) {
        self.schema = schema
    }

    /// The two parts; a row belongs to the result when both hold, and nil always holds.
    package func split(
        _ condition: QueryExpression?
    ) -> (exact: QueryExpression?, rest: QueryExpression?) {
        guard let condition else { return (nil, nil) }
        guard case .all = condition.kind else {
            return isExact(condition) ? (condition, nil) : (nil, condition)
        }
        let parts = condition.chain
        return (
            Self.join(parts.filter(isExact), at: condition.position),
            Self.join(parts.filter { !isExact($0) }, at: condition.position)
        )
    }

    private static func join(
        _ parts: [QueryExpression],
        at position: Int
    ) -> QueryExpression? {
        parts.count > 1 ? QueryExpression(.all(parts), at: position) : parts.first
    }

    /// Whether SQL means the same by an order.
    package func isExact(_ keys: [SortKey]) -> Bool {
        keys.allSatisfy { isExactValue($0.expression) }
    }

    /// Whether SQL means the same by a condition.
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
        case .call, .arithmetic, .negate, .position, .orElse: false
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
            // PostgreSQL keeps no text with this character, nor takes one.
            !text.utf8.contains(0)
        case .value(.number(let number)): number.isFinite
        case .value: kind(value) != nil
        case .position(let operand, _): isExactText(operand)
        case .call(.length, let parts): parts.count == 1 && parts.allSatisfy(isExactText)
        case .compare, .all, .any, .not, .isIn: isExact(value)
        case .call(let function, _): function.isCondition && isExact(value)
        case .arithmetic, .negate, .orElse: false
        }
    }

    // MARK: - Kinds

    /// Values of one kind have one order in SQL, and it is ours.
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
        // A text on the wire, a whole number in the database.
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
