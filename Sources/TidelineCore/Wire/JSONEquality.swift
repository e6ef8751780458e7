// JSONEquality: compares two documents by value, regardless of their spelling.
//
// The comparison is exact: numbers are compared by their digits, strings by their bytes, and true
// does not equal 1. The order of members does not matter, but the order of elements does.

extension JSON {
    /// Returns whether both strings are JSON documents with the same value.
    package static func isSame(_ one: String, _ two: String) -> Bool {
        if one.hasSameBytes(as: two) { return true }
        guard let first = JSONTree(one) else { return false }
        return first == JSONTree(two)
    }
}

extension JSON {
    /// The elements of an array, in order; nil for any other document.
    package var elements: [JSONElement]? {
        Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            return try? JSON.elements(&reader)
        }
    }

    private static func elements(_ reader: inout JSONReader) throws -> [JSONElement]? {
        guard case .array = try reader.value() else { return nil }
        try reader.beginArray()
        var elements: [JSONElement] = []
        while try reader.nextElement() {
            let start = reader.position
            let tree = try JSONTree(&reader)
            let text = String(decoding: reader.bytes[start..<reader.position], as: UTF8.self)
            elements.append(JSONElement(text: text, tree: tree))
        }
        return elements
    }
}

/// An element of an array; two elements are equal if their values are equal, regardless of
/// spelling.
package struct JSONElement: Hashable, Sendable {
    package let text: String
    private let tree: JSONTree

    fileprivate init(text: String, tree: JSONTree) {
        self.text = text
        self.tree = tree
    }

    /// Reads the next value; `reader` is positioned before it.
    package init(_ reader: inout JSONReader) throws {
        let start = reader.position
        let tree = try JSONTree(&reader)
        text = String(decoding: reader.bytes[start..<reader.position], as: UTF8.self)
        self.tree = tree
    }

    package static func == (left: JSONElement, right: JSONElement) -> Bool {
        left.tree == right.tree
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(tree) }
}

/// A JSON document as a tree that is compared by value.
private indirect enum JSONTree: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(ExactNumber)
    case string([UInt8])
    case array([JSONTree])
    case object([[UInt8]: JSONTree])

    /// Creates an element; nil if the string is not a JSON document.
    init?(_ text: String) {
        let tree = Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            return try? JSONTree(&reader)
        }
        guard let tree else { return nil }
        self = tree
    }

    fileprivate init(_ reader: inout JSONReader) throws {
        switch try reader.value() {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let range): self = .number(ExactNumber(reader.text(range)))
        case .string(let span): self = .string(Array(reader.text(span).utf8))
        case .array:
            var elements: [JSONTree] = []
            try reader.beginArray()
            while try reader.nextElement() { elements.append(try JSONTree(&reader)) }
            self = .array(elements)
        case .object:
            var members: [[UInt8]: JSONTree] = [:]
            try reader.beginObject()
            while let name = try reader.nextMember() {
                members[Array(reader.text(name).utf8)] = try JSONTree(&reader)
            }
            self = .object(members)
        }
    }
}

/// A number as its digits without zeros at either end, and the exponent of the last digit.
private struct ExactNumber: Hashable, Sendable {
    private var isNegative = false
    private var digits: [UInt8] = []
    /// The exponent as a string, because it can exceed the range of any integer type.
    private var power = "0"

    /// `text` is a JSON number.
    init(_ text: String) {
        let parts = text.utf8.split { $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E") }
        let mantissa = parts.first ?? text.utf8[...]
        digits = Array(mantissa.filter(DecimalText.isDigit).drop { $0 == UInt8(ascii: "0") })
        guard !digits.isEmpty else { return }
        isNegative = mantissa.first == UInt8(ascii: "-")
        let point = mantissa.firstIndex(of: UInt8(ascii: "."))
        var last = point.map { -(mantissa[$0...].count - 1) } ?? 0
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            last += 1
        }
        let exponent = parts.count > 1 ? String(decoding: parts[1], as: UTF8.self) : "0"
        guard let value = Int(exponent) else {
            power = exponent + "/\(last)"
            return
        }
        let (sum, isTooLarge) = value.addingReportingOverflow(last)
        power = isTooLarge ? exponent + "/\(last)" : String(sum)
    }
}
