// VersionLiterals: converts the versions in a filter, which are strings on the wire, to a database's integers.

package import TidelineCore

/// A conversion of versions, which are strings on the wire and integers in the database.
package enum VersionLiterals {
    /// Returns the filter with the literals that are compared with `version` converted to integers.
    package static func replace(in expression: QueryExpression) -> QueryExpression {
        var result = expression
        switch expression.kind {
        case .compare(let comparison, let left, let right):
            if isVersion(left) {
                result.kind = .compare(comparison, left, number(right))
            } else if isVersion(right) {
                result.kind = .compare(comparison, number(left), right)
            }
        case .isIn(let operand, let elements) where isVersion(operand):
            result.kind = .isIn(operand, elements.map(number))
        case .all(let parts): result.kind = .all(parts.map(replace))
        case .any(let parts): result.kind = .any(parts.map(replace))
        case .not(let part): result.kind = .not(replace(in: part))
        case .field, .value, .arithmetic, .negate, .call, .isIn, .position, .orElse, .member,
            .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            break
        }
        return result
    }

    private static func isVersion(_ expression: QueryExpression) -> Bool {
        expression.kind == .field(SystemColumn.version)
    }

    private static func number(_ expression: QueryExpression) -> QueryExpression {
        guard case .value(.string(let text)) = expression.kind,
            let timestamp = RowVersion.timestamp(text)
        else { return expression }
        return QueryExpression(.value(.integer(timestamp)), at: expression.position)
    }
}
