// PredicateLocalized: `localizedStandardContains` in predicates.
//
// The device evaluates the function as Foundation does; no server supports it. The macro accepts
// the function on every platform, but Foundation on Linux has no node for it, so this file supplies
// the node.

import TidelineCore

#if canImport(Darwin)
import Foundation
#else
public import Foundation

extension PredicateExpressions {
    /// A predicate node that searches text as users do: ignoring case and accents.
    public struct StringLocalizedStandardContains<
        Root: PredicateExpression,
        Other: PredicateExpression
    >: PredicateExpression where Root.Output: StringProtocol, Other.Output: StringProtocol {
        /// The result type: a condition.
        public typealias Output = Bool

        /// The text to search in.
        public let root: Root
        /// The text to search for.
        public let other: Other

        /// Evaluates the node in memory.
        ///
        /// - Throws: The errors of the two operands.
        public func evaluate(_ bindings: PredicateBindings) throws -> Bool {
            try root.evaluate(bindings).localizedStandardContains(other.evaluate(bindings))
        }
    }

    // The macro requires this name.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    /// Builds the node for `localizedStandardContains`; the macro calls it.
    public static func build_localizedStandardContains<Root, Other>(
        _ root: Root,
        _ other: Other
    ) -> StringLocalizedStandardContains<Root, Other> {
        StringLocalizedStandardContains(root: root, other: other)
    }
}

extension PredicateExpressions.StringLocalizedStandardContains: Encodable
where Root: Encodable, Other: Encodable {}

extension PredicateExpressions.StringLocalizedStandardContains: Decodable
where Root: Decodable, Other: Decodable {}

extension PredicateExpressions.StringLocalizedStandardContains: Sendable
where Root: Sendable, Other: Sendable {}

extension PredicateExpressions.StringLocalizedStandardContains: StandardPredicateExpression
where Root: StandardPredicateExpression, Other: StandardPredicateExpression {}
#endif

extension PredicateExpressions.StringLocalizedStandardContains: QueryNode {
    func walk(_ state: inout PredicateWalk) throws -> Alternatives {
        try state.visit(root).with(try state.visit(other)) { text, other in
            .call(.localizedContains, text, other)
        }
    }
}
