// LocalTime: a time of day without a time zone, the Swift side of a `time` column.

/// A time of day with milliseconds, without a day or a time zone.
///
/// ```swift
/// let wake = LocalTime(hour: 7, minute: 14)               // nil when there is no such time
/// print(wake?.description ?? "")                          // 07:14:00.000
/// ```
public struct LocalTime: Hashable, Sendable, Comparable {
    /// Milliseconds since midnight, 0 to 86,399,999.
    public let millisecondsOfDay: Int

    /// The first time of a day, 00:00.
    public static let midnight = LocalTime(since: 0)

    private init(since milliseconds: Int) { millisecondsOfDay = milliseconds }

    /// Creates a time from the milliseconds since midnight; nil if it is not within a day.
    public init?(millisecondsOfDay: Int) {
        guard (0..<86_400_000).contains(millisecondsOfDay) else { return nil }
        self.millisecondsOfDay = millisecondsOfDay
    }

    /// Creates a time of day; nil if a component is out of range.
    public init?(hour: Int, minute: Int, second: Int = 0, millisecond: Int = 0) {
        guard (0..<24).contains(hour), (0..<60).contains(minute), (0..<60).contains(second),
            (0..<1000).contains(millisecond)
        else { return nil }
        millisecondsOfDay = ((hour * 60 + minute) * 60 + second) * 1000 + millisecond
    }

    /// Reads `07:14`, `07:14:05` or `07:14:05.250`; nil for any other text.
    ///
    /// At most nine decimals are accepted; those after the third are cut off.
    public init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        let colon = UInt8(ascii: ":")
        guard bytes.count >= 5, bytes[2] == colon, let hour = DecimalDigits.value(bytes[0..<2]),
            let minute = DecimalDigits.value(bytes[3..<5])
        else { return nil }
        guard bytes.count > 5 else {
            self.init(hour: hour, minute: minute)
            return
        }
        guard bytes.count >= 8, bytes[5] == colon, let second = DecimalDigits.value(bytes[6..<8])
        else { return nil }
        guard bytes.count > 8 else {
            self.init(hour: hour, minute: minute, second: second)
            return
        }
        let fraction = bytes[9...]
        guard bytes[8] == UInt8(ascii: "."), (1...9).contains(fraction.count),
            DecimalDigits.value(fraction) != nil,
            let milliseconds = DecimalDigits.value((fraction + [0x30, 0x30]).prefix(3))
        else { return nil }
        self.init(hour: hour, minute: minute, second: second, millisecond: milliseconds)
    }

    private init(midnight: ()) { millisecondsOfDay = 0 }

    package static let zero = LocalTime(midnight: ())

    /// The hour, 0 to 23.
    public var hour: Int { millisecondsOfDay / 3_600_000 }
    /// The minute, 0 to 59.
    public var minute: Int { millisecondsOfDay / 60_000 % 60 }
    /// The second, 0 to 59.
    public var second: Int { millisecondsOfDay / 1000 % 60 }
    /// The millisecond, 0 to 999.
    public var millisecond: Int { millisecondsOfDay % 1000 }

    /// Returns whether the first time is earlier.
    public static func < (left: LocalTime, right: LocalTime) -> Bool {
        left.millisecondsOfDay < right.millisecondsOfDay
    }
}

extension LocalTime: LosslessStringConvertible {
    /// The ISO 8601 text with three decimals, `07:14:05.250`.
    public var description: String {
        let whole = [hour, minute, second].map { DecimalDigits.text($0, width: 2) }
        return whole.joined(separator: ":") + "." + DecimalDigits.text(millisecond, width: 3)
    }
}

extension LocalTime: Codable {
    /// Reads the ISO 8601 text.
    ///
    /// - Throws: `DecodingError` if the value is not a string, or the string is not a time of day.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let time = LocalTime(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "not a time such as 07:14:05.250"
            )
        }
        self = time
    }

    /// Writes the ISO 8601 text.
    ///
    /// - Throws: The errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
