// SearchText: parses the text of a user's search and writes it in the syntax of SQLite's full-text
// search.
//
// Every search text is valid: characters that are not operators here are searched for literally.

/// The text of a search, parsed into words and phrases.
///
/// White space separates words, and a row must contain all of them. `wart*` matches the beginning
/// of a word, `"…"` is a phrase, and `-word` excludes the rows that contain the word. A term
/// without letters and digits is ignored.
package struct SearchText: Hashable, Sendable {
    /// A word or a phrase.
    package struct Term: Hashable, Sendable {
        package var text: String
        /// Whether the last word matches the beginning of a word.
        package var isPrefix = false
        /// Whether rows that contain the term are excluded.
        package var isExcluded = false
    }

    /// An error in a search text: the text is too long.
    package struct Failure: Error, Hashable, Sendable {
        package var message: String
    }

    /// The words and phrases, in order.
    package let terms: [Term]

    /// The maximum number of bytes in a search text, far more than a user types; each word costs a
    /// separate search.
    package static let bytesMax = 1000

    /// The maximum number of words and phrases.
    package static let termsMax = 32

    /// Parses a search text.
    package init(_ text: String) throws(Failure) {
        guard text.utf8.count <= Self.bytesMax else {
            throw Failure(
                message: "the text of a search has more than \(Self.bytesMax) bytes. Shorten it"
            )
        }
        var reader = Reader(text)
        terms = reader.terms()
        guard terms.count <= Self.termsMax else {
            throw Failure(
                message: "a search has more than \(Self.termsMax) words. Search for fewer words"
            )
        }
    }

    /// The search for all required terms, minus the excluded ones, in SQLite's syntax; nil if no
    /// term is required.
    package var required: String? {
        let required = terms.filter { !$0.isExcluded }
        guard !required.isEmpty else { return nil }
        let all = required.map(\.expression).joined(separator: " ")
        guard let excluded else { return "(\(all))" }
        return "((\(all)) NOT (\(excluded)))"
    }

    /// The search for any excluded term; nil if there are none.
    package var excluded: String? {
        let excluded = terms.filter(\.isExcluded)
        guard !excluded.isEmpty else { return nil }
        return excluded.map(\.expression).joined(separator: " OR ")
    }
}

extension SearchText.Term {
    /// The term as a quoted string for SQLite's full-text search, in which no character is an
    /// operator.
    fileprivate var expression: String {
        let parts = text.split(separator: "\"", omittingEmptySubsequences: false)
        return "\"\(parts.joined(separator: "\"\""))\"" + (isPrefix ? " *" : "")
    }
}

/// A reader of the terms in a search text.
private struct Reader {
    private let scalars: [Unicode.Scalar]
    private var next = 0

    init(_ text: String) {
        // SQLite stops reading a text at a NUL.
        scalars = text.unicodeScalars.map { $0.value == 0 ? " " : $0 }
    }

    private var current: Unicode.Scalar? { next < scalars.count ? scalars[next] : nil }

    mutating func terms() -> [SearchText.Term] {
        var terms: [SearchText.Term] = []
        while let scalar = current {
            if scalar.properties.isWhitespace {
                next += 1
                continue
            }
            let term = term()
            if term.text.unicodeScalars.contains(where: \.isPartOfWord) { terms.append(term) }
        }
        return terms
    }

    /// Reads the term at the current position.
    private mutating func term() -> SearchText.Term {
        var isExcluded = false
        let isFirst = next == 0 || scalars[next - 1].properties.isWhitespace
        if isFirst, current == "-", next + 1 < scalars.count,
            !scalars[next + 1].properties.isWhitespace
        {
            isExcluded = true
            next += 1
        }
        var term = current == "\"" ? phrase() : word()
        term.isExcluded = isExcluded
        return term
    }

    /// Reads a phrase; without a closing quote, the phrase extends to the end of the text.
    private mutating func phrase() -> SearchText.Term {
        next += 1
        var text = String.UnicodeScalarView()
        while let scalar = current, scalar != "\"" {
            text.append(scalar)
            next += 1
        }
        next += 1
        let isPrefix = current == "*"
        if isPrefix { next += 1 }
        return SearchText.Term(text: String(text), isPrefix: isPrefix)
    }

    private mutating func word() -> SearchText.Term {
        var text = String.UnicodeScalarView()
        while let scalar = current, scalar != "\"", !scalar.properties.isWhitespace {
            text.append(scalar)
            next += 1
        }
        var isPrefix = false
        while text.last == "*" {
            text.removeLast()
            isPrefix = true
        }
        return SearchText.Term(text: String(text), isPrefix: isPrefix)
    }
}

extension Unicode.Scalar {
    /// Whether the index treats the scalar as part of a word: a letter, a number, or a private-use
    /// scalar.
    fileprivate var isPartOfWord: Bool {
        switch properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter,
            .decimalNumber, .letterNumber, .otherNumber, .privateUse:
            true
        default: false
        }
    }
}
