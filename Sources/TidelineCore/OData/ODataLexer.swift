// ODataLexer: tokens of query options.
//
// The lexer knows no grammar beyond a token: ODataParser decides whether a name is a function, an
// operator, or a column. Literals are returned as values. Both dialects have the same tokens.

import Foundation

/// A lexer that splits the bytes of a decoded query option into tokens, one at a time.
package struct ODataLexer {
    package enum Token: Hashable, Sendable {
        case end
        case name(String)
        case literal(Value)
        case open
        case close
        case comma
        case slash
        case colon
        case dot
        case minus
        case star
    }

    let bytes: [UInt8]
    let dialect: ODataDialect
    /// The offset of the current token.
    package private(set) var start = 0
    var index = 0

    package init(_ text: String, dialect: ODataDialect) {
        bytes = Array(text.utf8)
        self.dialect = dialect
    }

    func failure(_ message: String, at position: Int? = nil) -> ODataError {
        ODataError(.syntax, message, at: position ?? start)
    }

    func byte(_ offset: Int) -> UInt8? { offset < bytes.count ? bytes[offset] : nil }

    func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    package mutating func next() throws(ODataError) -> Token {
        while let space = byte(index), [0x20, 0x09, 0x0A, 0x0D].contains(space) { index += 1 }
        start = index
        guard let first = byte(index) else { return .end }
        if isGuid(at: index) { return guid() }
        switch first {
        case UInt8(ascii: "("): return punctuation(.open)
        case UInt8(ascii: ")"): return punctuation(.close)
        case UInt8(ascii: ","): return punctuation(.comma)
        case UInt8(ascii: "/"): return punctuation(.slash)
        case UInt8(ascii: ":"): return punctuation(.colon)
        case UInt8(ascii: "."): return punctuation(.dot)
        case UInt8(ascii: "*"): return punctuation(.star)
        case UInt8(ascii: "'"): return .literal(.string(try string()))
        case UInt8(ascii: "-"):
            guard let digit = byte(index + 1), Self.isDigit(digit) else {
                return punctuation(.minus)
            }
            return .literal(try number())
        case UInt8(ascii: "0")...UInt8(ascii: "9"): return .literal(try numberOrDate())
        case UInt8(ascii: "\""): throw failure("text is quoted with ', not with \"")
        case UInt8(ascii: "="), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "!"),
            UInt8(ascii: "&"), UInt8(ascii: "|"), UInt8(ascii: "+"), UInt8(ascii: "%"):
            throw failure("operators are words: eq ne lt le gt ge, and or not, add sub mul div mod")
        default: return try name()
        }
    }

    private mutating func punctuation(_ token: Token) -> Token {
        index += 1
        return token
    }

    static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

    // MARK: - Names

    /// Returns whether a string is a single name in the syntax of a query.
    static func isName(_ text: String, _ dialect: ODataDialect) -> Bool {
        var lexer = ODataLexer(text, dialect: dialect)
        guard case .name(let name)? = try? lexer.next(), name.hasSameBytes(as: text) else {
            return false
        }
        return !text.utf8.contains(UInt8(ascii: "$"))
    }

    /// Returns the length of the name character at an offset; 0 if there is none.
    private func nameLength(at offset: Int, isFirst: Bool) -> Int {
        guard let first = byte(offset) else { return 0 }
        switch first {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "_"):
            return 1
        case UInt8(ascii: "@"): return isFirst ? 1 : 0
        case UInt8(ascii: "$"):
            return isFirst && bytes[offset...].starts(with: "$count".utf8) ? 1 : 0
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): return isFirst ? 0 : 1
        case 0x80...:
            let length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
            let character = text(offset..<min(offset + length, bytes.count))
            let isLetter = character.unicodeScalars.allSatisfy { $0.properties.isXIDContinue }
            return isLetter ? length : 0
        default: return 0
        }
    }

    private mutating func name() throws(ODataError) -> Token {
        while case let length = nameLength(at: index, isFirst: index == start), length > 0 {
            index += length
        }
        guard index > start else { throw failure("unexpected character") }
        let name = text(start..<index)
        if let quote = quoteOfMember() {
            index = quote
            return .literal(.string(try string()))
        }
        guard byte(index) == UInt8(ascii: "'") else { return .name(name) }
        return .literal(try typedLiteral(name))
    }

    /// Returns the position of the quote in `Example.Rating'G'`, that is, after the enumeration's
    /// name.
    private func quoteOfMember() -> Int? {
        guard byte(index) == UInt8(ascii: ".") else { return nil }
        var end = index
        while byte(end) == UInt8(ascii: "."), nameLength(at: end + 1, isFirst: true) > 0 {
            end += 1
            while case let length = nameLength(at: end, isFirst: false), length > 0 {
                end += length
            }
        }
        return byte(end) == UInt8(ascii: "'") ? end : nil
    }

    /// Checks that no name or other number directly follows a literal.
    func endLiteral(_ what: String) throws(ODataError) {
        let isPoint = byte(index) == UInt8(ascii: ".")
        guard nameLength(at: index, isFirst: false) == 0, !isPoint else {
            throw failure("malformed \(what)")
        }
    }

    // MARK: - Text and UUIDs

    mutating func string() throws(ODataError) -> String {
        let quote = UInt8(ascii: "'")
        let opening = index
        var content: [UInt8] = []
        index += 1
        while let next = byte(index) {
            index += 1
            if next == quote {
                guard byte(index) == quote else { return String(decoding: content, as: UTF8.self) }
                index += 1
            }
            content.append(next)
        }
        throw failure("the text is not closed; a ' is expected", at: opening)
    }

    private func isGuid(at offset: Int) -> Bool {
        guard offset + 36 <= bytes.count, GuidText.isHexDigit(bytes[offset]),
            bytes[offset + 8] == UInt8(ascii: "-")
        else { return false }
        return GuidText.isGuid(bytes[offset..<offset + 36])
            && nameLength(at: offset + 36, isFirst: false) == 0
    }

    private mutating func guid() -> Token {
        index += 36
        return .literal(.string(text(start..<index).lowercased()))
    }
}
