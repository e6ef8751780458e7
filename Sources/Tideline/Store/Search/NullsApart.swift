// NullsApart: splits a query for the rows with and without null, so that SQLite can use an index for each part.
//
// No index of SQLite finds `"due" <= ?1 OR "due" IS NULL` in the order of the column. In that order, however, the rows
// with null are all before or all after the others.

import TidelineCore

extension TableQuery {
    /// Two queries whose results, one after the other, are the result of this one.
    ///
    /// They find the rows with and without null in the first sort key. Nil if no part of the condition has the form "null, or a comparison of the first sort key".
    ///
    /// The second query has the limit of the whole query.
    var nullsApart: (first: TableQuery, second: TableQuery)? {
        guard limit != nil, offset == 0, !searches, let key = order.first, let filter else {
            return nil
        }
        let value = key.expression
        let parts = filter.expression.chainOfConditions
        for (position, part) in parts.enumerated() {
            guard case .any(let choices) = part.kind, choices.count == 2,
                let null = choices.firstIndex(where: { $0.isNullTest(of: value) }),
                choices[1 - null].comparesWithoutNull(value)
            else { continue }
            func query(_ choice: Int) -> TableQuery {
                var rest = parts
                rest.remove(at: position)
                var copy = self
                copy.filter = Filter(
                    rest.reduce(choices[choice]) {
                        .and($0, $1.assuming(value, isNull: choice == null))
                    }
                )
                return copy
            }
            let (nulls, others) = (query(null), query(1 - null))
            return key.isAscending ? (nulls, others) : (others, nulls)
        }
        return nil
    }
}

extension QueryExpression {
    fileprivate func isNullTest(of value: QueryExpression) -> Bool {
        kind == .compare(.eq, value, .null)
    }

    /// Whether the condition is a comparison with the value that is false if the value is null.
    fileprivate func comparesWithoutNull(_ value: QueryExpression) -> Bool {
        switch kind {
        case .compare(.ne, value, .null): true
        case .compare(.lt, value, _), .compare(.le, value, _), .compare(.gt, value, _),
            .compare(.ge, value, _), .localizedCompare(_, value, _, _):
            true
        case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
            .position, .orElse, .member, .elementCount, .anyElement, .element, .search, .related,
            .localizedCompare:
            false
        }
    }

    /// Returns the condition for rows whose value is known to be null, or not to be null.
    fileprivate func assuming(_ value: QueryExpression, isNull: Bool) -> QueryExpression {
        switch kind {
        case .all(let parts):
            return parts.reduce(.constant(true)) { .and($0, $1.assuming(value, isNull: isNull)) }
        case .any(let parts):
            return parts.reduce(.constant(false)) { .or($0, $1.assuming(value, isNull: isNull)) }
        case .compare(.eq, value, .null): return .constant(isNull)
        case .compare(.ne, value, .null): return .constant(!isNull)
        case .field, .value, .compare, .not, .arithmetic, .negate, .call, .isIn, .position, .orElse,
            .member, .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            return isNull && comparesWithoutNull(value) ? .constant(false) : self
        }
    }
}
