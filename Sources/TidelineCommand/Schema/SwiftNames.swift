// SwiftNames: valid and unique Swift names for tables, columns and members, the same each time.

/// The names of one scope.
struct SwiftNames {
    private var taken: Set<String>

    init(taken: Set<String>) { self.taken = taken }

    /// The types that the generated file uses, whose names a model must not hide.
    static let usedTypes: Set<String> = [
        "Any", "AnyObject", "Bool", "CaseIterable", "Codable", "CodingKey", "CodingKeys", "Data",
        "Date", "Decimal", "Double", "Int", "Int64", "JSONDecoder", "JSONValue", "LocalDate",
        "LocalTime", "Never", "Optional",
        "Decoder", "Encoder", "Protocol", "RecordColumn", "Reference", "Rule", "Self", "Sendable",
        "String", "SyncRecord", "Type", "UUID",
        "Void",
    ]

    /// The words that Swift reserves; they are names of properties and cases in backticks.
    private static let keywords: Set<String> = [
        "as", "associatedtype", "break", "case", "catch", "class", "continue", "default", "defer",
        "deinit", "do", "else", "enum", "extension", "fallthrough", "false", "fileprivate", "for",
        "func", "guard", "if", "import", "in", "init", "inout", "internal", "is", "let", "nil",
        "operator", "precedencegroup", "private", "protocol", "public", "repeat", "rethrows",
        "return", "self", "static", "struct", "subscript", "super", "switch", "throw", "throws",
        "true", "try", "typealias", "var", "where", "while",
    ]

    /// The names that are not allowed even in backticks, or that mean something else after a dot or as the name of a
    /// case.
    private static let impossible: Set<String> = [
        "Type", "Protocol", "Self", "self", "init", "Any", "rawValue", "RawValue",
    ]

    /// Returns a name for a type; `suffix` makes it different from a name that is taken.
    mutating func type(_ name: String, otherwise suffix: String) -> String {
        let own = Self.upperCamel(name)
        return unique(taken.contains(own) ? own + suffix : own)
    }

    /// Returns a name for a property or a case.
    mutating func property(_ name: String) -> String {
        var own = Self.isIdentifier(name) ? name : Self.lowerCamel(name)
        if Self.impossible.contains(own) { own += "Value" }
        let found = unique(own)
        return Self.keywords.contains(found) ? "`\(found)`" : found
    }

    private mutating func unique(_ name: String) -> String {
        var found = name
        var number = 2
        while !taken.insert(found).inserted {
            found = "\(name)\(number)"
            number += 1
        }
        return found
    }

    // MARK: - Text

    private static func isLetter(_ scalar: Unicode.Scalar) -> Bool {
        ("a"..."z").contains(scalar) || ("A"..."Z").contains(scalar)
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { ("0"..."9").contains(scalar) }

    /// Whether a string consists of ASCII letters, digits and `_`, and does not begin with a digit.
    private static func isIdentifier(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, text != "_" else { return false }
        return (isLetter(first) || first == "_")
            && text.unicodeScalars.allSatisfy { isLetter($0) || isDigit($0) || $0 == "_" }
    }

    /// Returns the words of a string, each with an upper-case first letter, as one name.
    static func upperCamel(_ text: String) -> String {
        let words = text.unicodeScalars.split { !isLetter($0) && !isDigit($0) }
            .map { String($0) }
        let joined = words.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
        guard let first = joined.unicodeScalars.first else { return "Empty" }
        return isDigit(first) ? "N" + joined : joined
    }

    private static func lowerCamel(_ text: String) -> String {
        let name = upperCamel(text)
        return name.prefix(1).lowercased() + name.dropFirst()
    }

    /// Returns a string literal.
    static func literal(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            // A control character, or one that changes the order of the text, is not visible.
            case _
            where scalar.value < 0x20 || scalar.value > 0x7E && !scalar.properties.isAlphabetic:
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
