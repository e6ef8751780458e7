// HTTPDate: dates in header fields.

/// The conversion of dates in header fields (RFC 9110 section 5.6.7), with integer arithmetic.
package enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Returns whole seconds since 1970, rounded down.
    package static func wholeSeconds(microseconds: Int64) -> Int64 {
        microseconds / 1_000_000 - (microseconds % 1_000_000 < 0 ? 1 : 0)
    }

    /// Returns the preferred format, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    package static func text(microseconds: Int64) -> String {
        let seconds = wholeSeconds(microseconds: microseconds)
        let second = (seconds % 86400 + 86400) % 86400
        let day = (seconds - second) / 86400
        let date = Timestamp.civil(days: day)
        var text = ""
        text.reserveCapacity(29)
        text += days[Int((day % 7 + 7) % 7)]
        text += ", "
        append(date.day, &text)
        text += " "
        text += months[Int(date.month - 1)]
        text += " "
        append(date.year / 100, &text)
        append(date.year, &text)
        text += " "
        append(second / 3600, &text)
        text += ":"
        append(second / 60 % 60, &text)
        text += ":"
        append(second % 60, &text)
        text += " GMT"
        return text
    }

    /// Appends the last two digits of a number.
    private static func append(_ value: Int64, _ text: inout String) {
        let zero = UInt8(ascii: "0")
        let tens = UInt8(truncatingIfNeeded: value / 10 % 10)
        let ones = UInt8(truncatingIfNeeded: value % 10)
        text.unicodeScalars.append(Unicode.Scalar(zero + tens))
        text.unicodeScalars.append(Unicode.Scalar(zero + ones))
    }

    /// Returns the seconds since 1970 for any of the three formats that a recipient must accept;
    /// nil for other strings.
    package static func seconds(_ text: String) -> Int64? {
        if let seconds = preferredSeconds(text) { return seconds }
        // A '-' that is not between two words would be read as the sign of a number.
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.allSatisfy({ $0.first?.isLetterOrDigit == true }),
            parts.allSatisfy({ $0.last?.isLetterOrDigit == true })
        else { return nil }
        let words = text.split { " ,-".contains($0) }
        if words.count == 6, words[5] == "GMT" {
            guard let year = number(words[3]) else { return nil }
            switch words[3].utf8.count {
            case 2: return seconds(year + (year >= 70 ? 1900 : 2000), words[2], words[1], words[4])
            case 4: return seconds(year, words[2], words[1], words[4])
            default: return nil
            }
        }
        // asctime: Sun Nov  6 08:49:37 1994
        guard words.count == 5, words[4].utf8.count == 4, let year = number(words[4]) else {
            return nil
        }
        return seconds(year, words[1], words[2], words[3])
    }

    /// Parses a string that consists of at most four digits.
    private static func number(_ text: Substring) -> Int64? {
        guard (1...4).contains(text.utf8.count),
            text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else { return nil }
        return Int64(text)
    }

    /// Parses the preferred format, which nearly all callers send; nil for any other string.
    private static func preferredSeconds(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8 { bytes in
            let signs: [(Int, StaticString)] = [
                (3, ", "), (7, " "), (11, " "), (16, " "), (19, ":"), (22, ":"), (25, " GMT"),
            ]
            guard bytes.count == 29,
                signs.allSatisfy({ place, sign in
                    sign.withUTF8Buffer { $0.elementsEqual(bytes[place..<place + $0.count]) }
                }),
                let month = months.firstIndex(where: { $0.utf8.elementsEqual(bytes[8..<11]) }),
                let day = number(bytes[5..<7]), let year = number(bytes[12..<16]),
                let hour = number(bytes[17..<19]), let minute = number(bytes[20..<22]),
                let second = number(bytes[23..<25])
            else { return nil }
            return seconds(year, month, day, (hour, minute, second))
        }
    }

    /// Parses bytes that consist only of digits.
    private static func number(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> Int64? {
        var number: Int64 = 0
        for byte in digits {
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            number = number * 10 + Int64(byte - 0x30)
        }
        return number
    }

    private static func seconds(
        _ year: Int64,
        _ month: Int,
        _ day: Int64,
        _ clock: (hour: Int64, minute: Int64, second: Int64)
    ) -> Int64? {
        guard (1...9999).contains(year), Timestamp.isDay(year, Int64(month + 1), day),
            (0..<24).contains(clock.hour), (0..<60).contains(clock.minute),
            (0...60).contains(clock.second)
        else { return nil }
        return Timestamp.days(year: year, month: Int64(month + 1), day: day) * 86400
            + clock.hour * 3600 + clock.minute * 60 + clock.second
    }

    private static func seconds(
        _ year: Int64,
        _ monthName: Substring,
        _ dayText: Substring,
        _ clock: Substring
    ) -> Int64? {
        let parts = clock.split(separator: ":").compactMap { number($0) }
        guard let month = months.firstIndex(where: { $0 == monthName }), let day = number(dayText),
            parts.count == 3
        else { return nil }
        return seconds(year, month, day, (parts[0], parts[1], parts[2]))
    }
}

extension Character {
    fileprivate var isLetterOrDigit: Bool { isASCII && (isLetter || isNumber) }
}
