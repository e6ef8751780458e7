// FilterEvaluator: evaluates expressions in memory.
//
// The results agree with those of FilterRenderer's SQL: docs/filters.md.

/// An evaluator that computes an expression for one row in memory.
package struct FilterEvaluator {
    private let value: (String) -> Value
    private let watch: EvaluationWatch?
    /// The compiled patterns by their bytes, because Swift's `==` treats some different patterns as
    /// equal.
    private let patterns: [[UInt8]: TextPattern]
    /// The current elements of the enclosing conditions, by number.
    private var elements: [Int: Value] = [:]

    /// `value` returns a column's value, or null if the row does not have the column.
    ///
    /// `patterns` contains patterns that are already compiled.
    package init(
        watch: EvaluationWatch? = nil,
        patterns: [[UInt8]: TextPattern] = [:],
        value: @escaping (String) -> Value
    ) {
        self.value = value
        self.watch = watch
        self.patterns = patterns
    }

    package init(row: Row) {
        self.init { row[$0] ?? .null }
    }

    /// Returns whether the row matches the condition; null counts as false.
    package static func matches(
        _ expression: QueryExpression,
        value: @escaping (String) -> Value
    ) -> Bool {
        FilterEvaluator(value: value).matches(expression)
    }

    /// Returns whether the row matches the condition; null counts as false.
    package func matches(_ expression: QueryExpression) -> Bool {
        switch expression.kind {
        case .all(let parts): parts.allSatisfy { matches($0) }
        case .any(let parts): parts.contains { matches($0) }
        case .not(let operand): !matches(operand)
        case .compare(let comparison, let left, let right):
            compare(comparison, evaluate(left), evaluate(right))
        case .localizedCompare(let comparison, let left, let right, let order):
            order.compare(evaluate(left), evaluate(right)).map(comparison.holds) ?? false
        case .isIn(let operand, let elements): isIn(evaluate(operand), elements)
        case .anyElement(let list, let number, let condition):
            anyElement(of: evaluate(list), number, condition)
        case .field, .value, .arithmetic, .negate, .call, .position, .orElse, .member,
            .elementCount, .element:
            if case .bool(true) = evaluate(expression) { true } else { false }
        case .search, .related: false
        }
    }

    /// Returns the value of an expression.
    ///
    /// Conditions evaluate to true or false, never null.
    package func evaluate(_ expression: QueryExpression) -> Value {
        switch expression.kind {
        case .field(let name): value(name)
        case .value(let value): value
        case .arithmetic(let operation, let left, let right):
            ScalarNumbers.apply(operation, evaluate(left), evaluate(right))
        case .negate(let operand): ScalarNumbers.negate(evaluate(operand))
        case .call(let function, let arguments): call(function, arguments)
        case .position(let operand, let members): position(evaluate(operand), members)
        case .orElse(let operand, let other): Self.value(evaluate(operand), or: other)
        case .member(let document, let names): member(evaluate(document), names)
        case .elementCount(let list): .integer(count(evaluate(list)))
        case .element(let number): elements[number] ?? .null
        case .compare, .all, .any, .not, .isIn, .anyElement, .localizedCompare:
            .bool(matches(expression))
        // Only a store can evaluate a search or a condition on related rows.
        case .search(.matches), .related: .bool(false)
        case .search(.rank): .null
        }
    }

    // MARK: - Documents

    private func isOver(beforeReading document: Value) -> Bool {
        guard let watch, case .json(let json) = document else { return false }
        return watch.isOver(beforeReading: 64 + json.text.utf8.count)
    }

    private func member(_ document: Value, _ names: [String]) -> Value {
        isOver(beforeReading: document) ? .null : DocumentValues.member(of: document, names)
    }

    private func count(_ list: Value) -> Int64 {
        isOver(beforeReading: list) ? 0 : DocumentValues.count(list)
    }

    private func anyElement(
        of list: Value,
        _ number: Int,
        _ condition: QueryExpression
    ) -> Bool {
        if isOver(beforeReading: list) { return false }
        var inner = self
        let cost = watch == nil ? 0 : 64 * condition.nodeCount
        return DocumentValues.contains(in: list) { element in
            // After the time limit, the result is not used.
            if let watch, watch.isOver(beforeReading: cost) { return true }
            inner.elements[number] = element
            return inner.matches(condition)
        }
    }

    private func call(_ function: Function, _ arguments: [QueryExpression]) -> Value {
        let values = arguments.map { evaluate($0) }
        if let watch {
            let bytes = values.reduce(64) { $0 + ($1.text?.utf8.count ?? 0) }
            if watch.isOver(beforeReading: bytes) { return .null }
        }
        guard function == .matchesPattern, !patterns.isEmpty, let text = values[1].text else {
            return ScalarFunctions.apply(function, values, watch)
        }
        let pattern = patterns[Array(text.utf8)]
        return ScalarFunctions.apply(function, values, watch, pattern: pattern)
    }

    private func compare(_ comparison: Comparison, _ left: Value, _ right: Value) -> Bool {
        // An object or array is not null and does not equal any value, because its text has many
        // spellings.
        if case .json = left, case .json = right { return comparison == .ne }
        return switch comparison {
        case .eq: ValueOrder.equal(left, right)
        case .ne: !ValueOrder.equal(left, right)
        case .lt, .le, .gt, .ge:
            ValueOrder.compare(left, right).map(comparison.holds) ?? false
        }
    }

    private func isIn(_ value: Value, _ elements: [QueryExpression]) -> Bool {
        elements.contains { compare(.eq, value, evaluate($0)) }
    }

    private static func value(_ value: Value, or other: Value) -> Value {
        value.isNull ? other : value
    }

    private func position(_ value: Value, _ members: [String]) -> Value {
        guard let text = value.text else { return .null }
        let index = members.firstIndex { $0.utf8.elementsEqual(text.utf8) }
        return .integer(Int64(index ?? members.count))
    }
}
