// CurrentTime: replaces `now()` with an instant, once for the whole query.

package import Foundation

extension TableQuery {
    /// Returns the query with `now()` replaced by an instant.
    package func bound(now: Date) -> TableQuery {
        var result = self
        result.filter = filter.map { $0.bound(now: now) }
        for index in order.indices {
            result.order[index].expression = order[index].expression.bound(now: now)
        }
        return result
    }
}

extension Filter {
    /// Returns the condition with `now()` replaced by an instant.
    package func bound(now: Date) -> Filter { Filter(expression.bound(now: now)) }
}

extension QueryExpression {
    /// Returns the expression with `now()` replaced by an instant.
    package func bound(now: Date) -> QueryExpression {
        guard calls(.now) || relates else { return self }
        return replacing { kind in
            switch kind {
            case .call(.now, _): .value(.date(now))
            case .related(let rows): .related(rows.with(rows.condition?.bound(now: now)))
            case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
                .position, .orElse, .member, .elementCount, .anyElement, .element, .search,
                .localizedCompare:
                nil
            }
        }
    }
}
