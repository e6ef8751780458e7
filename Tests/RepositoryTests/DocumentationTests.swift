// DocumentationTests: public declarations have documentation, including enum cases and protocol
// requirements, which the formatter's rule does not check because they have no `public`. The comment of a type
// says what the type is.

import Foundation
import Testing

struct DocumentationTests {
    @Test("Public enum cases and protocol requirements have documentation")
    func casesAndRequirementsHaveDocumentation() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        expectNone(files.flatMap(undocumentedMembers))
    }

    @Test(
        "The documentation rule finds public members without documentation",
        arguments: [
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
        ]
    )
    func documentationRuleCanFail(code: String, lines: [Int]) {
        let file = SourceFile(path: "Sources/A.swift", text: code)
        #expect(undocumentedMembers(of: file).map(\.line) == lines)
    }

    @Test("Public functions of the client document their errors")
    func whatTheClientThrowsIsSaid() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources/Tideline") }
        #expect(files.contains { $0.path.hasSuffix("/RemoteTable.swift") })
        expectNone(files.flatMap(silentThrowers))
    }

    @Test(
        "The errors rule finds public throwing functions that do not document their errors",
        arguments: [
            ("/// A.\npublic func a() throws {}", [2]),
            ("/// A.\n///\n/// - Throws: B.\npublic func a() throws {}", []),
            (
                "/// A.\n/// - Throws: B.\n@discardableResult\npublic func a() async throws -> Int {",
                []
            ),
            ("/// A.\npublic init(\n    a: Int\n) throws {", [2]),
            ("/// A.\npublic func a(b: () throws -> Int) -> Int {", []),
            ("/// A.\npublic func a(b: () throws -> Int) rethrows -> Int {", []),
            (
                "/// A.\npublic static func a<B: C>(_ b: (B) -> Int = { _ in 1 }) async throws {",
                [2]
            ),
            ("/// A.\npublic func a() throws(B) where C: D {", [2]),
            ("func a() throws {}\npackage func b() throws {}", []),
            (
                "public protocol A {\n    /// B.\n    func b(\n        c: Int\n    ) throws -> Int\n}",
                [3]
            ),
            ("public protocol A {\n    /// B.\n    /// - Throws: C.\n    func b() throws\n}", []),
            ("protocol A {\n    func b() throws\n}\nextension A {\n    func b() throws {}\n}", []),
            ("/// A.\npublic func a() {\n    func b() throws {}\n}", []),
            (
                "public protocol A {\n    /// B.\n    func b()\n    /// C.\n    init(c: D) throws\n}",
                [5]
            ),
        ]
    )
    func throwsRuleCanFail(code: String, lines: [Int]) {
        let file = SourceFile(path: "Sources/Tideline/A.swift", text: code)
        #expect(silentThrowers(in: file).map(\.line) == lines)
    }

    @Test("The comment of a type begins with a noun, not with a question word")
    func typeCommentsBeginWithANoun() throws {
        expectNone(try Repository.swiftFiles().flatMap(questioningComments))
    }

    @Test(
        "The rule about type comments finds comments that begin with a question word",
        arguments: [
            ("/// How a push ended.\nenum A {}", [1]),
            ("/// How\n/// a push ended.\n@frozen\npublic enum A {}", [1]),
            ("struct A {\n    /// Whether it ended.\n    private enum B {}\n}", [2]),
            ("/// What a push does.\n@available(*, deprecated)\npackage final class A {}", [1]),
            ("/// `When` it ended.\nactor A {}\n/// Which one.\ntypealias B = A", [1, 3]),
            ("/// Why it ended.\npublic protocol A {}", [1]),
            ("/// Where it ended.\nindirect enum A {}", [1]),
            ("/// The end of a push.\n///\n/// How it ended.\nenum A {}", []),
            ("/// Whether it ended.\nvar isEnded = false", []),
            ("/// Howitzers.\nstruct A {}\n// How it ended.\nstruct B {}", []),
            ("/// How many classes there are.\nclass func a() {}\nenum B {}", []),
        ]
    )
    func typeCommentRuleCanFail(code: String, lines: [Int]) {
        let file = SourceFile(path: "Sources/A.swift", text: code)
        #expect(questioningComments(in: file).map(\.line) == lines)
    }
}

private let questionWords: Set<Substring> = [
    "How", "What", "When", "Where", "Whether", "Which", "Why",
]

/// Returns the doc comments of types whose first word is a question word.
private func questioningComments(in file: SourceFile) -> [Finding] {
    file.code.indices.compactMap { index in
        guard declaresType(file.code[index]) else { return nil }
        let comment = documentation(above: index, in: file.lines)
        guard let word = comment.split(whereSeparator: { !$0.isLetter }).first,
            questionWords.contains(word)
        else { return nil }
        let above = file.lines[..<index].lastIndex {
            $0.drop(while: \.isWhitespace).hasPrefix("///")
        }
        let count = comment.split(separator: "\n", omittingEmptySubsequences: false).count
        let message = "'\(word)' begins the comment of a type. Say what the type is, with a noun."
        return Finding(path: file.path, line: (above ?? index) + 2 - count, message: message)
    }
}

/// Whether a line declares a type or an alias of a type.
private func declaresType(_ line: Substring) -> Bool {
    let kinds: Set<Substring> = ["actor", "class", "enum", "protocol", "struct", "typealias"]
    let modifiers: Set<Substring> = [
        "fileprivate", "final", "indirect", "nonisolated", "open", "package", "private", "public",
    ]
    // An attribute may be in the same line.
    let words = line.split { !$0.isLetter && $0 != "@" }.drop {
        $0.hasPrefix("@") || modifiers.contains($0)
    }
    guard let kind = words.first, kinds.contains(kind) else { return false }
    return words.dropFirst().first != "func" && words.dropFirst().first != "var"
}

/// Returns the throwing functions and initializers without a documented error: those with `public`,
/// and the requirements of public protocols.
private func silentThrowers(in file: SourceFile) -> [Finding] {
    var findings: [Finding] = []
    var depth = 0
    /// The depth of the requirements of the current public protocol.
    var requirements: Int?
    var opensProtocol = false
    for (index, line) in file.code.enumerated() {
        let words = line.split { !$0.isLetter && $0 != "@" }
        let isRequirement = depth == requirements
        if words.contains("public") || isRequirement, !words.contains("protocol"),
            words.contains("func") || words.contains("init"),
            throwsErrors(file.code[index...], isRequirement: isRequirement),
            !documentation(above: index, in: file.lines).contains("- Throws:")
        {
            let message = "'\(line.trimmingCharacters(in: .whitespaces))' has no '- Throws:'."
            findings.append(Finding(path: file.path, line: index + 1, message: message))
        }
        if words.contains("public"), words.contains("protocol") { opensProtocol = true }
        for character in line {
            if character == "{" {
                depth += 1
                if opensProtocol { (requirements, opensProtocol) = (depth, false) }
            } else if character == "}" {
                if depth == requirements { requirements = nil }
                depth -= 1
            }
        }
    }
    return findings
}

/// Whether the declaration that begins here has `throws` between its parameters and its body.
///
/// A requirement ends at the line of its last parenthesis.
private func throwsErrors(_ lines: ArraySlice<Substring>, isRequirement: Bool) -> Bool {
    var depth = 0
    var hadParameters = false
    var tail = ""
    for line in lines {
        for character in line {
            if character == "(" { depth += 1 }
            if depth == 0, hadParameters {
                if character == "{" { return saysThrows(tail) }
                tail.append(character)
            }
            if character == ")" {
                depth -= 1
                hadParameters = depth == 0 || hadParameters
            }
        }
        if isRequirement, hadParameters, depth == 0 { return saysThrows(tail) }
        tail.append(" ")
    }
    return saysThrows(tail)
}

private func saysThrows(_ tail: String) -> Bool {
    tail.split { !$0.isLetter }.contains("throws")
}

private func undocumentedMembers(of file: SourceFile) -> [Finding] {
    var findings: [Finding] = []
    var depth = 0
    /// The keywords that begin a member of the current public type, and the depth of its members.
    var open: (words: Set<Substring>, depth: Int)?
    /// The keywords for a type whose opening brace is still to come.
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

/// Whether the line above is a doc comment, ignoring attributes and conditions.
private func hasDocumentation(above index: Int, in lines: [Substring]) -> Bool {
    !documentation(above: index, in: lines).isEmpty
}

/// Returns the doc comment above a line, ignoring attributes and conditions.
private func documentation(above index: Int, in lines: [Substring]) -> String {
    lines[..<index].reversed().lazy.map { $0.drop(while: \.isWhitespace) }
        .drop { $0.hasPrefix("@") || $0.hasPrefix("#") }
        .prefix { $0.hasPrefix("///") }
        .reversed().joined(separator: "\n")
}
