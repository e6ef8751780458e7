// PredicateWalk: converts a Foundation Predicate to a query.
//
// Foundation's predicate nodes conform to a protocol of this library, through which the walk visits them. A Swift
// expression may have different values on different paths (`??`, `?.`, `if`), which the query languages cannot express.
// The walk therefore keeps all alternatives of a value, each with the condition under which it applies, and a condition
// becomes "at least one alternative matches". Usually, there is only one alternative.

import Foundation
import TidelineCore

/// A value on one path, with the condition for that path.
struct Alternative {
    /// The condition under which the value applies; nil if it always does.
    var guardCondition: QueryExpression?
    var value: QueryExpression
}

/// The possible values of a predicate's variable or subtree.
struct Alternatives: Sendable {
    /// The maximum number of paths.
    ///
    /// A predicate with more paths is rejected, because the query would grow without bounds.
    static let countMax = 16

    var cases: [Alternative]
    /// The nesting depth of the values; a chain of one operator is one level.
    var depth = 1

    init(_ value: QueryExpression) {
        cases = [Alternative(guardCondition: nil, value: value)]
    }

    init(cases: [Alternative]) throws {
        guard cases.count <= Self.countMax else {
            throw SyncError.unsupportedQuery(
                "a condition with too many '??', '?.' or '?:' in one comparison. Split it."
            )
        }
        self.cases = cases
    }

    func map(_ transform: (QueryExpression) throws -> QueryExpression) rethrows -> Alternatives {
        var copy = self
        copy.depth += 1
        for index in copy.cases.indices {
            copy.cases[index].value = try transform(copy.cases[index].value)
        }
        return copy
    }

    func with(
        _ other: Alternatives,
        _ transform: (QueryExpression, QueryExpression) throws -> QueryExpression
    ) throws -> Alternatives {
        var result = try Alternatives(
            cases: cases.flatMap { one in
                try other.cases.map { two in
                    Alternative(
                        guardCondition: Self.both(one.guardCondition, two.guardCondition),
                        value: try transform(one.value, two.value)
                    )
                }
            }
        )
        result.depth = max(depth(within: result), other.depth(within: result))
        return result
    }

    /// Returns the depth of an expression that contains these values; members of a chain share its level.
    private func depth(within result: Alternatives) -> Int {
        switch (result.cases.first?.value.kind, cases.first?.value.kind) {
        case (.all, .all), (.any, .any): depth
        default: depth + 1
        }
    }

    /// Returns these alternatives, restricted to a condition.
    func when(_ condition: QueryExpression) -> [Alternative] {
        cases.map {
            Alternative(
                guardCondition: Self.both(condition, $0.guardCondition),
                value: $0.value
            )
        }
    }

    /// The condition that the value is true; null is not true.
    var condition: QueryExpression {
        cases.reduce(.constant(false)) { result, one in
            let value = one.value.isNullLiteral ? .constant(false) : one.value
            return .or(result, one.guardCondition.map { .and($0, value) } ?? value)
        }
    }

    /// Returns the condition that the value is null (`.eq`) or is not null (`.ne`).
    func isNull(_ comparison: Comparison) -> QueryExpression {
        map { value in
            if value.isNullLiteral { return .constant(comparison == .eq) }
            if value.isLiteral { return .constant(comparison == .ne) }
            return .compare(comparison, value, .null)
        }.condition
    }

    private static func both(
        _ one: QueryExpression?,
        _ two: QueryExpression?
    ) -> QueryExpression? {
        guard let one else { return two }
        return two.map { .and(one, $0) } ?? one
    }
}

extension QueryExpression {
    var isLiteral: Bool {
        if case .value = kind { true } else { false }
    }
}

/// The state of a walk through the tree of a predicate.
struct PredicateWalk {
    /// The value that a variable is bound to.
    enum Binding {
        case record
        case value(Alternatives)
    }

    var bindings: [PredicateExpressions.VariableID: Binding] = [:]
    /// The number of conditions on list elements that enclose the current node.
    var lists = 0
    let column: (AnyKeyPath) throws -> String

    static func expression<Record>(
        _ predicate: Predicate<Record>,
        column: (AnyKeyPath) throws -> String
    ) throws -> QueryExpression {
        try withoutActuallyEscaping(column) { column in
            var walk = PredicateWalk(column: column)
            walk.bindings[predicate.variable.key] = .record
            return try walk.visit(predicate.expression).condition
        }
    }

    mutating func visit(_ node: some PredicateExpression) throws -> Alternatives {
        guard let node = node as? any QueryNode else {
            throw SyncError.unsupportedQuery(
                "a predicate with '\(Self.name(of: node))'. Use a closure over columns."
            )
        }
        return try node.walk(&self)
    }

    /// Returns the name of a node without its module and type arguments: `TypeCast`.
    private static func name(of node: Any) -> String {
        let text = String(describing: type(of: node))
        return String(text.prefix { $0 != "<" })
    }
}

/// A node of a predicate that can become a query.
protocol QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives
}
