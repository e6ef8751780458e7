// GlossaryTests: the glossary links each type to a file that declares it.

import Foundation
import Testing

struct GlossaryTests {
    @Test("The glossary links each type to a file that declares it")
    func glossaryLinksTypesToTheirFiles() throws {
        let files = try Repository.files()
        let glossary = try #require(files.first { $0.path == "docs/glossary.md" })
        #expect(typesInCode(of: glossary).count > 100)
        expectNone(wrongTypes(in: glossary, sources: files.filter { $0.isIn("Sources") }))
    }

    @Test(
        "The glossary rule finds types without a link and files that do not declare the type",
        arguments: [
            (
                "[`A`](../Sources/A.swift), [`A.B`](../Sources/A.swift); on a device [`C`](../Sources/C.swift)",
                0
            ),
            ("`A`", 1),
            ("[`A`](../Sources/A.swift), `C`", 1),
            ("[`A`](../Sources/C.swift)", 1),
            ("[`Gone`](../Sources/A.swift)", 1),
            ("[`A`](../Sources/Gone.swift)", 1),
            ("[`A`](A.swift)", 1),
            ("[`A.Gone`](../Sources/A.swift)", 1),
            ("[`d`](../Sources/A.swift)", 1),
            ("", 0),
        ]
    )
    func glossaryRuleCanFail(cell: String, count: Int) {
        let text =
            "| term | definition | in the code |\n|---|---|---|\n| **term** | `code` | \(cell) |"
        let sources = [
            SourceFile(
                path: "Sources/A.swift",
                text: "// struct Gone\nstruct A {\n    enum B { case b }\n    let d = 1\n}"
            ),
            SourceFile(path: "Sources/C.swift", text: "package protocol C<D>: Sendable {}"),
        ]
        let glossary = SourceFile(path: "docs/glossary.md", text: text)
        #expect(wrongTypes(in: glossary, sources: sources).count == count)
    }
}

/// A type in the last column of the glossary.
private struct GlossaryType {
    var line: Int
    var name: String
    /// The target of its link; nil without a link.
    var link: String?
}

/// Returns the code spans in the last column of each row.
private func typesInCode(of glossary: SourceFile) -> [GlossaryType] {
    glossary.lines.enumerated().flatMap { index, line -> [GlossaryType] in
        guard line.hasPrefix("| **"), let cell = line.components(separatedBy: " | ").last else {
            return []
        }
        // The parts with an odd index are code.
        let parts = cell.components(separatedBy: "`")
        return stride(from: 1, to: parts.count - 1, by: 2).map { place in
            let after = parts[place + 1]
            let isLink = parts[place - 1].hasSuffix("[") && after.hasPrefix("](")
            let link = isLink ? String(after.dropFirst(2).prefix { $0 != ")" }) : nil
            return GlossaryType(line: index + 1, name: parts[place], link: link)
        }
    }
}

private func wrongTypes(in glossary: SourceFile, sources: [SourceFile]) -> [Finding] {
    typesInCode(of: glossary).compactMap { type in
        let message: String
        if let link = type.link {
            let path = link.hasPrefix("../") ? String(link.dropFirst(3)) : ""
            let file = sources.first { $0.path == path }
            if let file, declares(type.name, in: file) { return nil }
            message = "\(link) is not a source file that declares '\(type.name)'."
        } else {
            message = "'\(type.name)' has no link to its source file."
        }
        return Finding(path: glossary.path, line: type.line, message: message)
    }
}

/// Whether a file declares a type; of a nested type such as `A.B`, the last part of the name counts.
private func declares(_ name: String, in file: SourceFile) -> Bool {
    let last = name.split(separator: ".").last ?? ""
    return file.code.contains { line in
        let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
        return zip(words, words.dropFirst()).contains { keyword, next in
            typeKeywords.contains(keyword) && next == last
        }
    }
}

private let typeKeywords: Set<Substring> = ["actor", "class", "enum", "protocol", "struct"]
