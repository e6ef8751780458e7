// CurrentTime: replaces `now()` with an instant, once for a whole query.

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
        guard calls(.now) else { return self }
        return replacing { if case .call(.now, _) = $0 { .value(.date(now)) } else { nil } }
    }
}
