// MessageTableTests: the messages of Sources in one table, so that they can be read as a whole.

import Foundation
import Testing

struct MessageTableTests {
    private static let path = "Tests/RepositoryTests/Messages.txt"

    private static func table() throws -> String {
        try String(contentsOf: Repository.root.appending(path: path), encoding: .utf8)
    }

    @Test("The table has the messages that are in Sources")
    func tableIsCurrent() throws {
        let (code, printed) = try Repository.run("scripts/messages")
        try #require(code == 0, "\(printed)")
        let saved = try Self.table()
        let isCurrent = printed == saved
        let before = Set(saved.split(separator: "\n"))
        let now = Set(printed.split(separator: "\n"))
        let added = now.subtracting(before).sorted().joined(separator: "\n")
        let removed = before.subtracting(now).sorted().joined(separator: "\n")
        #expect(
            isCurrent,
            """
            Messages have changed. Read them, then run: scripts/messages > \(Self.path)
            Added:
            \(added)
            Removed:
            \(removed)
            """
        )
    }

    @Test("Each message follows the rules for messages")
    func messagesFollowTheRules() throws {
        let lines = try Self.table().split(separator: "\n", omittingEmptySubsequences: false)
        try #require(lines.count > 1000)
        let findings = lines.enumerated().flatMap { index, line -> [Finding] in
            guard line.hasPrefix("    ") else { return [] }
            return problems(with: String(line.dropFirst(4))).map { problem in
                Finding(path: Self.path, line: index + 1, message: problem)
            }
        }
        expectNone(findings)
    }

    @Test(
        "The message rules find double spaces, small letters and retired words",
        arguments: [
            ("The row was deleted. Read it again.", 0),
            ("the row was deleted", 0),
            ("The row was deleted. \\(…) has another. 'id' is free. 3 are left.", 0),
            ("The row was deleted. verify(queryID:repair:) restores it.", 0),
            ("The row was deleted. read it again. insert it.", 2),
            ("The row  was deleted.", 1),
            ("The row was deleted .", 1),
            ("The tables:\\n  Todo", 0),
            ("Nobody reads the row.", 1),
        ]
    )
    func messageRulesCanFail(message: String, count: Int) {
        #expect(problems(with: message).count == count)
    }
}

/// Returns what is wrong with a message of the table.
///
/// A message may begin with a small letter, because it may follow another text, as in "The query cannot be expressed: ".
private func problems(with message: String) -> [String] {
    var problems = retiredWords(in: message.replacing("\\n", with: " "))
    if message.contains("  "), !message.contains("\\n") {
        problems.append("Two spaces: \(message)")
    }
    if message.hasSuffix(" .") || message.contains(" ,") {
        problems.append("A space before punctuation: \(message)")
    }
    for sentence in message.components(separatedBy: ". ").dropFirst() {
        let word = sentence.prefix { $0 != " " }
        if word.first?.isLowercase == true, !word.contains("(") {
            problems.append("A sentence begins with a small letter: \(sentence)")
        }
    }
    return problems
}
