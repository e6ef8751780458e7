// CurrentTime: `now()` becomes an instant, once for a whole query.

package import Foundation

extension TableQuery {
    /// The query as it is meant at this moment.
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
    /// The condition as it is meant at this moment.
    package func bound(now: Date) -> Filter { Filter(expression.bound(now: now)) }
}

extension QueryExpression {
    /// The expression with an instant in place of `now()`.
    package func bound(now: Date) -> QueryExpression {
        guard calls(.now) else { return self }
        switch kind {
        case .call(.now, _): return with(.value(.date(now)))
        case .call(let function, let parts):
            return with(.call(function, parts.map { $0.bound(now: now) }))
        case .all(let parts): return with(.all(parts.map { $0.bound(now: now) }))
        case .any(let parts): return with(.any(parts.map { $0.bound(now: now) }))
        case .not(let operand): return with(.not(operand.bound(now: now)))
        case .negate(let operand): return with(.negate(operand.bound(now: now)))
        case .position(let operand, let members):
            return with(.position(operand.bound(now: now), members))
        case .compare(let comparison, let left, let right):
            return with(.compare(comparison, left.bound(now: now), right.bound(now: now)))
        case .arithmetic(let operation, let left, let right):
            return with(.arithmetic(operation, left.bound(now: now), right.bound(now: now)))
        case .isIn(let operand, let elements):
            return with(.isIn(operand.bound(now: now), elements.map { $0.bound(now: now) }))
        case .field, .value: return self
        }
    }
}
