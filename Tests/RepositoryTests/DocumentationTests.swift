// DocumentationTests: what is public says what it is, also the cases of enums and the requirements
// of protocols, which have no `public` of their own for the formatter's rule to see.

import Foundation
import Testing

struct DocumentationTests {
    @Test func casesAndRequirementsHaveDocumentation() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        expectNone(files.flatMap(undocumentedMembers))
    }

    @Test(arguments: [
        ("public enum A {\n    /// One.\n    case one\n    case two\n}", [4]),
        ("enum A {\n    case one\n}", []),
        (
            "public enum A: Int {\n    /// One.\n    @available(*, deprecated)\n    case one = 1\n}",
            []
        ),
        (
            "public enum A {\n    var b: Int {\n        switch self {\n        case one: 1\n} } }",
            []
        ),
        ("extension A {\n    public enum B {\n        case one\n    }\n}", [3]),
        (
            "public protocol A {\n    /// B.\n    func b()\n    func c()\n    var d: Int { get }\n}",
            [4, 5]
        ),
        ("public protocol A {\n    /// B.\n    static func b(\n        c: Int\n    )\n}", []),
        ("package protocol A {\n    func b()\n}", []),
        ("public protocol A<B>:\n    Sendable\n{\n    associatedtype B\n}", [4]),
        ("public enum A {\n    /// One.\n    case one\n}\nenum B {\n    case two\n}", []),
    ])
    func documentationRuleCanFail(code: String, lines: [Int]) {
        let file = SourceFile(path: "Sources/A.swift", text: code)
        #expect(undocumentedMembers(of: file).map(\.line) == lines)
    }
}

private func undocumentedMembers(of file: SourceFile) -> [Finding] {
    var findings: [Finding] = []
    var depth = 0
    /// The words that begin a member of the public type which is open, and the depth of its members.
    var open: (words: Set<Substring>, depth: Int)?
    /// Of a type whose brace has not come yet.
    var next: Set<Substring>?
    for (index, line) in file.code.enumerated() {
        let words = line.split { !$0.isLetter && $0 != "@" }
        if let open, depth == open.depth, let first = words.first, open.words.contains(first),
            !hasDocumentation(above: index, in: file.lines)
        {
            let message = "'\(line.trimmingCharacters(in: .whitespaces))' has no doc comment."
            findings.append(Finding(path: file.path, line: index + 1, message: message))
        }
        if open == nil, let place = words.firstIndex(of: "public") {
            next = words[place...].lazy.compactMap { memberWords[$0] }.first ?? next
        }
        for character in line {
            if character == "{" {
                depth += 1
                if let words = next { (open, next) = ((words, depth), nil) }
            } else if character == "}" {
                if open?.depth == depth { open = nil }
                depth -= 1
            }
        }
    }
    return findings
}

private let memberWords: [Substring: Set<Substring>] = [
    "enum": ["case", "indirect"],
    "protocol": ["func", "var", "init", "subscript", "associatedtype", "static", "mutating"],
]

/// Whether the line above, attributes and conditions aside, is a doc comment.
private func hasDocumentation(above index: Int, in lines: [Substring]) -> Bool {
    let above = lines[..<index].reversed().lazy.map { $0.drop(while: \.isWhitespace) }
    return above.first { !$0.hasPrefix("@") && !$0.hasPrefix("#") }?.hasPrefix("///") ?? false
}
