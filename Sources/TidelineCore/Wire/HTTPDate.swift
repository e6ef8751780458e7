// HTTPDate: dates of header fields (RFC 9110 section 5.6.7), on integers.

package enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Whole seconds since 1970, cut towards the past.
    package static func wholeSeconds(microseconds: Int64) -> Int64 {
        microseconds / 1_000_000 - (microseconds % 1_000_000 < 0 ? 1 : 0)
    }

    /// The preferred form, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    package static func text(microseconds: Int64) -> String {
        let seconds = wholeSeconds(microseconds: microseconds)
        let second = (seconds % 86400 + 86400) % 86400
        let day = (seconds - second) / 86400
        let date = Timestamp.civil(days: day)
        var text: [UInt8] = []
        text.reserveCapacity(29)
        text += days[Int((day % 7 + 7) % 7)].utf8
        text += ", ".utf8
        append(date.day, &text)
        text.append(UInt8(ascii: " "))
        text += months[Int(date.month - 1)].utf8
        text.append(UInt8(ascii: " "))
        append(date.year / 100, &text)
        append(date.year, &text)
        text.append(UInt8(ascii: " "))
        append(second / 3600, &text)
        text.append(UInt8(ascii: ":"))
        append(second / 60 % 60, &text)
        text.append(UInt8(ascii: ":"))
        append(second % 60, &text)
        text += " GMT".utf8
        return String(decoding: text, as: UTF8.self)
    }

    /// The last two digits.
    private static func append(_ value: Int64, _ text: inout [UInt8]) {
        text.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value / 10 % 10))
        text.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10))
    }

    /// Seconds since 1970 of any of the three forms that a recipient must accept, else nil.
    package static func seconds(_ text: String) -> Int64? {
        let words = text.split { " ,-".contains($0) }
        if words.count == 6, words[5] == "GMT" {
            let isShort = words[3].utf8.count == 2
            guard let year = Int64(words[3]) else { return nil }
            let full = isShort ? year + (year >= 70 ? 1900 : 2000) : year
            return seconds(full, words[2], words[1], words[4])
        }
        // asctime: Sun Nov  6 08:49:37 1994
        guard words.count == 5, let year = Int64(words[4]) else { return nil }
        return seconds(year, words[1], words[2], words[3])
    }

    private static func seconds(
        _ year: Int64,
        _ monthName: Substring,
        _ dayText: Substring,
        _ clock: Substring
    ) -> Int64? {
        guard let month = months.firstIndex(where: { $0 == monthName }), let day = Int64(dayText),
            (1...9999).contains(year), Timestamp.isDay(year, Int64(month + 1), day)
        else { return nil }
        let parts = clock.split(separator: ":").compactMap { Int64($0) }
        guard parts.count == 3, (0..<24).contains(parts[0]), (0..<60).contains(parts[1]),
            (0...60).contains(parts[2])
        else { return nil }
        return Timestamp.days(year: year, month: Int64(month + 1), day: day) * 86400
            + parts[0] * 3600 + parts[1] * 60 + parts[2]
    }
}
