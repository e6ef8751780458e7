// PasswordFilter: removes passwords from strings that are printed or logged. Pure.

import TidelineCore

/// A filter that removes passwords from the addresses and connection options in a string.
package enum PasswordFilter {
    /// The text that replaces a password.
    package static let mask = "***"

    /// Returns the string without the passwords.
    ///
    /// The user information of addresses (`scheme://user:password@`) and the values of options such as
    /// `password=` are replaced.
    ///
    /// A password that is not percent-encoded may contain `@`, `/` and spaces. In a PostgreSQL address,
    /// everything up to the last `@` of the line is removed.
    package static func filtered(_ text: String) -> String {
        let bytes = Array(text.utf8)
        guard bytes.contains(equals) || bytes.contains(at) else { return text }
        let lines = bytes.split(separator: newline, omittingEmptySubsequences: false)
        let filtered = lines.map { withoutOptions(withoutUserInformation($0)[...]) }
        return String(decoding: Array(filtered.joined(separator: [newline])), as: UTF8.self)
    }

    private static let at = UInt8(ascii: "@")
    private static let equals = UInt8(ascii: "=")
    private static let quote = UInt8(ascii: "'")
    private static let newline = UInt8(ascii: "\n")
    private static let scheme = Array("://".utf8)
    private static let option = Array("password".utf8)

    /// The bytes that end an address whose password is percent-encoded.
    private static let ends = Set(" \t\"'/?#<>".utf8)

    private static func withoutUserInformation(_ line: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        var rest = line
        while let separator = rest.firstRange(of: scheme) {
            let isPostgres = ["postgres", "postgresql"].contains { name in
                rest[..<separator.lowerBound].suffix(name.utf8.count)
                    .elementsEqual(name.utf8) { lowercased($0) == $1 }
            }
            result += rest[..<separator.upperBound]
            rest = rest[separator.upperBound...]
            let scope = isPostgres ? rest : rest.prefix { !ends.contains($0) }
            if let end = scope.lastIndex(of: at) {
                result += Array(mask.utf8)
                rest = rest[end...]
            }
        }
        return result + rest
    }

    /// Removes the values of options, which are quoted with `'`, or end before white space, `&`, a quote or the
    /// end.
    private static func withoutOptions(_ line: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        var rest = line
        while let start = firstOption(in: rest) {
            result += rest[..<start] + Array(mask.utf8)
            rest = rest[start...]
            if rest.first == quote {
                rest = rest.dropFirst()
                while let byte = rest.popFirst(), byte != quote {
                    if byte == UInt8(ascii: "\\") { rest = rest.dropFirst() }
                }
            } else {
                rest = rest.drop { ![0x20, 0x09, 0x22, quote, UInt8(ascii: "&")].contains($0) }
            }
        }
        return result + rest
    }

    /// Returns where the value of the first non-empty `password=` begins, in any letter case.
    private static func firstOption(in bytes: ArraySlice<UInt8>) -> Int? {
        var rest = bytes
        while let sign = rest.firstIndex(of: equals) {
            let name = rest[..<sign].suffix(option.count)
            let hasValue = rest.index(after: sign) < rest.endIndex && rest[sign + 1] != 0x20
            if hasValue, name.elementsEqual(option, by: { lowercased($0) == $1 }) {
                return sign + 1
            }
            rest = rest[(sign + 1)...]
        }
        return nil
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        (0x41...0x5A).contains(byte) ? byte | 0x20 : byte
    }
}
