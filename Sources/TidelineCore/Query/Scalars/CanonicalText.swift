// CanonicalText: converts values that are stored as text (decimals, UUIDs, dates, times of day) to
// a single spelling.
//
// Equal values have equal strings, so a database can compare them with plain `=`.

package import Foundation

/// The canonical text of a decimal.
package enum DecimalText {
    /// The number of significant digits that a `Decimal` can always store without loss.
    ///
    /// A `Decimal` can also store some numbers with one more digit, such as the result of 7 / 3.
    package static let digitsMax = 38

    /// Returns plain digits, without an exponent, redundant zeros, or a minus sign before zero.
    package static func canonical(_ value: Decimal) -> String {
        guard !value.isNaN else { return "0" }
        let text = value.description
        guard text.utf8.contains(UInt8(ascii: ".")) else { return text == "-0" ? "0" : text }
        var bytes = Array(text.utf8)
        while bytes.last == UInt8(ascii: "0") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
        let result = String(decoding: bytes, as: UTF8.self)
        return result == "-0" ? "0" : result
    }

    /// Parses text such as `-12.50` or `1e3`; nil for other strings and for numbers that a decimal
    /// cannot store exactly.
    ///
    /// Every canonical string can be parsed.
    package static func parse(_ text: some StringProtocol) -> Decimal? {
        if let short = parsePlain(text.utf8) { return short }
        var digits = 0
        var isLeading = true
        var isExponent = false
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if byte != UInt8(ascii: "0") { isLeading = false }
                if !isLeading && !isExponent { digits += 1 }
            case UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."): break
            case UInt8(ascii: "e"), UInt8(ascii: "E"): isExponent = true
            default: return nil
            }
        }
        guard Double(text) != nil, let value = Decimal(string: String(text)), !value.isNaN else {
            return nil
        }
        guard digits > digitsMax else { return value }
        return significant(canonical(value)) == significant(text) ? value : nil
    }

    /// Parses a number of up to 18 digits without an exponent, like most prices; nil for other
    /// text.
    private static func parsePlain(_ text: some Collection<UInt8>) -> Decimal? {
        var (significand, digits): (UInt64, Int) = (0, 0)
        // The number of digits after the point; nil before the point.
        var fraction: Int?
        var isNegative = false
        for (index, byte) in text.enumerated() {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                digits += 1
                guard digits <= 18 else { return nil }
                significand = significand * 10 + UInt64(byte - UInt8(ascii: "0"))
                fraction = fraction.map { $0 + 1 }
            case UInt8(ascii: "."):
                guard fraction == nil, digits > 0 else { return nil }
                fraction = 0
            case UInt8(ascii: "-"):
                guard index == 0 else { return nil }
                isNegative = true
            default: return nil
            }
        }
        guard digits > 0, fraction != 0 else { return nil }
        guard significand != 0 else { return 0 }
        return Decimal(
            sign: isNegative ? .minus : .plus,
            exponent: -(fraction ?? 0),
            significand: Decimal(significand)
        )
    }

    /// Returns the digits of a number without sign, decimal point, exponent, and zeros at both
    /// ends.
    package static func significant(_ text: some StringProtocol) -> [UInt8] {
        let zero = UInt8(ascii: "0")
        let mantissa = text.utf8.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }
        var digits = Array(mantissa.filter(isDigit).drop { $0 == zero })
        while digits.last == zero { digits.removeLast() }
        return digits
    }

    package static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    /// Returns the nearest double.
    package static func double(_ value: Decimal) -> Double {
        Double(canonical(value)) ?? 0
    }

    /// Returns the decimal with the shortest digits that identify this double; nil outside a
    /// decimal's range.
    package static func decimal(_ value: Double) -> Decimal? {
        guard value.isFinite, abs(value) < 1e38, value == 0 || abs(value) > 1e-38 else {
            return nil
        }
        return Decimal(string: "\(value)")
    }

    /// Returns the order of two canonical strings by value: -1, 0 or 1.
    package static func compare(_ one: some Collection<UInt8>, _ two: some Collection<UInt8>) -> Int
    {
        let minus = UInt8(ascii: "-")
        switch (one.first == minus, two.first == minus) {
        case (true, true): return magnitude(two.dropFirst(), one.dropFirst())
        case (true, false): return -1
        case (false, true): return 1
        case (false, false): return magnitude(one, two)
        }
    }

    private static func magnitude(
        _ one: some Collection<UInt8>,
        _ two: some Collection<UInt8>
    )
        -> Int
    {
        let point = UInt8(ascii: ".")
        let (first, second) = (one.prefix { $0 != point }, two.prefix { $0 != point })
        if first.count != second.count { return first.count < second.count ? -1 : 1 }
        if one.elementsEqual(two) { return 0 }
        return one.lexicographicallyPrecedes(two) ? -1 : 1
    }
}

/// The canonical text of a UUID.
package enum GuidText {
    /// Returns the UUID in lower case with hyphens; nil if the string is not a UUID.
    ///
    /// Braces are not accepted.
    package static func canonical(_ text: some StringProtocol) -> String? {
        guard isGuid(text.utf8) else { return nil }
        return text.lowercased()
    }

    /// Returns whether the bytes have the format 8-4-4-4-12, which is 36 bytes long.
    package static func isGuid(_ bytes: some Collection<UInt8>) -> Bool {
        guard bytes.count == 36 else { return false }
        for (offset, byte) in bytes.enumerated() {
            switch offset {
            case 8, 13, 18, 23:
                guard byte == UInt8(ascii: "-") else { return false }
            default:
                guard isHexDigit(byte) else { return false }
            }
        }
        return true
    }

    static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}

/// The canonical text of a date.
package enum DayText {
    /// Returns the string if it is a calendar day such as `1994-10-14`; nil otherwise.
    package static func canonical(_ text: some StringProtocol) -> String? {
        parts(text) == nil ? nil : String(text)
    }

    package static func parts(
        _ text: some StringProtocol
    ) -> (year: Int64, month: Int64, day: Int64)? {
        let bytes = Array(text.utf8)
        guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]),
            let day = number(bytes[8..<10]), Timestamp.isDay(year, month, day)
        else { return nil }
        return (year, month, day)
    }

    static func number(_ bytes: ArraySlice<UInt8>) -> Int64? {
        var value: Int64 = 0
        for byte in bytes {
            let digit = byte &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value * 10 + Int64(digit)
        }
        return value
    }

    package static func text(year: Int64, month: Int64, day: Int64) -> String {
        padded(year, 4) + "-" + padded(month, 2) + "-" + padded(day, 2)
    }

    static func padded(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

/// The canonical text of a time of day.
package enum TimeText {
    /// Returns `07:14:00.000`, with three decimals, or with six if there are microseconds; nil for
    /// other strings.
    ///
    /// Accepts `07:14`, `07:14:00`, and up to nine decimals, which are truncated to microseconds.
    package static func canonical(_ text: some StringProtocol) -> String? {
        microseconds(text).map(self.text)
    }

    package static func microseconds(_ text: some StringProtocol) -> Int64? {
        let bytes = Array(text.utf8)
        let colon = UInt8(ascii: ":")
        guard bytes.count >= 5, bytes[2] == colon, let hour = DayText.number(bytes[0..<2]),
            let minute = DayText.number(bytes[3..<5]), hour < 24, minute < 60
        else { return nil }
        let start = (hour * 3600 + minute * 60) * 1_000_000
        if bytes.count == 5 { return start }
        guard bytes.count >= 8, bytes[5] == colon, let second = DayText.number(bytes[6..<8]),
            second < 60
        else { return nil }
        if bytes.count == 8 { return start + second * 1_000_000 }
        let decimals = bytes[9...]
        guard bytes[8] == UInt8(ascii: "."), (1...9).contains(decimals.count),
            DayText.number(decimals) != nil
        else { return nil }
        let six =
            Array(decimals.prefix(6)) + Array(repeating: 0x30, count: max(0, 6 - decimals.count))
        return start + second * 1_000_000 + (DayText.number(six[...]) ?? 0)
    }

    package static func text(_ microseconds: Int64) -> String {
        let seconds = microseconds / 1_000_000
        let micros = microseconds % 1_000_000
        let fraction =
            micros % 1000 == 0
            ? DayText.padded(micros / 1000, 3) : DayText.padded(micros, 6)
        return DayText.padded(seconds / 3600, 2) + ":" + DayText.padded(seconds / 60 % 60, 2) + ":"
            + DayText.padded(seconds % 60, 2) + "." + fraction
    }
}
