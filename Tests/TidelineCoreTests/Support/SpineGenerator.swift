// SpineGenerator: a generator of random deep, narrow filters for the table of FilterGenerator.

import Foundation
import TidelineCore
import TidelineTestKit

struct SpineGenerator {
    private enum Kind: CaseIterable {
        case condition
        case text
        case integer
        case decimal
    }

    private var random: SeededGenerator

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
    }

    /// Returns a condition of up to 70 levels.
    mutating func filter() -> QueryExpression {
        var kind = random.pick(Kind.allCases)
        var tree = leaf(kind)
        for _ in 0..<random.below(60) { (tree, kind) = wrapped(tree, kind) }
        switch kind {
        case .condition: return tree
        case .text: return node(.call(.contains, [tree, leaf(.text)]))
        case .integer, .decimal: return node(.compare(.lt, tree, leaf(.integer)))
        }
    }

    private func node(_ kind: QueryExpression.Kind) -> QueryExpression { QueryExpression(kind) }

    private mutating func leaf(_ kind: Kind) -> QueryExpression {
        switch kind {
        case .condition: node(.field(random.pick(["b1", "b2"])))
        case .text: node(random.pick([.field("s1"), .field("s2"), .value("a"), .value("")]))
        case .integer: node(random.pick([.field("i1"), .field("i2"), .value(2), .value(-1)]))
        case .decimal: node(random.pick([.field("d1"), .value(decimal("2"))]))
        }
    }

    private mutating func sides(_ tree: QueryExpression, _ kind: Kind) -> [QueryExpression] {
        let other = leaf(kind)
        return random.chance(1, in: 2) ? [tree, other] : [other, tree]
    }

    private func cast(_ tree: QueryExpression, _ type: EdmType) -> QueryExpression {
        node(.call(.cast, [tree, node(.value(.string(type.rawValue)))]))
    }

    private mutating func wrapped(
        _ tree: QueryExpression,
        _ kind: Kind
    ) -> (QueryExpression, Kind) {
        // The parser would cast a literal that is alone.
        if case .value = tree.kind { return (node(.compare(.ne, tree, leaf(kind))), .condition) }
        let sides = sides(tree, kind)
        switch kind {
        case .condition: return condition(tree, sides)
        case .text:
            switch random.below(6) {
            case 0: return (node(.call(.length, [tree])), .integer)
            case 1: return (node(.call(.indexof, sides)), .integer)
            case 2: return (node(.call(.concat, sides)), .text)
            case 3:
                return (
                    node(.compare(random.pick(Comparison.allCases), tree, sides[1])), .condition
                )
            case 4: return (cast(tree, .int32), .integer)
            default: return (node(.call(.tolower, [tree])), .text)
            }
        case .integer, .decimal:
            switch random.below(6) {
            case 0: return (cast(tree, .string), .text)
            case 1: return (node(.negate(tree)), kind)
            case 2:
                return (
                    node(.compare(random.pick(Comparison.allCases), sides[0], sides[1])), .condition
                )
            case 3: return (cast(tree, .decimal), .decimal)
            default:
                let operation = random.pick([Arithmetic.add, .sub, .mul, .mod])
                return (node(.arithmetic(operation, sides[0], sides[1])), kind)
            }
        }
    }

    private mutating func condition(
        _ tree: QueryExpression,
        _ sides: [QueryExpression]
    ) -> (QueryExpression, Kind) {
        switch random.below(7) {
        case 0: (node(.all(sides)), .condition)
        case 1: (node(.any(sides)), .condition)
        case 2: (node(.compare(random.pick([.eq, .ne]), sides[0], sides[1])), .condition)
        case 3: (node(.isIn(tree, [leaf(.condition), node(.value(nil))])), .condition)
        case 4: (cast(tree, .string), .text)
        default: (node(.not(tree)), .condition)
        }
    }
}
