// ColumnConversion: values of a column whose type changes.
//
// The value is written in its wire form and parsed as the new column parses its members. A string is also parsed as a
// value of the new type, and any other value is also converted to text: "5" becomes 5, and 5 becomes "5".

import Foundation
package import TidelineCore

/// The conversion of a stored value to another column type, exactly or not at all.
package struct ColumnConversion {
    private let old: ColumnType
    private let new: ColumnDefinition

    package init(_ old: ColumnDefinition, to new: ColumnDefinition) {
        self.old = old.type
        self.new = ColumnDefinition(new.name, new.type, nullable: false)
    }

    /// Returns whether a value may not fit, or would change on the wire.
    package static func isNeeded(_ old: ColumnType, _ new: ColumnType) -> Bool {
        guard case .enumeration(let before) = old, case .enumeration(let after) = new else {
            return old != new
        }
        return !Set(before).isSubset(of: after)
    }

    /// Converts a value; nil if it does not fit the new type.
    package func convert(_ value: SQLValue) -> SQLValue? {
        if case .integer(let flag) = value {
            if old == .boolean, new.type == .integer { return value }
            if old == .integer, new.type == .boolean {
                return flag == 0 || flag == 1 ? value : nil
            }
            if old == .integer, new.type == .number {
                return Int64(exactly: Double(flag)) == flag ? .real(Double(flag)) : nil
            }
        }
        if case .text(let text) = value, old == .decimal, new.type == .number {
            guard let number = Double(text), number.isFinite,
                let exact = DecimalText.parse("\(number)"), exact == DecimalText.parse(text)
            else { return nil }
            return .real(number)
        }
        let wire = self.wire(value)
        if let result = read(wire) { return result }
        guard case .text(let text) = value, old != .json, old != .decimal else {
            var writer = JSONWriter()
            writer.string(wire)
            return read(writer.text)
        }
        return read(text)
    }

    /// Returns whether both values are the same on the wire.
    package func isSame(_ value: SQLValue, _ converted: SQLValue?) -> Bool {
        let texts: [ColumnType] = [.string, .date, .time, .guid]
        func isText(_ type: ColumnType) -> Bool {
            if case .enumeration = type { return true }
            return texts.contains(type)
        }
        return converted == value && isText(old) && isText(new.type)
    }

    private func read(_ json: String) -> SQLValue? {
        Array(json.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            guard let value = try? new.read(&reader), (try? reader.end()) != nil else { return nil }
            return value
        }
    }

    /// Returns the value as JSON.
    private func wire(_ value: SQLValue) -> String {
        var writer = JSONWriter()
        switch (value, old) {
        case (.null, _), (.program, _): writer.null()
        case (.integer(let value), .boolean): writer.bool(value != 0)
        case (.integer(let value), .dateTime):
            writer.string(Timestamp(microseconds: value).exactText)
        case (.integer(let value), _): writer.integer(value)
        case (.real(let value), _): writer.number(value)
        case (.text(let text), .json), (.text(let text), .decimal): writer.raw(text)
        case (.text(let text), _): writer.string(text)
        case (.blob(let data), _): writer.string(data.base64EncodedString())
        }
        return writer.text
    }
}
