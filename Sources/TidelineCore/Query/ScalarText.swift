// ScalarText: the text functions of queries, in memory and, registered as tl_*, in SQLite.
//
// UTF-8 is searched as bytes: a match of whole texts begins and ends between scalars. Counts are
// counts of Unicode scalars.

package enum ScalarText {
    package static func contains(_ text: String, _ part: String) -> Bool {
        find(Array(part.utf8), in: Array(text.utf8), from: 0) != nil
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

    /// The count of scalars before the first match, -1 without one.
    package static func index(of part: String, in text: String) -> Int64 {
        let bytes = Array(text.utf8)
        guard let offset = find(Array(part.utf8), in: bytes, from: 0) else { return -1 }
        return Int64(bytes[0..<offset].count { $0 & 0xC0 != 0x80 })
    }

    /// From the 0-based scalar `start`, at most `count` of them; what lies outside is left out.
    package static func substring(_ text: String, from start: Int64, count: Int64?) -> String {
        let scalars = text.unicodeScalars
        let rest = scalars.dropFirst(Int(clamping: max(0, start)))
        guard let count else { return String(rest) }
        return String(rest.prefix(Int(clamping: max(0, count))))
    }

    /// Every match from left to right; an empty `part` matches nowhere.
    package static func replace(_ text: String, _ part: String, by other: String) -> String {
        let (bytes, needle) = (Array(text.utf8), Array(part.utf8))
        guard !needle.isEmpty else { return text }
        var result: [UInt8] = []
        var start = 0
        while let match = find(needle, in: bytes, from: start) {
            result.append(contentsOf: bytes[start..<match])
            result.append(contentsOf: other.utf8)
            start = match + needle.count
        }
        result.append(contentsOf: bytes[start...])
        return String(decoding: result, as: UTF8.self)
    }

    /// Full Unicode, the same in every locale.
    package static func lower(_ text: String) -> String { text.lowercased() }

    /// Full Unicode, the same in every locale.
    package static func upper(_ text: String) -> String { text.uppercased() }

    /// Without the white space of Unicode at both ends.
    package static func trim(_ text: String) -> String {
        let scalars = text.unicodeScalars
        let head = scalars.drop { $0.properties.isWhitespace }
        let tail = head.reversed().drop { $0.properties.isWhitespace }
        return String(String.UnicodeScalarView(tail.reversed()))
    }

    private static func find(_ needle: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        guard let first = needle.first else { return start }
        guard bytes.count >= needle.count else { return nil }
        let last = bytes.count - needle.count
        var index = start
        while index <= last {
            if bytes[index] == first, bytes[index..<index + needle.count].elementsEqual(needle) {
                return index
            }
            index += 1
        }
        return nil
    }
}
