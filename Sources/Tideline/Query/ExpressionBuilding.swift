// ExpressionBuilding: the same simplifications for closures and predicates, so that both build
// the same tree: chains of && and || are flat, and constant conditions are folded.

import Foundation
import TidelineCore

extension QueryExpression {
    static func constant(_ value: Bool) -> QueryExpression {
        QueryExpression(.value(.bool(value)))
    }

    static let null = QueryExpression(.value(.null))

    /// The value of the condition if it does not depend on a row.
    var constantCondition: Bool? {
        if case .value(.bool(let value)) = kind { value } else { nil }
    }

    var isNullLiteral: Bool {
        if case .value(.null) = kind { true } else { false }
    }

    static func and(_ left: QueryExpression, _ right: QueryExpression) -> QueryExpression {
        switch (left.constantCondition, right.constantCondition) {
        case (false?, _), (_, false?): constant(false)
        case (true?, _): right
        case (_, true?): left
        default: QueryExpression(.all(left.conjuncts + right.conjuncts))
        }
    }

    static func or(_ left: QueryExpression, _ right: QueryExpression) -> QueryExpression {
        switch (left.constantCondition, right.constantCondition) {
        case (true?, _), (_, true?): constant(true)
        case (false?, _): right
        case (_, false?): left
        default: QueryExpression(.any(left.disjuncts + right.disjuncts))
        }
    }

    static func not(_ condition: QueryExpression) -> QueryExpression {
        if let value = condition.constantCondition { return constant(!value) }
        return QueryExpression(.not(condition))
    }

    /// Negates an operand.
    ///
    /// A literal becomes the negative literal, so that `-9` is the same in closures and predicates.
    static func negate(_ operand: QueryExpression) -> QueryExpression {
        guard case .value(let literal) = operand.kind else {
            return QueryExpression(.negate(operand))
        }
        return switch literal {
        case .integer(let value) where value != .min: QueryExpression(.value(.integer(-value)))
        case .number(let value): QueryExpression(.value(.number(-value)))
        case .decimal(let value): QueryExpression(.value(.decimal(-value)))
        case .null, .bool, .integer, .string, .date, .data, .json:
            QueryExpression(.negate(operand))
        }
    }

    static func compare(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression
    ) -> QueryExpression {
        QueryExpression(.compare(comparison, left, right))
    }

    static func call(_ function: Function, _ arguments: QueryExpression...) -> QueryExpression {
        QueryExpression(.call(function, arguments))
    }

    private var conjuncts: [QueryExpression] {
        if case .all(let parts) = kind { parts } else { [self] }
    }

    private var disjuncts: [QueryExpression] {
        if case .any(let parts) = kind { parts } else { [self] }
    }

    /// Whether this is a condition that is never null: anything but a column or a literal.
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
