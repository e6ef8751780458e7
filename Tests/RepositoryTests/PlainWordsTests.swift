// PlainWordsTests: the share of prose lines that scripts/plain-words flags.

import Foundation
import Testing

@Suite struct PlainWordsTests {
    private static let places = [
        "Sources", "docs", "README.md", "Examples", "scripts", "SECURITY.md", "CONTRIBUTING.md",
        "CHANGELOG.md", "deploy",
    ]

    @Test("The script flags at most 0.5 percent of the lines of prose")
    func proseIsPlain() throws {
        let (code, output) = try Repository.run(
            "scripts/plain-words",
            ["--percent", "0.5"] + Self.places
        )
        #expect(code == 0, "\(output)")
    }

    @Test("The script finds words in comments, in any case, and in strings of several lines")
    func flaggedProseFails() throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "plain-words-\(ProcessInfo.processInfo.processIdentifier)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "A.swift")
        for (text, count) in Self.examples {
            try text.write(to: file, atomically: true, encoding: .utf8)
            let (code, output) = try Repository.run(
                "scripts/plain-words",
                ["--max", "0", file.path]
            )
            #expect(code == (count > 0 ? 1 : 0), "\(text)")
            #expect(output.contains("\(count) of "), "\(text)\n\(output)")
        }
    }

    /// Swift texts, and how many of their lines the script flags.
    private static let examples = [
        ("// The server mends the table.", 1),
        ("/// Nobody reads the row.\n// Mend the table. Begin anew.", 2),
        ("let a = \"Somebody has changed the row.\"", 1),
        ("let a = \"Nobody reads it.\"", 0),
        ("let a = \"Nobody reads\"\n    + \" it. Check the configuration.\"", 1),
        ("let a = \"\"\"\n    Nobody reads the row of \\(table).\n    \"\"\"", 1),
        ("let a = \"\"\"\n    The row is read\\\n     by nobody else.\n    \"\"\"", 1),
        ("let a = \"The row \\(nobody(\"1\")) is read by its caller.\"", 0),
        ("let nobody = mend(\"row\")", 0),
    ]
}
