// LiteralCoercion: converts literals in comparisons with columns.
//
// `Value` can be written as a nil literal. Every nil in this file stands where only an Optional
// fits.

import Foundation

/// The conversion of a query literal to a value of a column's kind.
package enum LiteralCoercion {
    /// Returns the value in the kind that the type stores; nil if the type does not include the
    /// value.
    ///
    /// A number that the type cannot store exactly stays unchanged, so that comparisons are exact.
    package static func value(_ value: Value, as type: ExpressionType) -> Value? {
        if value.isNull { return value }
        switch type {
        case .null, .any: return value
        case .boolean:
            if case .bool = value { return value }
            return nil
        case .integer: return integer(value)
        case .number: return number(value)
        case .decimal: return decimal(value)
        case .string: return text(value)
        case .dateTime: return instant(value)
        case .date: return day(value)
        case .time:
            guard case .string(let text) = value else { return nil }
            return TimeText.canonical(text).map { .string($0) }
        case .guid:
            guard case .string(let text) = value else { return nil }
            return GuidText.canonical(text).map { .string($0) }
        case .binary:
            if case .string(let text) = value {
                return BinaryText.base64(text).map { .data($0) }
            }
            if case .data = value { return value }
            return nil
        case .json: return nil
        case .enumeration(let members):
            guard case .string(let text) = value else { return nil }
            guard members.contains(where: { $0.utf8.elementsEqual(text.utf8) }) else { return nil }
            return value
        }
    }

    private static func integer(_ value: Value) -> Value? {
        switch value {
        case .integer: return value
        case .number(let number): return Int64(exactly: number).map { .integer($0) } ?? value
        case .decimal(let number):
            return Int64(DecimalText.canonical(number)).map { .integer($0) } ?? value
        case .null, .bool, .string, .date, .data, .json: return nil
        }
    }

    private static func number(_ value: Value) -> Value? {
        switch value {
        case .number: return value
        case .integer(let whole):
            return Double(exactly: whole).map { .number($0) } ?? value
        // A decimal and a double are compared as doubles anyway.
        case .decimal(let number): return .number(DecimalText.double(number))
        case .null, .bool, .string, .date, .data, .json: return nil
        }
    }

    private static func decimal(_ value: Value) -> Value? {
        switch value {
        case .decimal: return value
        case .integer(let whole): return .decimal(Decimal(whole))
        // Uses the digits in the query, not the nearest binary fraction.
        case .number(let number):
            return DecimalText.decimal(number).map { .decimal($0) } ?? value
        case .null, .bool, .string, .date, .data, .json: return nil
        }
    }

    private static func text(_ value: Value) -> Value? {
        switch value {
        case .string: return value
        // Dynamic tables store instants as text, and versions are text too.
        case .date(let date): return .string(Timestamp(date).text)
        case .data(let data): return .string(data.base64EncodedString())
        case .null, .bool, .integer, .number, .decimal, .json: return nil
        }
    }

    private static func instant(_ value: Value) -> Value? {
        switch value {
        case .date: return value
        case .string(let text):
            if let date = InstantText.parse(text, isZoneOptional: false) { return .date(date) }
            guard DayText.canonical(text) != nil else { return nil }
            return Timestamp(text + "T00:00:00Z").map { .date($0.date) }
        case .null, .bool, .integer, .number, .decimal, .data, .json: return nil
        }
    }

    private static func day(_ value: Value) -> Value? {
        switch value {
        case .string(let text): return DayText.canonical(text).map { .string($0) }
        case .date(let date):
            let timestamp = Timestamp(date)
            guard timestamp.microseconds % 86_400_000_000 == 0 else { return nil }
            return .string(String(timestamp.text.prefix(10)))
        case .null, .bool, .integer, .number, .decimal, .data, .json: return nil
        }
    }
}
