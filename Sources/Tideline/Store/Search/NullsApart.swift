// NullsApart: splits a query into rows with and without null, so that SQLite can use an index for
// each part.
//
// SQLite cannot use an index to find `"due" <= ?1 OR "due" IS NULL` in the order of the column. In
// that order, however, all rows with null come before or after all other rows.

import TidelineCore

extension TableQuery {
    /// Two queries whose concatenated results equal the result of this query.
    ///
    /// One query finds the rows in which the first sort key is null, and the other finds the rest.
    /// Nil if no part of the condition has the form "null, or a comparison of the first sort key".
    ///
    /// The second query has the limit of the original query.
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

    /// Returns whether the condition is a comparison of the value that is false if the value is
    /// null.
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

    /// Returns the condition simplified for rows whose value is known to be null or known not to be
    /// null.
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
