// RetiredWordsTests: prose uses the words of docs/glossary.md, not those that they replaced.
//
// Prose is comments, string literals in Sources, display names of tests, and documents. Identifiers are not checked.

import Foundation
import Testing

struct RetiredWordsTests {
    /// The retired words and phrases in lower case, each list with the words to use.
    ///
    /// A word that also has another meaning is only part of a phrase: "held mask", but not "held". "Owner clock" is not
    /// listed, because it is the name of a removed table option that servers still migrate.
    static let words: [(retired: [String], use: String)] = [
        (
            ["settle", "settles", "settled", "settling"],
            "resolve a conflict, apply an outcome, or commit a transaction"
        ),
        (["mend", "mends", "mended", "mending"], "fix"),
        (["anew", "begun again", "taken up again"], "retry, restart or reload"),
        (
            ["nobody", "somebody", "anybody", "everybody", "tables of others"],
            "the caller, the device, the transaction, the external writer"
        ),
        (["given up", "stand behind", "stands behind"], "pending, attempted or parked"),
        (["queue entry", "queue entries"], "operation"),
        (["made as one"], "atomic group"),
        (["verdict", "verdicts"], "outcome"),
        (["dead row", "dead rows"], "tombstone"),
        (
            ["held mask", "held masks", "held row", "held rows"],
            "query membership, membership mask"
        ),
        (["handed out"], "read snapshot"),
        (["misfit", "misfits"], "decoding failure"),
        (["repeat key", "repeat keys", "name of a write"], "idempotency key"),
        (["caller's view"], "visibility filter"),
        (["beside"], "next to"),
        (
            [
                "foreign change", "foreign changes", "foreign transaction", "foreign transactions",
                "foreign write", "foreign writes", "foreign writer", "foreign writers",
            ],
            "external writer"
        ),
        (["lent"], "connection pool, or used by"),
        (["kept statement", "kept statements"], "prepared statement"),
        (
            ["held lock", "held locks", "held up", "holds up", "passed over"],
            "contended lock, blocked write"
        ),
        (["log emptier", "empties the log"], "WAL checkpoint"),
        (["has room", "have room", "no room"], "reservation, budget"),
        (["a look"], "follow-up read, or probe"),
        (["teller", "tellers", "tells of", "told of"], "report, notify or publish"),
    ]

    @Test("Prose contains no word that the glossary has replaced")
    func proseUsesTheGlossary() throws {
        expectNone(try Repository.files().flatMap(retiredWordFindings))
    }

    @Test(
        "The retired word rule reads prose and ignores identifiers",
        arguments: [
            ("Sources/A.swift", "// Nobody reads it.", 1),
            ("Sources/A.swift", "let a = 1 // Read it anew, or mend it.", 2),
            ("Sources/A.swift", "/// Returns `nobody`.", 0),
            ("Sources/A.swift", "/// - settle: Resolves a conflict; see settle(_:).", 0),
            ("Sources/A.swift", "/// - Parameter settle: Resolves a conflict.", 0),
            ("Sources/A.swift", "/// ```swift\n/// settle(nobody)\n/// ```\n/// Mend it.", 1),
            ("Sources/A.swift", "/// It was given. Up to here.", 0),
            ("Sources/A.swift", "/// The held mask of a caller's view", 2),
            ("Sources/A.swift", "let nobody = settle(row)", 0),
            ("Sources/A.swift", "let a = \"The operation was given up.\"", 1),
            ("Sources/A.swift", "let a = [\"settled\", \"nobody\"]", 0),
            ("Sources/A.swift", "let a = \"\"\"\n    Somebody has \\(nobody).\n    \"\"\"", 1),
            ("Tests/A.swift", "let a = \"Nobody reads it.\"", 0),
            ("Tests/A.swift", "// Nobody reads it.", 1),
            ("Tests/A.swift", "@Test(\"Nobody reads it\") func a() {}", 1),
            ("Sources/A/shim.h", "int nobody; // Nobody reads it.\n * Mend it.\nint mend();", 2),
            ("docs/A.md", "The rows are settled.\n`settled`\n```\nsettled\n```", 1),
            ("deploy/A.json", "\"nobody reads it\"", 0),
        ]
    )
    func retiredWordRuleCanFail(path: String, text: String, count: Int) {
        let file = SourceFile(path: path, text: text)
        #expect(retiredWordFindings(in: file).count == count)
    }
}

/// A retired phrase, as the list of its words.
private struct Phrase {
    let words: [String]
    let text: String
    let use: String
}

/// The retired phrases by their first word.
private let phrases: [String: [Phrase]] = {
    let all = RetiredWordsTests.words.flatMap { retired, use in
        retired.map { Phrase(words: lowercasedWords(of: $0), text: $0, use: use) }
    }
    return Dictionary(grouping: all) { $0.words[0] }
}()

/// Returns a message for each retired word of a text.
func retiredWords(in text: String) -> [String] {
    let words = lowercasedWords(of: text)
    return words.indices.flatMap { start -> [String] in
        let candidates = phrases[words[start]] ?? []
        return candidates.filter { words[start...].starts(with: $0.words) }
            .map { "'\($0.text)' is retired (docs/glossary.md). Write: \($0.use)." }
    }
}

private func retiredWordFindings(in file: SourceFile) -> [Finding] {
    prose(of: file).flatMap { line, text -> [Finding] in
        retiredWords(in: text).map { Finding(path: file.path, line: line, message: $0) }
    }
}

/// Returns the words of a text in lower case, with an empty word at the end of each sentence, and instead of each name
/// of a function or member.
private func lowercasedWords(of text: String) -> [String] {
    var words: [String] = []
    var word: [UInt8] = []
    var before = UInt8(ascii: " ")
    var last = before
    for byte in Array(text.utf8) + [UInt8(ascii: " ")] {
        if isPartOfWord(byte) {
            if word.isEmpty { before = last }
            word.append(byte)
        } else {
            if !word.isEmpty {
                let isName = before == UInt8(ascii: ".") || byte == UInt8(ascii: "(")
                words.append(isName ? "" : String(decoding: word, as: UTF8.self).lowercased())
                word = []
            }
            if ".:;".utf8.contains(byte) { words.append("") }
        }
        last = byte
    }
    return words
}

private func isPartOfWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
        true
    default:
        false
    }
}

// MARK: - Prose of a file

private func prose(of file: SourceFile) -> [(line: Int, text: String)] {
    if file.path.hasSuffix(".md") {
        return proseLines(file.lines).enumerated().map { index, text in
            (line: index + 1, text: text)
        }
    }
    if file.path.hasSuffix(".swift") {
        let names = displayNames(file).map { line, name in
            (line: line, text: String(name ?? ""))
        }
        return swiftProse(of: file) + names
    }
    guard file.path.hasSuffix(".h") || file.path.hasSuffix(".js") else { return [] }
    var comments: [(line: Int, text: String)] = []
    for (index, line) in file.lines.enumerated() {
        let text = line.trimmingCharacters(in: .whitespaces)
        if text.hasPrefix("/*") || text.hasPrefix("* ") {
            comments.append((index + 1, text))
        } else if let slashes = line.range(of: "// ") {
            comments.append((index + 1, String(line[slashes.upperBound...])))
        }
    }
    return comments
}

/// Returns the comments of a Swift file without the code in them, and in Sources also the string literals with a space.
private func swiftProse(of file: SourceFile) -> [(line: Int, text: String)] {
    var prose: [(line: Int, text: String)] = []
    var isExample = false
    for (index, (line, code)) in zip(file.lines, file.code).enumerated() {
        var isComment = false
        for part in blankedParts(of: line, code: code) {
            if part.hasPrefix("//") {
                isComment = true
                let text = part.trimmingCharacters(in: ["/", " "])
                if text.hasPrefix("```") {
                    isExample.toggle()
                } else if !isExample {
                    prose.append((index + 1, withoutLabel(withoutCode(text))))
                }
            } else if file.isIn("Sources"), part.contains(" ") {
                prose.append((index + 1, part))
            }
        }
        if !isComment { isExample = false }
    }
    return prose
}

/// Returns the parts of a line that `CodeScanner` has replaced with spaces.
private func blankedParts(of line: Substring, code: Substring) -> [String] {
    var parts: [[UInt8]] = [[]]
    for (byte, kept) in zip(line.utf8, code.utf8) {
        if kept == UInt8(ascii: " ") {
            parts[parts.count - 1].append(byte)
        } else if !parts[parts.count - 1].isEmpty {
            parts.append([])
        }
    }
    return parts.map { part in
        String(decoding: part, as: UTF8.self).trimmingCharacters(in: .whitespaces)
    }
}

private func withoutCode(_ text: String) -> String {
    let parts = text.split(separator: "`", omittingEmptySubsequences: false)
    return parts.enumerated().map { $0.offset % 2 == 0 ? String($0.element) : "." }.joined()
}

/// Returns the description of a parameter without the name of the parameter.
private func withoutLabel(_ text: String) -> String {
    guard text.hasPrefix("- "), let colon = text.firstIndex(of: ":") else { return text }
    return String(text[colon...])
}
