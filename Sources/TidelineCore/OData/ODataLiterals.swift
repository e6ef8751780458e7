// ODataLiterals: reads literals other than quoted strings, in both dialects: numbers, dates, typed
// literals.

package import Foundation

extension ODataLexer {
    /// Reads a number: `42`, `-42L`, `1.5`, `6.02E+25`, `1.5d`, `50f`, `1.99m`.
    mutating func number() throws(ODataError) -> Value {
        var isReal = false
        if byte(index) == UInt8(ascii: "-") { index += 1 }
        skipDigits()
        if byte(index) == UInt8(ascii: "."), isDigit(at: index + 1) {
            isReal = true
            index += 1
            skipDigits()
        }
        if byte(index) == UInt8(ascii: "e") || byte(index) == UInt8(ascii: "E") {
            let sign = byte(index + 1)
            let isSigned = sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-")
            guard isDigit(at: index + (isSigned ? 2 : 1)) else { throw failure("malformed number") }
            isReal = true
            index += isSigned ? 2 : 1
            skipDigits()
        }
        let digits = text(start..<index)
        guard let letter = byte(index) else { return try plain(digits, isReal) }
        switch letter | 0x20 {
        case UInt8(ascii: "l") where !isReal:
            index += 1
            try endLiteral("number")
            guard let value = Int64(digits) else { throw tooBig("a whole number of 64 bits") }
            return .integer(value)
        case UInt8(ascii: "f"), UInt8(ascii: "d"):
            index += 1
            try endLiteral("number")
            return try real(digits)
        case UInt8(ascii: "m"):
            index += 1
            try endLiteral("number")
            guard let value = DecimalText.parse(digits) else { throw tooBig("a decimal") }
            return .decimal(value)
        default:
            try endLiteral("number")
            return try plain(digits, isReal)
        }
    }

    private func plain(_ digits: String, _ isReal: Bool) throws(ODataError) -> Value {
        if isReal { return try real(digits) }
        if let value = Int64(digits) { return .integer(value) }
        guard let value = DecimalText.parse(digits) else { return try real(digits) }
        return .decimal(value)
    }

    private func real(_ digits: String) throws(ODataError) -> Value {
        guard let value = Double(digits), value.isFinite else { throw tooBig("a number") }
        return .number(value)
    }

    private func tooBig(_ what: String) -> ODataError {
        failure("the number is too large or has too many digits for \(what)")
    }

    private func isDigit(at offset: Int) -> Bool { byte(offset).map(Self.isDigit) ?? false }

    private mutating func skipDigits() {
        while isDigit(at: index) { index += 1 }
    }

    /// Reads a literal that begins with a digit: a number, `1994-10-14`, `07:14:00`,
    /// `1994-10-14T07:14:00Z`.
    mutating func numberOrDate() throws(ODataError) -> Value {
        var digits = 0
        while digits < 5, isDigit(at: index + digits) { digits += 1 }
        switch (digits, byte(index + digits)) {
        case (4, UInt8(ascii: "-")):
            return try day()
        case (2, UInt8(ascii: ":")):
            index += 2
            skip { Self.isDigit($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }
            try endLiteral("time of day")
            guard let text = TimeText.canonical(text(start..<index)) else {
                throw failure("not a time of day; one like 07:14:00 is expected")
            }
            return .string(text)
        default:
            return try number()
        }
    }

    private mutating func skip(while belongs: (UInt8) -> Bool) {
        while let next = byte(index), belongs(next) { index += 1 }
    }

    private mutating func day() throws(ODataError) -> Value {
        skip { Self.isDigit($0) || $0 == UInt8(ascii: "-") }
        guard let letter = byte(index), letter | 0x20 == UInt8(ascii: "t") else {
            try endLiteral("date")
            guard let day = DayText.canonical(text(start..<index)) else {
                throw failure("not a calendar date; one like 1994-10-14 is expected")
            }
            return .string(day)
        }
        index += 1
        skip { Self.isDigit($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }
        if let zone = byte(index) {
            if zone | 0x20 == UInt8(ascii: "z") {
                index += 1
            } else if zone == UInt8(ascii: "+") || zone == UInt8(ascii: "-") {
                index += 1
                skip { Self.isDigit($0) || $0 == UInt8(ascii: ":") }
            }
        }
        try endLiteral("date")
        guard let date = InstantText.parse(text(start..<index), isZoneOptional: false) else {
            throw failure("not a date and time; one like 1994-10-14T07:14:00Z is expected")
        }
        return .date(date)
    }

    /// Reads `datetime'…'`, `datetimeoffset'…'`, `guid'…'`, `time'…'`, `binary'…'`, `X'…'`.
    mutating func typedLiteral(_ type: String) throws(ODataError) -> Value {
        let content = try string()
        switch type {
        case "datetime", "datetimeoffset":
            let isZoneOptional = type == "datetime"
            if let date = InstantText.parse(content, isZoneOptional: isZoneOptional) {
                return .date(date)
            }
            throw failure("not a date and time; \(type)'2022-01-01T00:00:00.000Z' is expected")
        case "guid":
            if let guid = GuidText.canonical(content) { return .string(guid) }
            throw failure("not a UUID; guid'01234567-89ab-cdef-0123-456789abcdef' is expected")
        case "time":
            if let time = TimeText.canonical(content) { return .string(time) }
            throw failure("not a time of day; time'07:14:00' is expected")
        case "X", "x":
            if let data = BinaryText.hex(content) { return .data(data) }
            throw failure("not hexadecimal bytes; an even number of digits is expected")
        case "binary":
            let isHexFirst = dialect == .v3
            if isHexFirst, let data = BinaryText.hex(content) { return .data(data) }
            if let data = BinaryText.base64(content) { return .data(data) }
            throw failure("not binary data; base64 is expected")
        default:
            throw failure(
                "unknown literal type; datetime, datetimeoffset, guid, time, binary or X "
                    + "is expected"
            )
        }
    }
}

/// A parser for instants in a query; seconds are optional.
package enum InstantText {
    package static func parse(_ text: String, isZoneOptional: Bool) -> Date? {
        if let timestamp = Timestamp(text) { return timestamp.date }
        // `1994-10-14T07:14` is as long as the text before the optional seconds.
        let head = text.utf8.prefix(16)
        guard head.count == 16 else { return nil }
        let rest = text.utf8.dropFirst(16)
        let filled =
            rest.first == UInt8(ascii: ":")
            ? text : String(decoding: head + Array(":00".utf8) + rest, as: UTF8.self)
        if let timestamp = Timestamp(filled) { return timestamp.date }
        return isZoneOptional ? Timestamp(filled + "Z")?.date : nil
    }
}

/// A parser and writer for bytes in a query.
package enum BinaryText {
    package static func hex(_ text: String) -> Data? {
        let digits = Array(text.utf8)
        guard digits.count % 2 == 0, digits.allSatisfy(GuidText.isHexDigit) else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).map { index in
            nibble(digits[index]) << 4 | nibble(digits[index + 1])
        }
        return Data(bytes)
    }

    private static func nibble(_ digit: UInt8) -> UInt8 {
        digit <= UInt8(ascii: "9") ? digit - UInt8(ascii: "0") : (digit | 0x20) - 87
    }

    /// Decodes base64 like that of JSON members (RFC 4648 section 4): with padding, and without
    /// other characters.
    ///
    /// Foundation ignores padding in the wrong position and returns wrong bytes.
    package static func paddedBase64(_ text: String) -> Data? {
        let bytes = text.utf8
        let isPadding = bytes.suffix(2).map { $0 == UInt8(ascii: "=") }
        guard bytes.count.isMultiple(of: 4), isPadding != [true, false],
            !bytes.dropLast(2).contains(UInt8(ascii: "="))
        else { return nil }
        return Data(base64Encoded: text)
    }

    /// Decodes base64 in either alphabet, with or without padding.
    package static func base64(_ text: String) -> Data? {
        var plain = text.utf8.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        if !plain.contains(UInt8(ascii: "=")) {
            while plain.count % 4 != 0 { plain.append(UInt8(ascii: "=")) }
        }
        return paddedBase64(String(decoding: plain, as: UTF8.self))
    }

    /// Encodes base64 in the URL-safe alphabet, with padding.
    package static func base64URL(_ data: Data) -> String {
        let bytes = data.base64EncodedString().utf8.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    package static func hex(_ data: Data) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        let bytes = data.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
