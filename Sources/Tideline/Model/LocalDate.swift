// LocalDate: a calendar day without a time zone, the Swift side of a `date` column.

public import Foundation
import TidelineCore

/// A day of the Gregorian calendar, without a time or a time zone.
///
/// ```swift
/// let day = LocalDate(year: 2026, month: 11, day: 20)     // nil when there is no such day
/// print(day?.description ?? "")                           // 2026-11-20
/// ```
public struct LocalDate: Hashable, Sendable, Comparable {
    /// The year, 1 to 9999.
    public let year: Int
    /// The month, 1 to 12.
    public let month: Int
    /// The day of the month.
    public let day: Int

    /// Creates a day from its components; nil if the calendar does not have that day.
    public init?(year: Int, month: Int, day: Int) {
        guard (1...9999).contains(year), (1...12).contains(month), (1...31).contains(day),
            Timestamp.isDay(Int64(year), Int64(month), Int64(day))
        else { return nil }
        self.year = year
        self.month = month
        self.day = day
    }

    /// Reads `2026-11-20`; nil for any other text.
    public init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            let year = DecimalDigits.value(bytes[0..<4]),
            let month = DecimalDigits.value(bytes[5..<7]),
            let day = DecimalDigits.value(bytes[8..<10])
        else { return nil }
        self.init(year: year, month: month, day: day)
    }

    /// Creates the day that contains an instant, in a time zone.
    ///
    /// Instants outside the years 1 to 9999 become the nearest day of that range, and a `Date` whose time is NaN
    /// becomes the first day of that range.
    public init(_ date: Date, in timeZone: TimeZone) {
        let given = date.timeIntervalSince1970.rounded(.down)
        // This comparison is also false for NaN.
        let seconds =
            given >= Self.secondsMin ? min(given, Self.secondsMax) : Self.secondsMin
        let offset = timeZone.secondsFromGMT(for: Date(timeIntervalSince1970: seconds))
        let local = seconds + Double(offset)
        let days = Int64((min(max(local, Self.secondsMin), Self.secondsMax) / 86400).rounded(.down))
        let (year, month, day) = Timestamp.civil(days: days)
        self.year = Int(year)
        self.month = Int(month)
        self.day = Int(day)
    }

    private static let secondsMin = Double(Timestamp.days(year: 1, month: 1, day: 1) * 86400)
    private static let secondsMax = Double(
        Timestamp.days(year: 9999, month: 12, day: 31) * 86400 + 86399
    )

    private init(epochDay: ()) {
        year = 1970
        month = 1
        day = 1
    }

    package static let zero = LocalDate(epochDay: ())

    /// Returns whether the first day is earlier.
    public static func < (left: LocalDate, right: LocalDate) -> Bool {
        (left.year, left.month, left.day) < (right.year, right.month, right.day)
    }
}

extension LocalDate: LosslessStringConvertible {
    /// The ISO 8601 text, `2026-11-20`.
    public var description: String {
        [
            DecimalDigits.text(year, width: 4), DecimalDigits.text(month, width: 2),
            DecimalDigits.text(day, width: 2),
        ].joined(separator: "-")
    }
}

extension LocalDate: Codable {
    /// Reads the ISO 8601 text.
    ///
    /// - Throws: `DecodingError` if the value is not a string, or the string is not a day of the calendar.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let day = LocalDate(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "not a date such as 2026-11-20"
            )
        }
        self = day
    }

    /// Writes the ISO 8601 text.
    ///
    /// - Throws: The errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

/// Decimal numbers of a fixed width, as in dates and times.
enum DecimalDigits {
    static func value(_ bytes: ArraySlice<UInt8>) -> Int? {
        var result = 0
        for byte in bytes {
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            result = result * 10 + Int(byte - 0x30)
        }
        return result
    }

    static func text(_ value: Int, width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}
