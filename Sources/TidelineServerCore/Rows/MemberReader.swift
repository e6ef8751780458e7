// MemberReader: converts a JSON value to the stored value of a column, by the column's type.
//
// A rejection names the member and the expected type, never the value.

import Foundation
package import TidelineCore

extension ColumnDefinition {
    /// Reads the next value as a value of this column.
    ///
    /// - Parameters:
    ///   - reader: The reader, before the value.
    ///   - acceptsZero: Whether the column may have the zero value that a row without a value gets, although its type
    ///     has no such value: the empty string instead of a date, a time or a UUID, and null instead of a document.
    /// - Returns: The value in its stored form.
    /// - Throws: ``ServerError`` with 400 for another value, and ``JSONError``.
    package func read(
        _ reader: inout JSONReader,
        acceptsZero: Bool = false
    ) throws -> SQLValue {
        if case .json = type { return try readDocument(&reader, acceptsZero: acceptsZero) }
        switch try reader.value() {
        case .null:
            guard isNullable else { throw fault("null is not allowed") }
            return .null
        case .bool(let value):
            guard type == .boolean else { throw fault() }
            return .integer(value ? 1 : 0)
        case .number(let range):
            return try readNumber(reader, range)
        case .string(let span):
            let text = reader.text(span)
            if acceptsZero, text.isEmpty, type.zero == .string("") { return .text("") }
            return try readText(text)
        case .object, .array:
            throw fault()
        }
    }

    private func readDocument(
        _ reader: inout JSONReader,
        acceptsZero: Bool
    ) throws -> SQLValue {
        let span = try reader.rawValue()
        let text = JSON.compact(reader.bytes, span)
        guard text == "null", !acceptsZero else { return .text(text) }
        guard isNullable else { throw fault("null is not allowed") }
        return .null
    }

    private func readNumber(_ reader: JSONReader, _ range: Range<Int>) throws -> SQLValue {
        switch type {
        case .integer:
            if let value = reader.integer(range) { return .integer(value) }
            guard let number = DecimalText.parse(reader.text(range)),
                let value = Int64(DecimalText.canonical(number))
            else { throw fault() }
            return .integer(value)
        case .number:
            if let value = reader.integer(range), value.magnitude < 1 << 53 {
                return .real(Double(value))
            }
            guard let value = Double(reader.text(range)), value.isFinite else { throw fault() }
            guard reader.isKept(range, by: value) else {
                throw fault("an integer that a double can represent exactly is expected")
            }
            return .real(value)
        case .decimal:
            guard let value = DecimalText.parse(reader.text(range)) else { throw fault() }
            return .text(DecimalText.canonical(value))
        case .string, .boolean, .dateTime, .date, .time, .guid, .binary, .json, .enumeration:
            throw fault()
        }
    }

    private func readText(_ text: String) throws -> SQLValue {
        switch type {
        case .string:
            guard !text.utf8.contains(0) else {
                throw fault("the character U+0000 is not allowed")
            }
            return .text(text)
        case .dateTime:
            guard let timestamp = Timestamp(text) else { throw fault() }
            return .integer(timestamp.microseconds)
        case .date:
            guard let day = DayText.canonical(text) else { throw fault() }
            return .text(day)
        case .time:
            guard let time = TimeText.microseconds(text) else { throw fault() }
            // The wire has milliseconds; the rest is cut off.
            return .text(TimeText.text(time / 1000 * 1000))
        case .guid:
            guard let guid = GuidText.canonical(text) else { throw fault() }
            return .text(guid)
        case .binary:
            guard let data = BinaryText.paddedBase64(text) else { throw fault() }
            return .blob(data)
        case .enumeration(let members):
            guard members.contains(where: { $0.utf8.elementsEqual(text.utf8) }) else {
                throw fault()
            }
            return .text(text)
        case .integer, .number, .decimal, .boolean, .json:
            throw fault()
        }
    }

    private func fault(_ reason: String? = nil) -> ServerError {
        .badRequest("Member '\(name)': \(reason ?? type.expectation + " is expected").")
    }
}

extension JSONReader {
    /// Returns whether a double represents the number: it is a fraction, or its digits do not change.
    func isKept(_ range: Range<Int>, by value: Double) -> Bool {
        let sent = text(range)
        guard sent.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || DecimalText.isDigit($0) }) else {
            return true
        }
        return DecimalText.significant(sent) == DecimalText.significant("\(value)")
    }
}

extension ColumnType {
    /// The JSON that a member of this type expects, for messages.
    var expectation: String {
        switch self {
        case .string: "a string"
        case .integer: "a 64-bit integer"
        case .number: "a number"
        case .decimal: "a number of at most \(DecimalText.digitsMax) digits"
        case .boolean: "true or false"
        case .dateTime: "an ISO 8601 date and time with 'Z' or an offset"
        case .date: "a date such as '2026-11-20'"
        case .time: "a time of day such as '07:14:00.000'"
        case .guid: "a UUID of 36 characters"
        case .binary: "a base64 string"
        case .json: "any JSON value"
        case .enumeration(let members):
            "one of " + members.map { "'\($0)'" }.joined(separator: ", ")
        }
    }
}
