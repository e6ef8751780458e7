// PredicateNodes: logic, comparisons, arithmetic and optionals of Foundation predicates.

import Foundation
import TidelineCore

typealias Nodes = PredicateExpressions

extension Nodes.Conjunction: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        Alternatives(.and(try state.visit(lhs).condition, try state.visit(rhs).condition))
    }
}

extension Nodes.Disjunction: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        Alternatives(.or(try state.visit(lhs).condition, try state.visit(rhs).condition))
    }
}

extension Nodes.Negation: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        Alternatives(.not(try state.visit(wrapped).condition))
    }
}

extension PredicateWalk {
    fileprivate mutating func comparison(
        _ comparison: Comparison,
        _ left: some PredicateExpression,
        _ right: some PredicateExpression
    ) throws -> Alternatives {
        let pairs = try visit(left).with(visit(right)) { Self.compare(comparison, $0, $1) }
        return pairs.cases.count == 1 ? pairs : Alternatives(pairs.condition)
    }

    /// Returns a comparison, or its result if both sides are known: `null == true`, `cond == true`.
    private static func compare(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression
    ) -> QueryExpression {
        for (one, two) in [(left, right), (right, left)] {
            if one.isNullLiteral, two.isLiteral {
                switch comparison {
                case .eq: return .constant(two.isNullLiteral)
                case .ne: return .constant(!two.isNullLiteral)
                case .lt, .le, .gt, .ge: return .constant(false)
                }
            }
            if one.isCondition, comparison == .eq || comparison == .ne {
                if let wanted = two.constantCondition {
                    return wanted == (comparison == .eq) ? one : .not(one)
                }
                if two.isNullLiteral { return .constant(comparison == .ne) }
            }
        }
        return .compare(comparison, left, right)
    }

    fileprivate mutating func arithmetic(
        _ operation: Arithmetic,
        _ left: some PredicateExpression,
        _ right: some PredicateExpression
    ) throws -> Alternatives {
        try visit(left).with(visit(right)) { QueryExpression(.arithmetic(operation, $0, $1)) }
    }

    fileprivate mutating func call(
        _ function: Function,
        _ left: some PredicateExpression,
        _ right: some PredicateExpression
    ) throws -> Alternatives {
        try visit(left).with(visit(right)) { .call(function, $0, $1) }
    }
}

extension Nodes.Equal: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.comparison(.eq, lhs, rhs)
    }
}

extension Nodes.NotEqual: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.comparison(.ne, lhs, rhs)
    }
}

extension Nodes.Comparison: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        switch op {
        case .lessThan: try state.comparison(.lt, lhs, rhs)
        case .lessThanOrEqual: try state.comparison(.le, lhs, rhs)
        case .greaterThan: try state.comparison(.gt, lhs, rhs)
        case .greaterThanOrEqual: try state.comparison(.ge, lhs, rhs)
        @unknown default:
            throw SyncError.unsupportedQuery(
                "a comparison '\(op)' in a predicate. Use a closure over columns."
            )
        }
    }
}

extension Nodes.Arithmetic: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        switch op {
        case .add: try state.arithmetic(.add, lhs, rhs)
        case .subtract: try state.arithmetic(.sub, lhs, rhs)
        case .multiply: try state.arithmetic(.mul, lhs, rhs)
        @unknown default:
            throw SyncError.unsupportedQuery(
                "arithmetic '\(op)' in a predicate. Use a closure over columns."
            )
        }
    }
}

extension Nodes.FloatDivision: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.arithmetic(.div, lhs, rhs)
    }
}

extension Nodes.IntDivision: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.arithmetic(.div, lhs, rhs)
    }
}

extension Nodes.IntRemainder: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.arithmetic(.mod, lhs, rhs)
    }
}

extension Nodes.UnaryMinus: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.visit(wrapped).map { .negate($0) }
    }
}

extension Nodes.Conditional: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        let test = try state.visit(test).condition
        let first = try state.visit(trueBranch).when(test)
        let second = try state.visit(falseBranch).when(.not(test))
        let either = try Alternatives(cases: first + second)
        return Output.self == Bool.self ? Alternatives(either.condition) : either
    }
}

extension Nodes.NilLiteral: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives { Alternatives(.null) }
}

extension Nodes.ForcedUnwrap: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives { try state.visit(inner) }
}

extension Nodes.NilCoalesce: QueryNode {
    /// Returns the left value, or the right value if the left value is null.
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.visit(lhs).orElse(state.visit(rhs), isBoolean: Output.self == Bool.self)
    }
}

extension Alternatives {
    /// Returns this value, or the other value if this value is null.
    func orElse(_ other: Alternatives, isBoolean: Bool) throws -> Alternatives {
        if cases.allSatisfy(\.value.isNullLiteral) { return other }
        // A null Boolean does not match anyway, so `?? false` adds nothing.
        if isBoolean, other.cases.count == 1, other.condition.constantCondition == false {
            return Alternatives(condition)
        }
        var either: [Alternative] = []
        for one in cases where !one.value.isNullLiteral {
            let isPresent = one.value.isCondition || one.value.isLiteral
            let single = try Alternatives(cases: [one])
            either += isPresent ? [one] : single.when(.compare(.ne, one.value, .null))
        }
        either += other.when(isNullAnywhere)
        let result = try Alternatives(cases: either)
        return isBoolean ? Alternatives(result.condition) : result
    }

    /// The condition that the value is null in the alternative that applies.
    fileprivate var isNullAnywhere: QueryExpression {
        cases.reduce(.constant(false)) { result, one in
            let isNull: QueryExpression =
                one.value.isNullLiteral
                ? .constant(true)
                : one.value.isCondition || one.value.isLiteral
                    ? .constant(false) : .compare(.eq, one.value, .null)
            return .or(result, one.guardCondition.map { .and($0, isNull) } ?? isNull)
        }
    }
}

extension Nodes.OptionalFlatMap: QueryNode {
    /// Walks `x?.member`, `if let x` and `x.flatMap { … }`: the body applies if the value is not null.
    ///
    /// Functions and arithmetic already return null for null. A condition is never null, so its two paths are
    /// kept separate.
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        let base = try state.visit(wrapped)
        state.bindings[variable.key] = .value(base)
        let body = try state.visit(transform)
        guard body.cases.contains(where: { $0.value.isCondition || $0.value.isLiteral }) else {
            return body
        }
        return try Alternatives(
            cases: body.when(base.isNull(.ne)) + Alternatives(.null).when(base.isNull(.eq))
        )
    }
}

extension Nodes.SequenceStartsWith: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.call(.startswith, base, prefix)
    }
}

extension Nodes.CollectionContainsCollection: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.call(.contains, base, other)
    }
}
