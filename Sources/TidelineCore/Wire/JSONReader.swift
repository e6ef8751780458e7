// JSONReader: a strict pull reader over bytes (RFC 8259), without a tree.
//
// Refused with the position: invalid UTF-8, lone surrogates, control characters in strings,
// duplicate names, depth over the limit, bytes after the value. Numbers are handed over as
// spans of text, so that integers stay exact. The order of calls:
//
//     value() -> { beginObject() { nextMember() value() }* | beginArray() { nextElement() value() }* }
//
// A span points into the bytes; it is valid as long as they are.

/// Where a JSON text is wrong, and what was expected there.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The offset of the first wrong byte.
    public var position: Int
    /// What is wrong.
    public var message: String

    /// The message with its position.
    public var description: String { "\(message) at byte \(position)" }
}

package struct JSONReader {
    /// The deepest nesting of objects and arrays.
    package static let depthMax = 64

    package enum Token {
        case null
        case bool(Bool)
        /// A number's text.
        case number(Range<Int>)
        /// The text between the quotes.
        case string(Span)
        /// The opening brace is the next byte.
        case object
        /// The opening bracket is the next byte.
        case array
    }

    /// The inside of a string: whether it must be unescaped.
    package struct Span {
        package var range: Range<Int>
        package var isEscaped: Bool
    }

    package let bytes: UnsafeBufferPointer<UInt8>
    package private(set) var position = 0
    private var depth = 0
    private var isFirst = false

    package init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
    }

    package func failure(_ message: String, at position: Int? = nil) -> JSONError {
        JSONError(position: position ?? self.position, message: message)
    }

    @inline(__always)
    private var current: UInt8? { position < bytes.count ? bytes[position] : nil }

    @inline(__always)
    private mutating func skipSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    /// Only white space may follow.
    package mutating func end() throws {
        skipSpace()
        guard position == bytes.count else { throw failure("text after the end of the JSON value") }
    }

    /// Reads a scalar whole; stops before the bracket of an object or array.
    package mutating func value() throws -> Token {
        skipSpace()
        guard let byte = current else { throw failure("a JSON value is expected, the text ends") }
        switch byte {
        case UInt8(ascii: "\""): return .string(try stringSpan())
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "t"):
            try literal("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try literal("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try literal("null")
            return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
        default: throw failure("a JSON value is expected")
        }
    }

    private mutating func literal(_ word: StaticString) throws {
        for offset in 0..<word.utf8CodeUnitCount {
            guard current == word.utf8Start[offset] else {
                throw failure("a JSON value is expected")
            }
            position += 1
        }
    }

    private mutating func enter() throws {
        position += 1
        depth += 1
        isFirst = true
        guard depth <= Self.depthMax else {
            throw failure("nesting deeper than \(Self.depthMax) levels", at: position - 1)
        }
    }

    package mutating func beginObject() throws {
        skipSpace()
        guard current == UInt8(ascii: "{") else { throw failure("a JSON object is expected") }
        try enter()
    }

    package mutating func beginArray() throws {
        skipSpace()
        guard current == UInt8(ascii: "[") else { throw failure("a JSON array is expected") }
        try enter()
    }

    /// The next member's name with its colon read, or nil after the closing brace.
    ///
    /// The caller keeps the names apart: it knows its columns.
    package mutating func nextMember() throws -> Span? {
        guard try nextPart(closing: UInt8(ascii: "}"), "',' or '}' is expected") else { return nil }
        guard current == UInt8(ascii: "\"") else { throw failure("a member name is expected") }
        let name = try stringSpan()
        skipSpace()
        guard current == UInt8(ascii: ":") else { throw failure("':' is expected") }
        position += 1
        return name
    }

    /// Whether another element follows; false after the closing bracket.
    package mutating func nextElement() throws -> Bool {
        try nextPart(closing: UInt8(ascii: "]"), "',' or ']' is expected")
    }

    private mutating func nextPart(closing: UInt8, _ expected: StaticString) throws -> Bool {
        skipSpace()
        if current == closing {
            position += 1
            depth -= 1
            isFirst = false
            return false
        }
        if isFirst {
            isFirst = false
        } else {
            guard current == UInt8(ascii: ",") else { throw failure("\(expected)") }
            position += 1
            skipSpace()
        }
        return true
    }
}

// MARK: - Strings and numbers

extension JSONReader {
    private mutating func stringSpan() throws -> Span {
        let start = position + 1
        var index = start
        var isEscaped = false
        var isASCII = true
        while true {
            let plain = PlainText.end(bytes, from: index)
            index = plain.index
            if !plain.isASCII { isASCII = false }
            guard index < bytes.count else {
                throw failure("the string is not closed", at: start - 1)
            }
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") { break }
            guard byte == UInt8(ascii: "\\") else {
                throw failure("control character in a string", at: index)
            }
            isEscaped = true
            index = try escape(at: index)
        }
        if !isASCII, let wrong = UTF8Check.firstInvalid(bytes, start..<index) {
            throw failure("invalid UTF-8 in a string", at: wrong)
        }
        position = index + 1
        return Span(range: start..<index, isEscaped: isEscaped)
    }

    /// Checks one escape sequence; returns the index after it.
    private func escape(at index: Int) throws -> Int {
        guard index + 1 < bytes.count else { throw failure("the string is not closed", at: index) }
        switch bytes[index + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"),
            UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return index + 2
        case UInt8(ascii: "u"):
            guard let unit = hex(at: index + 2) else {
                throw failure("four hexadecimal digits are expected", at: index)
            }
            if unit & 0xFC00 == 0xDC00 { throw failure("lone surrogate", at: index) }
            guard unit & 0xFC00 == 0xD800 else { return index + 6 }
            guard index + 7 < bytes.count, bytes[index + 6] == UInt8(ascii: "\\"),
                bytes[index + 7] == UInt8(ascii: "u"), let low = hex(at: index + 8),
                low & 0xFC00 == 0xDC00
            else { throw failure("lone surrogate", at: index) }
            return index + 12
        default:
            throw failure("unknown escape sequence", at: index)
        }
    }

    private func hex(at index: Int) -> UInt32? {
        guard index + 4 <= bytes.count else { return nil }
        var value: UInt32 = 0
        for offset in index..<index + 4 {
            let byte = bytes[offset]
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: return nil
            }
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    /// The text of a checked string.
    package func text(_ span: Span) -> String {
        guard span.isEscaped else {
            return String(decoding: UnsafeBufferPointer(rebasing: bytes[span.range]), as: UTF8.self)
        }
        var result: [UInt8] = []
        result.reserveCapacity(span.range.count)
        var index = span.range.lowerBound
        while index < span.range.upperBound {
            guard bytes[index] == UInt8(ascii: "\\") else {
                result.append(bytes[index])
                index += 1
                continue
            }
            index = unescape(at: index, into: &result)
        }
        return String(decoding: result, as: UTF8.self)
    }

    private func unescape(at index: Int, into result: inout [UInt8]) -> Int {
        switch bytes[index + 1] {
        case UInt8(ascii: "b"): result.append(0x08)
        case UInt8(ascii: "f"): result.append(0x0C)
        case UInt8(ascii: "n"): result.append(0x0A)
        case UInt8(ascii: "r"): result.append(0x0D)
        case UInt8(ascii: "t"): result.append(0x09)
        case UInt8(ascii: "u"):
            var scalar = hex(at: index + 2) ?? 0
            var next = index + 6
            if scalar & 0xFC00 == 0xD800, let low = hex(at: index + 8) {
                scalar = 0x10000 + (scalar & 0x3FF) << 10 + (low & 0x3FF)
                next = index + 12
            }
            if let character = Unicode.Scalar(scalar) {
                result.append(contentsOf: UTF8.encode(character) ?? .init())
            }
            return next
        default: result.append(bytes[index + 1])
        }
        return index + 2
    }

    /// Whether a name is exactly this ASCII or UTF-8 text.
    package func matches(_ span: Span, _ name: [UInt8]) -> Bool {
        matches(span, name, 0..<name.count)
    }

    /// Whether a name is exactly this part of ASCII or UTF-8 text.
    package func matches(_ span: Span, _ names: [UInt8], _ part: Range<Int>) -> Bool {
        if span.isEscaped { return text(span).utf8.elementsEqual(names[part]) }
        guard span.range.count == part.count else { return false }
        for offset in 0..<part.count
        where bytes[span.range.lowerBound + offset] != names[part.lowerBound + offset] {
            return false
        }
        return true
    }

    private mutating func number() throws -> Range<Int> {
        let start = position
        if current == UInt8(ascii: "-") { position += 1 }
        if current == UInt8(ascii: "0") {
            position += 1
        } else {
            try digits()
        }
        if current == UInt8(ascii: ".") {
            position += 1
            try digits()
        }
        if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
            position += 1
            if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position += 1 }
            try digits()
        }
        if let byte = current,
            byte == UInt8(ascii: ".") || (byte | 0x20 >= 0x61 && byte | 0x20 <= 0x7A)
                || (byte >= 0x30 && byte <= 0x39)
        {
            throw failure("malformed number")
        }
        return start..<position
    }

    private mutating func digits() throws {
        let start = position
        while let byte = current, byte >= 0x30, byte <= 0x39 { position += 1 }
        guard position > start else { throw failure("a digit is expected") }
    }

    /// The number as an integer, or nil when it has a fraction, an exponent, or too many digits.
    package func integer(_ range: Range<Int>) -> Int64? {
        var index = range.lowerBound
        let isNegative = bytes[index] == UInt8(ascii: "-")
        if isNegative { index += 1 }
        var value: Int64 = 0
        while index < range.upperBound {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.subtractingReportingOverflow(Int64(digit))
            if overflow || carry { return nil }
            value = sum
            index += 1
        }
        if isNegative { return value }
        return value == .min ? nil : -value
    }

    /// The text of a number.
    package func text(_ range: Range<Int>) -> String {
        String(decoding: UnsafeBufferPointer(rebasing: bytes[range]), as: UTF8.self)
    }
}

// MARK: - Whole values

extension JSONReader {
    /// Checks any value, with duplicate names refused in it, and returns its span.
    package mutating func rawValue() throws -> Range<Int> {
        skipSpace()
        let start = position
        try skip(try value())
        return start..<position
    }

    /// Checks the rest of a value whose first token was read.
    ///
    /// Without `checksNames` a name may come twice: for a value that is read again by another.
    package mutating func skip(_ token: Token, checksNames: Bool = true) throws {
        switch token {
        case .object:
            try beginObject()
            var names = MemberNames()
            while let name = try nextMember() {
                if checksNames { try names.insert(name, self) }
                try skip(try value(), checksNames: checksNames)
            }
        case .array:
            try beginArray()
            while try nextElement() { try skip(try value(), checksNames: checksNames) }
        default:
            break
        }
    }
}

/// The names of an object's members: refuses the second of a kind.
package struct MemberNames {
    private var seen: Set<[UInt8]> = []

    package init() {}

    package mutating func insert(_ name: JSONReader.Span, _ reader: JSONReader) throws {
        let key =
            name.isEscaped
            ? Array(reader.text(name).utf8)
            : Array(UnsafeBufferPointer(rebasing: reader.bytes[name.range]))
        guard seen.insert(key).inserted else {
            throw reader.failure("duplicate member name", at: name.range.lowerBound)
        }
    }
}

/// Checks UTF-8 by the table of the Unicode Standard, section 3.9 (well-formed byte sequences).
package enum UTF8Check {
    package static func firstInvalid(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ range: Range<Int>
    ) -> Int? {
        var index = range.lowerBound
        while index < range.upperBound {
            let length = sequenceLength(bytes, index, range.upperBound)
            guard length > 0 else { return index }
            index += length
        }
        return nil
    }

    private static func sequenceLength(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ index: Int,
        _ end: Int
    ) -> Int {
        let first = bytes[index]
        if first < 0x80 { return 1 }
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch first {
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        case 0xF1...0xF3: length = 4
        default: return 0
        }
        guard index + length <= end, second.contains(bytes[index + 1]) else { return 0 }
        for offset in 2..<max(2, length) where bytes[index + offset] & 0xC0 != 0x80 { return 0 }
        return length
    }
}
