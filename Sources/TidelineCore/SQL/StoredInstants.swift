// StoredInstants: the precision of instants in filters and orders.
//
// The wire format, and therefore every device, has milliseconds, rounded down. A filter has to find
// the same rows on the server and on a device. Columns of instants are therefore truncated before
// they are compared, even if another program wrote microseconds. Literals keep their digits, as
// they do on devices.
//
// Only `updatedAt` is exact in comparisons with literals and as a sort key, because clients page by
// it: if it were truncated, `updatedAt gt T` would miss a row that is committed later in the
// millisecond T. In comparisons with other columns and in functions, `updatedAt` is truncated too.

import Foundation

/// The precision, in filters and orders, of instants that a server stores in microseconds.
package enum StoredInstants {
    /// The name of `updatedAt` in expressions in which it is exact; no column has this name.
    fileprivate static let exactUpdate = "\u{0}updatedAt"

    /// Returns the value of a name in an expression from ``QueryExpression/namingExactUpdates``.
    ///
    /// - Parameters:
    ///   - name: A name in the expression.
    ///   - type: The type of the column.
    ///   - stored: The value of the column.
    /// - Returns: The value.
    package static func value(
        of name: String,
        _ type: ExpressionType,
        stored: SQLValue
    ) -> Value {
        SQLFunctions.value(name == exactUpdate ? stored : cut(stored, type), as: type)
    }

    /// Returns the name of the column.
    package static func column(_ name: String) -> String {
        name == exactUpdate ? SystemColumn.updatedAt : name
    }

    /// Returns the stored value, truncated if it is an instant.
    private static func cut(_ stored: SQLValue, _ type: ExpressionType) -> SQLValue {
        guard type == .dateTime, case .integer(let time) = stored else { return stored }
        return .integer(Timestamp(microseconds: time).cutToMilliseconds.microseconds)
    }

    /// Returns the value of a sort key as a next link contains it.
    package static func key(
        _ stored: SQLValue,
        of column: String,
        _ type: ExpressionType
    ) -> SQLValue {
        column == SystemColumn.updatedAt ? stored : cut(stored, type)
    }
}

extension QueryExpression {
    /// The expression with a different name for `updatedAt` wherever it is exact.
    package var namingExactUpdates: QueryExpression {
        guard contains({ $0 == .field(SystemColumn.updatedAt) }) else { return self }
        return isUpdate ? Self.exactUpdate : replacing(\.namingExactUpdates)
    }

    fileprivate static let exactUpdate = QueryExpression(.field(StoredInstants.exactUpdate))

    fileprivate var isUpdate: Bool { kind == .field(SystemColumn.updatedAt) }

    fileprivate var isLiteral: Bool { if case .value = kind { true } else { false } }
}

extension QueryExpression.Kind {
    /// The same comparison with the exact name for `updatedAt`; nil for other kinds.
    fileprivate var namingExactUpdates: QueryExpression.Kind? {
        switch self {
        case .compare(let comparison, let left, let right) where left.isUpdate && right.isLiteral:
            .compare(comparison, QueryExpression.exactUpdate, right)
        case .compare(let comparison, let left, let right) where left.isLiteral && right.isUpdate:
            .compare(comparison, left, QueryExpression.exactUpdate)
        case .isIn(let operand, let elements) where operand.isUpdate:
            if elements.allSatisfy(\.isLiteral) {
                .isIn(QueryExpression.exactUpdate, elements)
            } else {
                Self.chain(operand, elements)
            }
        case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
            .position, .orElse, .member, .elementCount, .anyElement, .element, .search, .related,
            .localizedCompare:
            nil
        }
    }

    /// Returns `in` as a chain of comparisons, because comparisons with literals are exact.
    private static func chain(
        _ operand: QueryExpression,
        _ elements: [QueryExpression]
    ) -> QueryExpression.Kind {
        let parts = elements.map {
            QueryExpression(.compare(.eq, operand, $0)).replacing(\.namingExactUpdates)
        }
        return parts.count == 1 ? parts[0].kind : .any(parts)
    }
}
