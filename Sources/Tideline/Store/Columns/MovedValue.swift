// MovedValue: converts the values of a column whose type changed.
//
// A value is converted only if the result means the same in the new type: a string to the number
// that it spells, or a date to its text. Any other value stays unchanged, and reading the property
// reports that the value does not fit.

import Foundation
import TidelineCore

/// The conversions of stored values to the new type of their column.
enum MovedValue {
    static func value(_ value: Value, as type: ColumnType) -> Value {
        switch type {
        case .string: text(of: value) ?? value
        case .integer: integer(value) ?? value
        case .number: number(value) ?? value
        case .decimal: decimal(value) ?? value
        case .dateTime: instant(value) ?? value
        case .boolean: flag(value) ?? value
        case .date, .time, .guid, .binary, .json, .enumeration: value
        }
    }

    /// Returns the JSON text of a value; nil for a document.
    private static func text(of value: Value) -> Value? {
        switch value {
        case .integer, .number, .bool: .string(value.asJSON().text)
        case .decimal(let number): .string(DecimalText.canonical(number))
        case .date(let date): .string(Timestamp(date).text)
        case .data(let data): .string(data.base64EncodedString())
        case .null, .string, .json: nil
        }
    }

    private static func integer(_ value: Value) -> Value? {
        switch value {
        case .string(let text): Int64(text).flatMap { String($0) == text ? .integer($0) : nil }
        case .number, .decimal: value.asInteger(Int64.self).map(Value.integer)
        case .null, .bool, .integer, .date, .data, .json: nil
        }
    }

    private static func number(_ value: Value) -> Value? {
        switch value {
        // Excludes strings such as `007`, because a different string is the usual spelling of that
        // number.
        case .string(let text):
            Double(text).flatMap { number in
                let isWrittenSo = "\(number)" == text || Int64(text).map(String.init) == text
                return isWrittenSo && number.isFinite ? faithful(number, to: text) : nil
            }
        case .integer(let integer): Double(faithful: integer).map(Value.number)
        case .decimal(let decimal):
            Double(faithful: decimal).map(Value.number) ?? text(of: value)
        case .null, .bool, .number, .date, .data, .json: nil
        }
    }

    private static func faithful(_ number: Double, to text: String) -> Value? {
        guard let integer = Int64(text) else { return .number(number) }
        return Double(faithful: integer).map(Value.number)
    }

    private static func decimal(_ value: Value) -> Value? {
        switch value {
        case .string(let text):
            DecimalText.parse(text).flatMap {
                DecimalText.canonical($0) == text ? .decimal($0) : nil
            }
        case .number, .integer: value.asDecimal().map(Value.decimal)
        case .null, .bool, .decimal, .date, .data, .json: nil
        }
    }

    private static func flag(_ value: Value) -> Value? {
        guard case .string(let text) = value else { return nil }
        return switch text {
        case "true": .bool(true)
        case "false": .bool(false)
        default: nil
        }
    }

    private static func instant(_ value: Value) -> Value? {
        guard case .string(let text) = value, let date = Timestamp(text)?.date,
            let moved = Value.milliseconds(date), case .date(let kept) = moved,
            Timestamp(kept).text == text
        else { return nil }
        return moved
    }
}
