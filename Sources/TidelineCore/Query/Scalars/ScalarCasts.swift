// ScalarCasts: casts in memory and, registered as `tl_*` functions, in SQLite.
//
// A failed cast returns null. A number that is cast to an integer type loses its fraction. A string
// is read as a literal of the target type. Any value can be cast to the text that it has in an
// answer.

import Foundation

/// The functions `cast` and `isof` of queries.
package enum ScalarCasts {
    package static func cast(_ value: Value, to target: EdmType) -> Value {
        switch target.type {
        case .boolean: boolean(value)
        case .integer: whole(value, target)
        case .number: number(value)
        case .decimal: decimal(value)
        case .string: text(value).map { .string($0) } ?? .null
        case .guid: read(value) { GuidText.canonical($0) }
        case .date: day(value)
        case .time: time(value)
        case .dateTime: instant(value)
        case .binary: binary(value)
        // No type name in a query refers to these.
        case .null, .json, .enumeration, .any: .null
        }
    }

    /// Returns whether the value has the type; null has no type.
    package static func isOf(_ value: Value, _ target: EdmType) -> Bool {
        switch value {
        case .null, .json: false
        case .bool: target == .boolean
        case .integer(let whole): target.range?.contains(whole) ?? false
        case .number: target.type == .number
        case .decimal: target == .decimal
        case .date: target.type == .dateTime
        case .data: target == .binary
        // Rows without a schema store UUIDs, days and times of day as text.
        case .string(let text):
            switch target.type {
            case .string: true
            case .guid: GuidText.canonical(text) != nil
            case .date: DayText.canonical(text) != nil
            case .time: TimeText.canonical(text) != nil
            case .boolean, .integer, .number, .decimal, .dateTime, .binary, .null, .json,
                .enumeration, .any:
                false
            }
        }
    }

    private static func read(_ value: Value, _ parse: (String) -> String?) -> Value {
        value.text.flatMap(parse).map { .string($0) } ?? .null
    }

    private static func text(_ value: Value) -> String? {
        switch value {
        case .null, .json: return nil
        case .bool(let value): return value ? "true" : "false"
        case .integer(let whole): return String(whole)
        case .number(let number):
            var writer = JSONWriter()
            writer.number(number)
            return String(decoding: writer.bytes, as: UTF8.self)
        case .decimal(let number): return DecimalText.canonical(number)
        case .string(let text): return text
        case .date(let date): return Timestamp(date).text
        case .data(let data): return data.base64EncodedString()
        }
    }

    private static func boolean(_ value: Value) -> Value {
        switch value {
        case .bool: return value
        case .string(let text):
            if text.utf8.elementsEqual("true".utf8) { return .bool(true) }
            return text.utf8.elementsEqual("false".utf8) ? .bool(false) : .null
        case .null, .integer, .number, .decimal, .date, .data, .json: return .null
        }
    }

    // MARK: - Numbers

    private static func whole(_ value: Value, _ target: EdmType) -> Value {
        let result: Int64?
        switch value {
        case .integer(let whole): result = whole
        case .number(let number): result = Int64(exactly: number.rounded(.towardZero))
        case .decimal(let number):
            result = Int64(DecimalText.canonical(number).prefix { $0 != "." })
        case .string(let text): result = Int64(text)
        case .null, .bool, .date, .data, .json: result = nil
        }
        guard let result, target.range?.contains(result) == true else { return .null }
        return .integer(result)
    }

    private static func number(_ value: Value) -> Value {
        switch value {
        case .integer(let whole): return .number(Double(whole))
        case .number: return value
        case .decimal(let number): return .number(DecimalText.double(number))
        case .string(let text):
            // `Double` would also read hexadecimal digits and words such as `nan`.
            guard text.utf8.allSatisfy({ DecimalText.isDigit($0) || "+-.eE".utf8.contains($0) }),
                let number = Double(text), number.isFinite
            else { return .null }
            return .number(number)
        case .null, .bool, .date, .data, .json: return .null
        }
    }

    private static func decimal(_ value: Value) -> Value {
        switch value {
        case .integer(let whole): .decimal(Decimal(whole))
        case .number(let number): DecimalText.decimal(number).map { .decimal($0) } ?? .null
        case .decimal: value
        case .string(let text): DecimalText.parse(text).map { .decimal($0) } ?? .null
        case .null, .bool, .date, .data, .json: .null
        }
    }

    // MARK: - Dates and bytes

    private static func day(_ value: Value) -> Value {
        switch value {
        case .date(let date):
            ScalarDates.part(.date, ofInstant: Timestamp(date).microseconds)
        case .string(let text):
            DayText.canonical(text).map { .string($0) } ?? ScalarDates.part(.date, ofText: text)
        case .null, .bool, .integer, .number, .decimal, .data, .json: .null
        }
    }

    private static func time(_ value: Value) -> Value {
        switch value {
        case .date(let date):
            ScalarDates.part(.time, ofInstant: Timestamp(date).microseconds)
        case .string(let text):
            TimeText.canonical(text).map { .string($0) } ?? ScalarDates.part(.time, ofText: text)
        case .null, .bool, .integer, .number, .decimal, .data, .json: .null
        }
    }

    private static func instant(_ value: Value) -> Value {
        switch value {
        case .date: value
        case .string: LiteralCoercion.value(value, as: .dateTime) ?? .null
        case .null, .bool, .integer, .number, .decimal, .data, .json: .null
        }
    }

    private static func binary(_ value: Value) -> Value {
        switch value {
        case .data: value
        case .string(let text): BinaryText.base64(text).map { .data($0) } ?? .null
        case .null, .bool, .integer, .number, .decimal, .date, .json: .null
        }
    }
}
