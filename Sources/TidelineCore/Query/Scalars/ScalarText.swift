// ScalarText: text functions in memory and, registered as `tl_*` functions, in SQLite.
//
// Searches compare UTF-8 bytes, because a match of a whole string always begins and ends between
// scalars. Lengths and positions count Unicode scalars.

/// The text functions of queries.
package enum ScalarText {
    /// The maximum number of bytes in a string that `concat` or `replace` returns; a longer result
    /// is null.
    ///
    /// Calls can be nested, and each call could multiply the length by a hundred.
    package static let bytesMax = 8 << 20

    package static func contains(_ text: String, _ part: String) -> Bool {
        offset(of: part, in: text) != nil
    }

    package static func starts(_ text: String, with part: String) -> Bool {
        text.utf8.starts(with: part.utf8)
    }

    package static func ends(_ text: String, with part: String) -> Bool {
        text.utf8.reversed().starts(with: part.utf8.reversed())
    }

    package static func length(_ text: String) -> Int64 {
        Int64(text.unicodeScalars.count)
    }

    /// Returns the number of scalars before the first match; -1 if there is no match.
    package static func index(of part: String, in text: String) -> Int64 {
        guard let offset = offset(of: part, in: text) else { return -1 }
        return Int64(text.utf8.prefix(offset).count { $0 & 0xC0 != 0x80 })
    }

    /// Returns at most `count` scalars from the 0-based `start`; ignores positions outside the
    /// string.
    package static func substring(_ text: String, from start: Int64, count: Int64?) -> String {
        let scalars = text.unicodeScalars
        let rest = scalars.dropFirst(Int(clamping: max(0, start)))
        guard let count else { return String(rest) }
        return String(rest.prefix(Int(clamping: max(0, count))))
    }

    /// Concatenates two strings; nil if the result is too long.
    package static func concat(_ text: String, _ other: String) -> String? {
        text.utf8.count + other.utf8.count > bytesMax ? nil : text + other
    }

    /// Replaces every match from left to right; an empty `part` never matches.
    ///
    /// Returns nil if the result is too long.
    package static func replace(_ text: String, _ part: String, by other: String) -> String? {
        guard !part.isEmpty, part.utf8.count <= text.utf8.count else { return text }
        let search = TextSearch(part)
        let replacement = Array(other.utf8)
        var copy = text
        return copy.withUTF8 { bytes in
            var result: [UInt8] = []
            var start = 0
            while let match = search.first(in: bytes, from: start) {
                result.append(contentsOf: bytes[start..<match])
                result.append(contentsOf: replacement)
                start = match + search.needle.count
                guard result.count <= bytesMax else { return nil }
            }
            guard start > 0 else { return text }
            guard result.count + bytes.count - start <= bytesMax else { return nil }
            result.append(contentsOf: bytes[start...])
            return String(decoding: result, as: UTF8.self)
        }
    }

    /// Converts to lower case by the full Unicode rules, regardless of locale.
    package static func lower(_ text: String) -> String { text.lowercased() }

    /// Converts to upper case by the full Unicode rules, regardless of locale.
    package static func upper(_ text: String) -> String { text.uppercased() }

    /// Removes Unicode white space at both ends.
    package static func trim(_ text: String) -> String {
        let scalars = text.unicodeScalars
        let head = scalars.drop { $0.properties.isWhitespace }
        let tail = head.reversed().drop { $0.properties.isWhitespace }
        return String(String.UnicodeScalarView(tail.reversed()))
    }

    /// Returns the offset of the first match in the UTF-8 bytes.
    private static func offset(of part: String, in text: String) -> Int? {
        if part.isEmpty { return 0 }
        guard part.utf8.count <= text.utf8.count else { return nil }
        let search = TextSearch(part)
        var copy = text
        return copy.withUTF8 { search.first(in: $0, from: 0) }
    }
}
