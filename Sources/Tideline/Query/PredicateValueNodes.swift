// PredicateValueNodes: columns, captured values, ranges and lists of Foundation predicates.

import Foundation
import TidelineCore

extension Nodes.Variable: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        guard case .value(let value) = state.bindings[key] else {
            throw SyncError.unsupportedQuery("the record itself as a value. Name a property of it.")
        }
        return value
    }
}

/// A node whose value is already known: a captured value, or a property of a captured value.
protocol ConstantNode {
    func constant() -> Any?
}

extension Nodes.Value: ConstantNode, QueryNode {
    func constant() -> Any? { value }

    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        Alternatives(try Literal.expression(value))
    }
}

extension Nodes.KeyPath: ConstantNode, QueryNode {
    func constant() -> Any? {
        guard let base = (root as? any ConstantNode)?.constant() as? Root.Output else { return nil }
        return base[keyPath: keyPath]
    }

    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        if let value = constant() {
            let typed = value as? Output
            return Alternatives(try typed.map { try Literal.expression($0) } ?? .null)
        }
        if let variable = root as? Nodes.Variable<Root.Output>,
            case .record = state.bindings[variable.key]
        {
            return Alternatives(QueryExpression(.field(try state.column(keyPath))))
        }
        if let found = try state.member(keyPath, of: Root.Output.self, try state.visit(root)) {
            return found
        }
        switch try member() {
        case .length: return try state.visit(root).map { .call(.length, $0) }
        case .isEmpty:
            return try state.visit(root).map { .compare(.eq, $0, QueryExpression(.value(""))) }
        }
    }

    private enum Member {
        case length
        case isEmpty
    }

    /// Returns the member of a column's value that a query supports: `count` and `isEmpty` of a string.
    private func member() throws -> Member {
        if Root.Output.self == String.self {
            if keyPath == \String.count { return .length }
            if keyPath == \String.isEmpty { return .isEmpty }
        }
        throw SyncError.unsupportedQuery(
            "member '\(keyPath.debugDescription)' of a column. Use a closure over columns."
        )
    }
}

extension Nodes.SequenceContains: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        let known = (sequence as? any ConstantNode)?.constant() as? LHS.Output
        if known == nil, LHS.Output.self is any ListContent.Type {
            return try state.anyElement(of: sequence, as: LHS.Output.Element.self) { state, item in
                try item.with(try state.visit(self.element)) { .compare(.eq, $0, $1) }.condition
            }
        }
        let element = try state.visit(element)
        if LHS.Output.self == String.self {
            return try state.visit(sequence).with(element) { .call(.contains, $0, $1) }
        }
        guard let list = known else {
            throw SyncError.unsupportedQuery(
                "'contains' on a column that is neither a string nor an array. Use one of these."
            )
        }
        let values = try list.map { try Literal.expression($0) }
        return element.map { QueryExpression(.isIn($0, values)) }
    }
}

/// A range whose bounds are nodes or already known.
private protocol RangeNode {
    func bounds(
        _ state: inout PredicateWalk
    ) throws -> (lower: Alternatives, upper: Alternatives, upperComparison: Comparison)
}

extension Nodes.Range: RangeNode {
    fileprivate func bounds(
        _ state: inout PredicateWalk
    ) throws -> (lower: Alternatives, upper: Alternatives, upperComparison: Comparison) {
        (try state.visit(lower), try state.visit(upper), .lt)
    }
}

extension Nodes.ClosedRange: RangeNode {
    fileprivate func bounds(
        _ state: inout PredicateWalk
    ) throws -> (lower: Alternatives, upper: Alternatives, upperComparison: Comparison) {
        (try state.visit(lower), try state.visit(upper), .le)
    }
}

/// A range whose bound type the caller does not know.
private protocol KnownRange {
    func literals() throws -> (lower: QueryExpression, upper: QueryExpression)
    var upperComparison: Comparison { get }
}

extension Swift.Range: KnownRange {
    fileprivate func literals() throws -> (lower: QueryExpression, upper: QueryExpression) {
        (try Literal.expression(lowerBound), try Literal.expression(upperBound))
    }
    fileprivate var upperComparison: Comparison { .lt }
}

extension Swift.ClosedRange: KnownRange {
    fileprivate func literals() throws -> (lower: QueryExpression, upper: QueryExpression) {
        (try Literal.expression(lowerBound), try Literal.expression(upperBound))
    }
    fileprivate var upperComparison: Comparison { .le }
}

extension Nodes.RangeExpressionContains: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        let element = try state.visit(element)
        let (lower, upper, comparison) = try bounds(&state)
        let above = try element.with(lower) { .compare(.ge, $0, $1) }
        let below = try element.with(upper) { .compare(comparison, $0, $1) }
        return Alternatives(.and(above.condition, below.condition))
    }

    private func bounds(
        _ state: inout PredicateWalk
    ) throws -> (lower: Alternatives, upper: Alternatives, upperComparison: Comparison) {
        if let range = range as? any RangeNode { return try range.bounds(&state) }
        if let known = (range as? any ConstantNode)?.constant() as? any KnownRange {
            let (lower, upper) = try known.literals()
            return (Alternatives(lower), Alternatives(upper), known.upperComparison)
        }
        throw SyncError.unsupportedQuery("a range without both bounds. Write two comparisons.")
    }
}
