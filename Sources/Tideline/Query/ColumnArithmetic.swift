// ColumnArithmetic: + - * / % and rounding in `where:` closures.
//
// Numbers are added and strings are concatenated. An untyped column (`$0["rank"]`) adds numbers, and concatenates with
// a string.

public import Foundation
public import TidelineCore

/// A type whose columns support arithmetic.
public protocol ArithmeticContent {}

/// A type whose columns hold numbers with a fraction.
public protocol FractionalContent: ArithmeticContent {}

extension Int: ArithmeticContent {}
extension Int8: ArithmeticContent {}
extension Int16: ArithmeticContent {}
extension Int32: ArithmeticContent {}
extension Int64: ArithmeticContent {}
extension UInt: ArithmeticContent {}
extension UInt8: ArithmeticContent {}
extension UInt16: ArithmeticContent {}
extension UInt32: ArithmeticContent {}
extension UInt64: ArithmeticContent {}
extension Double: FractionalContent {}
extension Float: FractionalContent {}
extension Decimal: FractionalContent {}
extension Value: FractionalContent {}
extension Optional: ArithmeticContent where Wrapped: ArithmeticContent {}
extension Optional: FractionalContent where Wrapped: FractionalContent {}

private func compute<Content>(
    _ operation: Arithmetic,
    _ left: Column<Content>,
    _ right: Column<Content>
) -> Column<Content> {
    left.with(right) { QueryExpression(.arithmetic(operation, $0, $1)) }
}

extension Column where Content: ArithmeticContent {
    /// The sum of a column and a value; null if the column is null.
    public static func + (left: Column, right: Content) -> Column {
        compute(.add, left, .literal(right))
    }

    /// The sum of a value and a column.
    public static func + (left: Content, right: Column) -> Column {
        compute(.add, .literal(left), right)
    }

    /// The sum of two columns.
    public static func + (left: Column, right: Column) -> Column { compute(.add, left, right) }

    /// The difference of a column and a value.
    public static func - (left: Column, right: Content) -> Column {
        compute(.sub, left, .literal(right))
    }

    /// The difference of a value and a column.
    public static func - (left: Content, right: Column) -> Column {
        compute(.sub, .literal(left), right)
    }

    /// The difference of two columns.
    public static func - (left: Column, right: Column) -> Column { compute(.sub, left, right) }

    /// The product of a column and a value.
    public static func * (left: Column, right: Content) -> Column {
        compute(.mul, left, .literal(right))
    }

    /// The product of a value and a column.
    public static func * (left: Content, right: Column) -> Column {
        compute(.mul, .literal(left), right)
    }

    /// The product of two columns.
    public static func * (left: Column, right: Column) -> Column { compute(.mul, left, right) }

    /// The quotient of a column and a value.
    ///
    /// A quotient of whole numbers is truncated toward zero; division by zero returns null.
    public static func / (left: Column, right: Content) -> Column {
        compute(.div, left, .literal(right))
    }

    /// The quotient of a value and a column.
    public static func / (left: Content, right: Column) -> Column {
        compute(.div, .literal(left), right)
    }

    /// The quotient of two columns.
    public static func / (left: Column, right: Column) -> Column { compute(.div, left, right) }

    /// The remainder of a division, with the sign of the dividend.
    public static func % (left: Column, right: Content) -> Column {
        compute(.mod, left, .literal(right))
    }

    /// The remainder of a division by another column.
    public static func % (left: Column, right: Column) -> Column { compute(.mod, left, right) }

    /// The negated value.
    public static prefix func - (column: Column) -> Column {
        column.map { .negate($0) }
    }
}

extension Column where Content: FractionalContent {
    /// The largest whole number that is not greater than the value.
    public func floor() -> Column { map { .call(.floor, $0) } }

    /// The smallest whole number that is not less than the value.
    public func ceil() -> Column { map { .call(.ceiling, $0) } }

    /// The nearest whole number.
    ///
    /// As in Swift, halves are rounded away from zero unless another rule is given.
    ///
    /// Current Azure servers support only `.toNearestOrEven`, and 2.x servers only the default rule.
    public func rounded(
        _ rule: FloatingPointRoundingRule = .toNearestOrAwayFromZero
    ) -> Column {
        map { column in
            switch rule {
            case .toNearestOrAwayFromZero: return .call(.roundAway, column)
            case .toNearestOrEven: return .call(.round, column)
            case .down: return .call(.floor, column)
            case .up: return .call(.ceiling, column)
            default:
                throw SyncError.unsupportedQuery(
                    "rounding by '\(rule)'. Use .down, .up or nearest."
                )
            }
        }
    }
}

extension Column where Content: TextContent {
    /// The column's value followed by a string.
    public static func + (left: Column, right: String) -> Column {
        left.map { .call(.concat, $0, QueryExpression(.value(.string(right)))) }
    }

    /// A string followed by the column's value.
    public static func + (left: String, right: Column) -> Column {
        right.map { .call(.concat, QueryExpression(.value(.string(left))), $0) }
    }

    /// The values of two columns, concatenated.
    public static func + (left: Column, right: Column) -> Column {
        left.with(right) { .call(.concat, $0, $1) }
    }
}

extension Column where Content == Value {
    /// The sum of two untyped columns.
    public static func + (left: Column, right: Column) -> Column { compute(.add, left, right) }
}
