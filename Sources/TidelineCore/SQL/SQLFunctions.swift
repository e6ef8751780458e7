// SQLFunctions: applies ScalarFunctions to values in the form in which a database stores them.
//
// A string is a decimal as an argument of a numeric function, and a day or time of day as an
// argument of a date function. An integer argument of a date function is an instant in
// microseconds.

import Foundation

/// The `tl_*` functions of a database, which apply the query functions to stored values.
package enum SQLFunctions {
    /// Evaluates the functions and conditions on strings.
    ///
    /// A condition returns 0 or 1, never null.
    package static func text(
        _ function: Function,
        _ arguments: [SQLValue],
        _ watch: EvaluationWatch? = nil,
        pattern: TextPattern? = nil
    ) -> SQLValue {
        plain(ScalarFunctions.apply(function, arguments.map(value), watch, pattern: pattern))
    }

    /// Evaluates `cast` and `isof` for a value in the stored form of a type.
    package static func typed(
        _ function: Function,
        _ argument: SQLValue,
        _ source: SQLValue,
        _ target: SQLValue
    ) -> SQLValue {
        let name = if case .text(let text) = source { text } else { "" }
        let type: ExpressionType =
            switch name {
            case "boolean": .boolean
            case "decimal": .decimal
            case "dateTime": .dateTime
            case "json": .json
            default: .any
            }
        return plain(
            ScalarFunctions.apply(function, [value(argument, as: type), value(target)])
        )
    }

    /// Returns the argument's type in the form that `typed` expects.
    static func source(_ type: ExpressionType) -> SQLValue {
        switch type {
        case .boolean: .text("boolean")
        case .decimal: .text("decimal")
        case .dateTime: .text("dateTime")
        case .json: .text("json")
        case .null, .integer, .number, .string, .date, .time, .guid, .binary, .enumeration, .any:
            .text("")
        }
    }

    /// Converts a stored value to a value of a column type, with instants in the given unit.
    package static func value(
        _ stored: SQLValue,
        as type: ExpressionType,
        unit: FilterRenderer.DateUnit = .microseconds
    ) -> Value {
        switch (stored, type) {
        case (.integer(let value), .boolean) where value == 0 || value == 1: .bool(value == 1)
        case (.integer(let value), .dateTime):
            .date(Timestamp(microseconds: value &* unit.microseconds).date)
        case (.integer(let value), .number): .number(Double(value))
        case (.text(let text), .decimal):
            DecimalText.parse(text).map { .decimal($0) } ?? .string(text)
        case (.text(let text), .json): .json(JSON(checked: text))
        case (_, .null), (_, .boolean), (_, .integer), (_, .number), (_, .decimal), (_, .string),
            (_, .dateTime), (_, .date), (_, .time), (_, .guid), (_, .binary), (_, .json),
            (_, .enumeration), (_, .any):
            value(stored)
        }
    }

    /// Evaluates `floor`, `ceiling`, `round`, `roundAway`.
    package static func round(_ argument: SQLValue, _ rounding: Rounding) -> SQLValue {
        plain(ScalarNumbers.round(number(argument), rounding))
    }

    /// Evaluates the functions that return parts of dates.
    package static func date(_ part: DatePart, _ argument: SQLValue) -> SQLValue {
        switch argument {
        case .integer(let microseconds): plain(ScalarDates.part(part, ofInstant: microseconds))
        case .text(let text): plain(ScalarDates.part(part, ofText: text))
        case .null, .real, .blob, .program: .null
        }
    }

    package static func arithmetic(
        _ operation: Arithmetic,
        _ left: SQLValue,
        _ right: SQLValue
    ) -> SQLValue {
        plain(ScalarNumbers.apply(operation, number(left), number(right)))
    }

    package static func negate(_ argument: SQLValue) -> SQLValue {
        plain(ScalarNumbers.negate(number(argument)))
    }

    /// Returns -1, 0 or 1; null if either side is null or not a number.
    package static func decimalCompare(_ left: SQLValue, _ right: SQLValue) -> SQLValue {
        if case .text(let one) = left, case .text(let two) = right {
            return .integer(Int64(DecimalText.compare(one.utf8, two.utf8)))
        }
        return ValueOrder.compare(number(left), number(right)).map { .integer(Int64($0)) } ?? .null
    }

    /// Returns 1 if both values are null or equal, otherwise 0.
    package static func decimalEqual(_ left: SQLValue, _ right: SQLValue) -> SQLValue {
        .integer(ValueOrder.equal(number(left), number(right)) ? 1 : 0)
    }

    private static func value(_ stored: SQLValue) -> Value {
        switch stored {
        case .null: .null
        case .integer(let whole): .integer(whole)
        case .real(let number): .number(number)
        case .text(let text): .string(text)
        case .blob(let data): .data(data)
        case .program: .null
        }
    }

    private static func number(_ stored: SQLValue) -> Value {
        guard case .text(let text) = stored else { return value(stored) }
        return DecimalText.parse(text).map { .decimal($0) } ?? .null
    }

    /// Returns the result as a stored value; instants are in microseconds.
    static func plain(_ value: Value) -> SQLValue {
        switch value {
        case .bool(let value): .integer(value ? 1 : 0)
        case .integer(let whole): .integer(whole)
        case .number(let number): .real(number)
        case .decimal(let number): .text(DecimalText.canonical(number))
        case .string(let text): .text(text)
        case .date(let date): .integer(Timestamp(date).microseconds)
        case .data(let data): .blob(data)
        case .json(let json): .text(json.text)
        case .null: .null
        }
    }
}
