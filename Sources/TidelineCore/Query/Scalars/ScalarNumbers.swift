// ScalarNumbers: arithmetic in memory and, registered as `tl_*` functions, in SQLite.
//
// Integers stay integers, decimals stay exact (also together with integers), and all other results
// are doubles. The result is null if an operand is null, if the divisor is zero, or on overflow.

import Foundation

/// The way in which a number is rounded to an integer.
package enum Rounding {
    case down
    case up
    case halfToEven
    case halfAwayFromZero

    fileprivate var rule: FloatingPointRoundingRule {
        switch self {
        case .down: .down
        case .up: .up
        case .halfToEven: .toNearestOrEven
        case .halfAwayFromZero: .toNearestOrAwayFromZero
        }
    }

    fileprivate var mode: Decimal.RoundingMode {
        switch self {
        case .down: .down
        case .up: .up
        case .halfToEven: .bankers
        case .halfAwayFromZero: .plain
        }
    }
}

/// The arithmetic of queries.
package enum ScalarNumbers {
    package static func apply(_ operation: Arithmetic, _ left: Value, _ right: Value) -> Value {
        switch (left, right) {
        case (.integer(let one), .integer(let two)): whole(operation, one, two)
        case (.decimal(let one), .decimal(let two)): decimal(operation, one, two)
        case (.decimal(let one), .integer(let two)): decimal(operation, one, Decimal(two))
        case (.integer(let one), .decimal(let two)): decimal(operation, Decimal(one), two)
        default:
            if let one = double(left), let two = double(right) {
                real(operation, one, two)
            } else {
                .null
            }
        }
    }

    package static func negate(_ value: Value) -> Value {
        switch value {
        case .integer(let whole): whole == .min ? .null : .integer(-whole)
        case .number(let number): .number(-number)
        case .decimal(let number): .decimal(-number)
        case .null, .bool, .string, .date, .data, .json: .null
        }
    }

    /// Rounds a number to an integer; returns integers unchanged.
    package static func round(_ value: Value, _ rounding: Rounding) -> Value {
        switch value {
        case .integer: value
        case .number(let number): .number(number.rounded(rounding.rule))
        case .decimal(let number): .decimal(rounded(number, rounding.mode))
        case .null, .bool, .string, .date, .data, .json: .null
        }
    }

    private static func rounded(
        _ value: Decimal,
        _ mode: Decimal.RoundingMode,
        places: Int = 0
    ) -> Decimal {
        var (source, result) = (value, Decimal())
        NSDecimalRound(&result, &source, places, mode)
        return result
    }

    private static func double(_ value: Value) -> Double? {
        switch value {
        case .integer(let whole): Double(whole)
        case .number(let number): number
        case .decimal(let number): DecimalText.double(number)
        case .null, .bool, .string, .date, .data, .json: nil
        }
    }

    private static func whole(_ operation: Arithmetic, _ one: Int64, _ two: Int64) -> Value {
        let (result, isOverflow): (Int64, Bool)
        switch operation {
        case .add: (result, isOverflow) = one.addingReportingOverflow(two)
        case .sub: (result, isOverflow) = one.subtractingReportingOverflow(two)
        case .mul: (result, isOverflow) = one.multipliedReportingOverflow(by: two)
        case .div: (result, isOverflow) = one.dividedReportingOverflow(by: two)
        case .divby: return real(.div, Double(one), Double(two))
        case .mod:
            // For the smallest integer and -1, the quotient overflows, but the remainder does not.
            if two == -1 { return .integer(0) }
            (result, isOverflow) = one.remainderReportingOverflow(dividingBy: two)
        }
        return isOverflow ? .null : .integer(result)
    }

    private static func real(_ operation: Arithmetic, _ one: Double, _ two: Double) -> Value {
        let result: Double
        switch operation {
        case .add: result = one + two
        case .sub: result = one - two
        case .mul: result = one * two
        case .div, .divby: result = one / two
        case .mod: result = one.truncatingRemainder(dividingBy: two)
        }
        return result.isFinite ? .number(result) : .null
    }

    private static func decimal(_ operation: Arithmetic, _ one: Decimal, _ two: Decimal) -> Value {
        let result: Decimal
        switch operation {
        case .add: result = one + two
        case .sub: result = one - two
        case .mul: result = product(one, two)
        case .div, .divby:
            guard !two.isZero else { return .null }
            result = one / two
        case .mod:
            guard !two.isZero else { return .null }
            let quotient = one / two
            let whole = rounded(quotient, quotient.sign == .minus ? .up : .down)
            result = one - product(whole, two)
        }
        return result.isNaN ? .null : .decimal(fitted(result))
    }

    /// Returns the product; products below 1e-38 become zero, see `fitted(_:)`.
    ///
    /// Foundation traps if the sum of the exponents is below the smallest exponent.
    private static func product(_ one: Decimal, _ two: Decimal) -> Decimal {
        one.exponent + two.exponent < leastExponent ? 0 : one * two
    }

    /// The smallest exponent of a decimal.
    private static let leastExponent = -128

    /// Rounds to the number of digits that a decimal's string can have; 7 / 3 has one digit more.
    private static func fitted(_ value: Decimal) -> Decimal {
        let text = DecimalText.canonical(value.magnitude)
        let whole = text.utf8.prefix { $0 != UInt8(ascii: ".") }
        let fraction = max(0, text.utf8.count - whole.count - 1)
        let places = DecimalText.digitsMax - (text.hasPrefix("0") ? 0 : whole.count)
        return fraction > places ? rounded(value, .plain, places: places) : value
    }
}
