// QueryExpression: the expressions in queries.
//
// An expression has four representations that agree: OData text (ODataWriter, ODataParser), SQL
// (FilterRenderer), evaluation in memory (FilterEvaluator), and the Swift code that built it
// (Columns, Predicate). docs/filters.md has the rules for null, division, rounding, and text order.

/// The tree of an expression in a query, such as a filter, regardless of how the query was written.
package struct QueryExpression: Sendable {
    package indirect enum Kind: Hashable, Sendable {
        /// A column. OData: `title`. SQL: `"title"`.
        case field(String)

        /// A literal. OData: `'milk'`, `42`. SQL: always a bound parameter.
        case value(Value)

        /// A comparison that is never null. OData: `a eq b`. SQL: `a IS b`, `ifnull(a < b, 0)`.
        case compare(Comparison, QueryExpression, QueryExpression)

        /// All parts are true. OData: `a and b and c`. Precondition: two parts or more.
        case all([QueryExpression])

        /// At least one part is true. OData: `a or b or c`. Precondition: two parts or more.
        case any([QueryExpression])

        /// The negation. OData: `not (a)`.
        case not(QueryExpression)

        /// Arithmetic; null if an operand is null, if the divisor is zero, or if the result
        /// overflows.
        case arithmetic(Arithmetic, QueryExpression, QueryExpression)

        /// Unary minus. OData: `-(a)`.
        case negate(QueryExpression)

        /// A function. OData: `contains(a,b)`.
        case call(Function, [QueryExpression])

        /// A chain of `eq`. OData v4: `a in (b,c)`, v3: `(a eq b or a eq c)`; empty: `false`.
        case isIn(QueryExpression, [QueryExpression])

        /// The position of a string in an enumeration; the number of strings in the enumeration for
        /// any other string.
        ///
        /// Only FilterChecker creates it. OData: written as `a`. SQL: `CASE "a" WHEN … END`.
        case position(QueryExpression, [String])

        /// An operand, or a default value if the operand is null.
        ///
        /// Only a device creates it, for a property that is not optional. OData: written as `a`.
        /// SQL: `ifnull("a", 0)`.
        case orElse(QueryExpression, Value)

        /// A member of a JSON document, given by the names along its path; null if there is none.
        ///
        /// OData: `address/city`. SQL: a call of `tl_program`, as for the next three cases.
        case member(QueryExpression, [String])

        /// The number of elements of an array; 0 for any other value. OData: `tags/$count`.
        case elementCount(QueryExpression)

        /// At least one element of an array satisfies a condition. OData: `tags/any(x:x eq 'a')`.
        ///
        /// In the condition, the number identifies the element. It is the number of enclosing
        /// conditions on elements, so each condition has a different number.
        case anyElement(QueryExpression, Int, QueryExpression)

        /// The element with this number. OData: `x`.
        case element(Int)

        /// A search of the table's search index, which only the store on a device can evaluate.
        case search(Search)

        /// At least one related row of another table satisfies a condition; never null.
        ///
        /// Only a device can evaluate it. SQL: `"customerID" IN (SELECT "id" FROM "Customer" WHERE
        /// …)`.
        case related(RelatedRows)

        /// A comparison of two strings in a localized order; false if one of them is null.
        ///
        /// Only a device can evaluate it. SQL: `"name" COLLATE "tideline.localized.…" >= 'é'`.
        case localizedCompare(Comparison, QueryExpression, QueryExpression, LocalizedOrder)
    }

    package enum Search: Hashable, Sendable {
        /// Whether the row's words match the text of a search, as ``SearchText`` reads it; never
        /// null.
        case matches(String)
        /// The rank of the row for the filter's searches: the smallest values match best.
        ///
        /// Only a sort key contains it.
        case rank
    }

    package var kind: Kind

    /// The offset in the parsed query, for messages; ignored by `==`.
    package var position: Int

    package init(_ kind: Kind, at position: Int = 0) {
        self.kind = kind
        self.position = position
    }
}

extension QueryExpression: Hashable {
    package static func == (left: QueryExpression, right: QueryExpression) -> Bool {
        left.kind == right.kind
    }
    package func hash(into hasher: inout Hasher) { hasher.combine(kind) }
}

/// A comparison operator of OData.
package enum Comparison: String, Hashable, Sendable, CaseIterable {
    case eq
    case ne
    case lt
    case le
    case gt
    case ge
}

/// An arithmetic operator of OData.
package enum Arithmetic: String, Hashable, Sendable, CaseIterable {
    case add
    case sub
    case mul
    /// Division that truncates the fraction if both operands are integers.
    case div
    /// Division that keeps the fraction.
    case divby
    case mod
}

/// The functions of both protocol generations, with their v4 names.
package enum Function: String, Hashable, Sendable, CaseIterable {
    case contains
    /// Whether a string contains another string, with the rules of a search by a user.
    ///
    /// The search ignores letter case, accents, and width, by the rules of the device's language.
    /// Only devices support it.
    case localizedContains
    /// Whether a string contains another string, ignoring letter case by the rules of the device's
    /// language.
    ///
    /// Only devices support it.
    case localizedCaseInsensitiveContains
    case startswith
    case endswith
    /// Whether part of the string matches a regular expression.
    case matchesPattern
    case length
    case indexof
    case substring
    case replace
    case tolower
    case toupper
    case trim
    case concat
    case year
    case month
    case day
    case hour
    case minute
    case second
    /// The offset of an instant, which is always 0, because instants are in UTC.
    case totaloffsetminutes
    /// The fraction of the second, at least 0 and less than 1.
    case fractionalseconds
    /// The UTC day of an instant.
    case date
    /// The UTC time of day of an instant.
    case time
    case floor
    case ceiling
    /// Rounds half to even, as `round` does in v4.
    case round
    /// Rounds half away from zero, as `round` does in 2.x.
    case roundAway
    /// The time of the request, which replaces the call before evaluation.
    case now
    /// Converts a value to another type; the second argument is the name of an ``EdmType``.
    case cast
    /// Whether a value has a type; takes the same arguments as `cast`.
    case isof
    /// Whether an enumeration column contains a value; an operator in OData.
    ///
    /// FilterChecker replaces it with `eq`.
    case has
}

extension QueryExpression {
    /// Returns whether the expression contains a call of the function.
    package func calls(_ function: Function) -> Bool {
        contains { if case .call(function, _) = $0 { true } else { false } }
    }

    /// Returns whether the expression or any part of it satisfies a predicate.
    ///
    /// Does not visit the parts of a condition on related rows, because they refer to another
    /// table.
    package func contains(_ isWanted: (Kind) -> Bool) -> Bool {
        if isWanted(kind) { return true }
        switch kind {
        case .call(_, let parts), .all(let parts), .any(let parts):
            return parts.contains { $0.contains(isWanted) }
        case .isIn(let operand, let parts):
            return operand.contains(isWanted) || parts.contains { $0.contains(isWanted) }
        case .compare(_, let left, let right), .arithmetic(_, let left, let right),
            .localizedCompare(_, let left, let right, _):
            return left.contains(isWanted) || right.contains(isWanted)
        case .not(let operand), .negate(let operand), .position(let operand, _),
            .orElse(let operand, _), .member(let operand, _), .elementCount(let operand):
            return operand.contains(isWanted)
        case .anyElement(let list, _, let condition):
            return list.contains(isWanted) || condition.contains(isWanted)
        case .field, .value, .element, .search, .related: return false
        }
    }

    /// Whether the expression or any part of it uses the table's search index.
    package var searches: Bool { contains { if case .search = $0 { true } else { false } } }

    /// Returns the expression with parts replaced at any depth; `change` returns nil to keep a
    /// part.
    ///
    /// The parts of a condition on related rows are not visited.
    package func replacing(
        _ change: (Kind) throws -> Kind?
    ) rethrows -> QueryExpression {
        if let changed = try change(kind) { return with(changed) }
        switch kind {
        case .call(let function, let parts):
            return with(.call(function, try parts.map { try $0.replacing(change) }))
        case .all(let parts): return with(.all(try parts.map { try $0.replacing(change) }))
        case .any(let parts): return with(.any(try parts.map { try $0.replacing(change) }))
        case .not(let operand): return with(.not(try operand.replacing(change)))
        case .negate(let operand): return with(.negate(try operand.replacing(change)))
        case .position(let operand, let members):
            return with(.position(try operand.replacing(change), members))
        case .orElse(let operand, let value):
            return with(.orElse(try operand.replacing(change), value))
        case .compare(let comparison, let left, let right):
            return with(
                .compare(comparison, try left.replacing(change), try right.replacing(change))
            )
        case .arithmetic(let operation, let left, let right):
            return with(
                .arithmetic(operation, try left.replacing(change), try right.replacing(change))
            )
        case .localizedCompare(let comparison, let left, let right, let order):
            let (left, right) = (try left.replacing(change), try right.replacing(change))
            return with(.localizedCompare(comparison, left, right, order))
        case .isIn(let operand, let parts):
            return with(
                .isIn(try operand.replacing(change), try parts.map { try $0.replacing(change) })
            )
        case .member(let operand, let names):
            return with(.member(try operand.replacing(change), names))
        case .elementCount(let list): return with(.elementCount(try list.replacing(change)))
        case .anyElement(let list, let number, let condition):
            return with(
                .anyElement(try list.replacing(change), number, try condition.replacing(change))
            )
        case .field, .value, .element, .search, .related: return self
        }
    }

    /// Whether any part of the expression reads a JSON document.
    package var readsDocuments: Bool {
        contains { kind in
            switch kind {
            case .member, .elementCount, .anyElement, .element: true
            case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
                .position, .orElse, .search, .related, .localizedCompare:
                false
            }
        }
    }

    /// Returns the member of a document with this name.
    package static func member(_ name: String, of document: QueryExpression) -> QueryExpression {
        guard case .member(let base, let names) = document.kind else {
            return document.with(.member(document, [name]))
        }
        return document.with(.member(base, names + [name]))
    }
}
