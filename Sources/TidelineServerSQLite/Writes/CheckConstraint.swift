// CheckConstraint: finds constraints in SQL, because SQLite reports one by its name or its text. Pure.

/// A CHECK constraint of a table, as its SQL declares it.
struct CheckConstraint: Hashable {
    /// The name; nil if it was declared without one.
    var name: String?
    /// The SQL of the expression.
    var text: String
    /// The names in the expression, in lower case, with or without quotes.
    var words: Set<String>

    /// Returns whether SQLite's error contains this constraint's name or expression.
    ///
    /// If the expression begins with a quoted name, SQLite reports only that name (`sqlite3AddCheckConstraint`
    /// removes the quotes).
    func isNamed(_ other: String) -> Bool {
        if let name { return name == other }
        let first = Token.all(in: Array(text.utf8)).first
        return text == other || first.map { $0.isQuoted && $0.text == other } ?? false
    }

    static func all(in sql: String) -> [CheckConstraint] {
        let tokens = Token.all(in: Array(sql.utf8))
        var checks: [CheckConstraint] = []
        for (place, token) in tokens.enumerated() where token.isWord("check") {
            guard place + 1 < tokens.count, tokens[place + 1].text == "(" else { continue }
            var depth = 0
            let end = tokens[(place + 1)...].firstIndex { token in
                if token.text == "(" { depth += 1 }
                if token.text == ")" { depth -= 1 }
                return depth == 0
            }
            guard let end else { continue }
            let inner = tokens[(place + 2)..<end]
            let isNamed = place >= 2 && tokens[place - 2].isWord("constraint")
            let start = tokens[place + 1].range.upperBound
            let bytes = Array(sql.utf8)[start..<tokens[end].range.lowerBound]
            checks.append(
                CheckConstraint(
                    name: isNamed ? tokens[place - 1].text : nil,
                    text: trimmed(String(decoding: bytes, as: UTF8.self)),
                    words: Set(inner.filter(\.isName).map { $0.text.lowercased() })
                )
            )
        }
        return checks
    }

    private static func trimmed(_ text: String) -> String {
        let start = text.drop { $0.isWhitespace }
        return String(start.reversed().drop { $0.isWhitespace }.reversed())
    }

    /// A token of SQL: a name, a string, or one other character.
    private struct Token {
        /// The token without quotes.
        var text: String
        var range: Range<Int>
        var isName: Bool
        var isQuoted: Bool

        func isWord(_ word: String) -> Bool { isName && !isQuoted && text.lowercased() == word }

        static func all(in bytes: [UInt8]) -> [Token] {
            var tokens: [Token] = []
            var place = 0
            while place < bytes.count {
                let byte = bytes[place]
                let start = place
                if let end = closing[byte] {
                    place = skipQuoted(bytes, from: place, until: end)
                    let inner = bytes[(start + 1)..<max(start + 1, place - 1)]
                    tokens.append(
                        Token(
                            text: String(decoding: inner, as: UTF8.self),
                            range: start..<place,
                            isName: byte != UInt8(ascii: "'"),
                            isQuoted: true
                        )
                    )
                } else if isWordByte(byte) {
                    while place < bytes.count, isWordByte(bytes[place]) { place += 1 }
                    tokens.append(
                        Token(
                            text: String(decoding: bytes[start..<place], as: UTF8.self),
                            range: start..<place,
                            isName: true,
                            isQuoted: false
                        )
                    )
                } else {
                    place += 1
                    guard byte > 0x20 else { continue }
                    tokens.append(
                        Token(
                            text: String(decoding: [byte], as: UTF8.self),
                            range: start..<place,
                            isName: false,
                            isQuoted: false
                        )
                    )
                }
            }
            return tokens
        }

        private static let closing: [UInt8: UInt8] = [
            UInt8(ascii: "'"): UInt8(ascii: "'"), UInt8(ascii: "\""): UInt8(ascii: "\""),
            UInt8(ascii: "`"): UInt8(ascii: "`"), UInt8(ascii: "["): UInt8(ascii: "]"),
        ]

        /// Returns the index after a quoted string; a doubled quote does not end it.
        private static func skipQuoted(_ bytes: [UInt8], from start: Int, until end: UInt8) -> Int {
            var place = start + 1
            while place < bytes.count {
                if bytes[place] == end {
                    let isDoubled = place + 1 < bytes.count && bytes[place + 1] == end
                    guard isDoubled, end != UInt8(ascii: "]") else { return place + 1 }
                    place += 1
                }
                place += 1
            }
            return bytes.count
        }

        private static func isWordByte(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"),
                0x80...:
                true
            default: false
            }
        }
    }
}
