// JSONReader+Text: the strings and numbers in a JSON text, as spans and as values.

extension JSONReader {
    mutating func stringSpan() throws -> Span {
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

    /// Returns the string value of a checked string.
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

    /// Returns whether a name equals this UTF-8 string.
    package func matches(_ span: Span, _ name: [UInt8]) -> Bool {
        matches(span, name, 0..<name.count)
    }

    /// Returns whether a name equals this string and is written without escapes.
    package func reads(_ span: Span, _ name: String) -> Bool {
        !span.isEscaped && name.utf8.count == span.range.count
            && name.utf8.elementsEqual(UnsafeBufferPointer(rebasing: bytes[span.range]))
    }

    /// Returns whether a name equals this part of a UTF-8 string.
    package func matches(_ span: Span, _ names: [UInt8], _ part: Range<Int>) -> Bool {
        if span.isEscaped { return text(span).utf8.elementsEqual(names[part]) }
        guard span.range.count == part.count else { return false }
        for offset in 0..<part.count
        where bytes[span.range.lowerBound + offset] != names[part.lowerBound + offset] {
            return false
        }
        return true
    }

    mutating func number() throws -> Range<Int> {
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

    /// Returns the number as an integer; nil if it has a fraction, an exponent, or too many digits.
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

    /// Returns the characters of a number.
    package func text(_ range: Range<Int>) -> String {
        String(decoding: UnsafeBufferPointer(rebasing: bytes[range]), as: UTF8.self)
    }
}
