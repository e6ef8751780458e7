// Timestamp: an instant as whole microseconds since 1970, and its ISO 8601 text.
//
// Uses integer arithmetic only (Howard Hinnant's days-from-civil algorithm): no calendar, no
// locale, no rounding. Text is truncated to three decimals, never rounded up (protocol.md, "Rows").

package import Foundation

/// An instant in whole microseconds since 1970-01-01T00:00:00Z.
package struct Timestamp: Hashable, Sendable, Comparable {
    /// Microseconds since 1970; negative before 1970.
    package var microseconds: Int64

    /// Creates an instant from microseconds since 1970.
    package init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// Creates an instant from a `Date`, rounded to the nearest microsecond and limited to the
    /// years 1 to 9999.
    ///
    /// The `Date` of a whole millisecond becomes that millisecond. A `Date` more than 270 years
    /// from 2001 has less than microsecond precision, and is rounded to the nearest millisecond.
    package init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        if abs(milliseconds) < 1e15, date == Date(timeIntervalSince1970: milliseconds / 1000) {
            let whole = Timestamp(microseconds: Int64(milliseconds) * 1000)
            self = min(max(whole, .earliest), .latest)
            return
        }
        let seconds = date.timeIntervalSinceReferenceDate
        guard abs(seconds) < 1e12 else {
            self = seconds > 0 ? .latest : .earliest
            return
        }
        let whole = seconds.rounded(.down)
        var fraction = Int64(((seconds - whole) * 1_000_000).rounded())
        if abs(seconds) >= Self.farSeconds { fraction = (fraction + 500) / 1000 * 1000 }
        let exact = (Int64(whole) + Self.referenceOffset) * 1_000_000 + fraction
        self = min(max(Timestamp(microseconds: exact), .earliest), .latest)
    }

    /// Creates an instant from a `Date`, rounded to the nearest millisecond, as columns and
    /// documents contain it; nil outside the years 1 to 9999.
    ///
    /// `Date.distantPast`, which is two days earlier, becomes the first instant of that range.
    package init?(millisecondOf date: Date) {
        let count = (date.timeIntervalSince1970 * 1000).rounded()
        let isBefore = count < Self.millisecondsMin
        // NaN fails both conditions.
        guard count <= Self.millisecondsMax, !isBefore || date == .distantPast else { return nil }
        self = isBefore ? .earliest : Timestamp(microseconds: Int64(count) * 1000)
    }

    /// The `Date` for a column or document; the earliest instant represents `Date.distantPast`.
    package var appDate: Date { self == .earliest ? .distantPast : date }

    private static let millisecondsMin = -62_135_596_800_000.0
    private static let millisecondsMax = 253_402_300_799_999.0

    /// 0001-01-01T00:00:00.000000Z.
    package static let earliest = Timestamp(microseconds: -62_135_596_800_000_000)
    /// 9999-12-31T23:59:59.999999Z.
    package static let latest = Timestamp(microseconds: 253_402_300_799_999_999)

    /// The distance from 2001 beyond which a `Date` has less than microsecond precision.
    private static let farSeconds = 8_589_934_592.0

    /// The instant as a `Date` that converts back to the same instant.
    ///
    /// For a whole millisecond, the result equals the `Date` that `Date(timeIntervalSince1970:)`
    /// creates from the seconds, so that an app gets equal dates back. More than 270 years from
    /// 2001, the instant is rounded to the millisecond. Before the year 1 and after 9999, the
    /// result is the nearest instant in that range.
    package var date: Date {
        let instant = inYears
        if instant.microseconds.isMultiple(of: 1000) {
            return Date(timeIntervalSince1970: Double(instant.microseconds / 1000) / 1000)
        }
        let distance = instant.microseconds - Self.referenceOffset * 1_000_000
        let seconds = Double(distance) / 1_000_000
        guard abs(seconds) >= Self.farSeconds else {
            return Date(timeIntervalSinceReferenceDate: seconds)
        }
        let milliseconds = Timestamp(microseconds: distance + 500).milliseconds
        let whole = milliseconds + Self.referenceOffset * 1000
        return Date(timeIntervalSince1970: Double(whole) / 1000)
    }

    /// Milliseconds since 1970, rounded down.
    package var milliseconds: Int64 {
        microseconds / 1000 - (microseconds % 1000 < 0 ? 1 : 0)
    }

    /// The instant in the precision of the wire format: rounded down to the millisecond.
    ///
    /// Outside the years 1 to 9999, the result is the nearest instant in that range.
    package var cutToMilliseconds: Timestamp {
        Timestamp(microseconds: inYears.milliseconds * 1000)
    }

    /// The first instant of the next millisecond; nil if there is none.
    package var nextMillisecond: Timestamp? {
        let next = Timestamp(microseconds: cutToMilliseconds.microseconds + 1000)
        return next > .latest ? nil : next
    }

    /// The nearest instant in the years 1 to 9999, which are the only years that the wire format
    /// can express.
    private var inYears: Timestamp { min(max(self, .earliest), .latest) }

    /// Returns whether the first instant is earlier.
    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.microseconds < right.microseconds
    }

    private static let referenceOffset: Int64 = 978_307_200

    /// The wire format, `2026-11-20T20:32:22.404Z`: three decimals, truncated.
    ///
    /// Outside the years 1 to 9999, the result is the nearest instant in that range.
    package var text: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        write(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The wire format with all six decimals, `2026-11-20T20:32:22.404123Z`.
    package var exactText: String {
        let micros = (inYears.microseconds % 1_000_000 + 1_000_000) % 1_000_000
        var text = self.text
        text.removeLast()
        let rest = String(micros % 1000)
        return text + String(repeating: "0", count: 3 - rest.count) + rest + "Z"
    }

    package func write(to bytes: inout [UInt8]) {
        let millis = inYears.milliseconds
        let milli = (millis % 1000 + 1000) % 1000
        let seconds = (millis - milli) / 1000
        let second = (seconds % 86400 + 86400) % 86400
        let (year, month, day) = Self.civil(days: (seconds - second) / 86400)
        Self.write(year, 4, &bytes)
        bytes.append(UInt8(ascii: "-"))
        Self.write(month, 2, &bytes)
        bytes.append(UInt8(ascii: "-"))
        Self.write(day, 2, &bytes)
        bytes.append(UInt8(ascii: "T"))
        Self.write(second / 3600, 2, &bytes)
        bytes.append(UInt8(ascii: ":"))
        Self.write(second / 60 % 60, 2, &bytes)
        bytes.append(UInt8(ascii: ":"))
        Self.write(second % 60, 2, &bytes)
        bytes.append(UInt8(ascii: "."))
        Self.write(milli, 3, &bytes)
        bytes.append(UInt8(ascii: "Z"))
    }

    private static func write(_ value: Int64, _ digits: Int, _ bytes: inout [UInt8]) {
        var scale: Int64 = digits == 4 ? 1000 : digits == 3 ? 100 : 10
        while scale > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value / scale % 10))
            scale /= 10
        }
    }

    package static func civil(days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let part = (5 * dayOfYear + 2) / 153
        let month = part < 10 ? part + 3 : part - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month,
            dayOfYear - (153 * part + 2) / 5 + 1
        )
    }

    package static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}

extension Timestamp {
    /// Parses `2026-11-20T20:32:22[.fraction](Z|±hh:mm)`; truncates the fraction to microseconds.
    ///
    /// Returns nil for any other string, for a day that does not exist, and for a missing offset.
    package init?(_ text: some StringProtocol) {
        var copy = String(text)
        guard let timestamp = copy.withUTF8({ Timestamp(utf8: UnsafeRawBufferPointer($0)) }) else {
            return nil
        }
        self = timestamp
    }

    package init?(utf8 bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 20, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: "T") || bytes[10] == UInt8(ascii: "t"),
            bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            let year = Self.digits(bytes, 0, 4), let month = Self.digits(bytes, 5, 2),
            let day = Self.digits(bytes, 8, 2), let hour = Self.digits(bytes, 11, 2),
            let minute = Self.digits(bytes, 14, 2), let second = Self.digits(bytes, 17, 2),
            Self.isDay(year, month, day), hour < 24, minute < 60, second < 60
        else { return nil }
        var index = 19
        var micros: Int64 = 0
        if bytes[index] == UInt8(ascii: ".") {
            index += 1
            let first = index
            var scale: Int64 = 100_000
            while index < bytes.count, let digit = Self.digits(bytes, index, 1) {
                micros += digit * scale
                scale /= 10
                index += 1
            }
            guard index > first, index - first <= 9 else { return nil }
        }
        guard let offset = Self.offset(bytes, index) else { return nil }
        let days = Self.days(year: year, month: month, day: day)
        let seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
        microseconds = seconds * 1_000_000 + micros
        guard self >= .earliest, self <= .latest else { return nil }
    }

    package static func isDay(_ year: Int64, _ month: Int64, _ day: Int64) -> Bool {
        guard year >= 1, (1...12).contains(month), (1...31).contains(day) else { return false }
        let (_, backMonth, backDay) = civil(days: days(year: year, month: month, day: day))
        return backMonth == month && backDay == day
    }

    /// Returns the offset from UTC in seconds, from the `Z` or `±hh:mm` at the end.
    private static func offset(_ bytes: UnsafeRawBufferPointer, _ index: Int) -> Int64? {
        guard index < bytes.count else { return nil }
        switch bytes[index] {
        case UInt8(ascii: "Z"), UInt8(ascii: "z"):
            return index + 1 == bytes.count ? 0 : nil
        case UInt8(ascii: "+"), UInt8(ascii: "-"):
            guard index + 6 == bytes.count, bytes[index + 3] == UInt8(ascii: ":"),
                let hours = digits(bytes, index + 1, 2), let minutes = digits(bytes, index + 4, 2),
                hours < 24, minutes < 60
            else { return nil }
            let seconds = hours * 3600 + minutes * 60
            return bytes[index] == UInt8(ascii: "-") ? -seconds : seconds
        default:
            return nil
        }
    }

    private static func digits(
        _ bytes: UnsafeRawBufferPointer,
        _ start: Int,
        _ count: Int
    ) -> Int64? {
        guard start + count <= bytes.count else { return nil }
        var value: Int64 = 0
        for index in start..<start + count {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value * 10 + Int64(digit)
        }
        return value
    }
}
