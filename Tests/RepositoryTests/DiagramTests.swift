// DiagramTests: the Mermaid diagrams of the documents name types and states that exist.
//
// The states of a diagram are cases in the files of the types that the paragraph above it names in code.

import Foundation
import Testing

struct DiagramTests {
    @Test("Diagrams name types and states that exist")
    func diagramsNameWhatExists() throws {
        let files = try Repository.files()
        let declared = DeclaredNames(files.filter { $0.isIn("Sources") })
        let documents = files.filter { $0.isIn("docs") && $0.path.hasSuffix(".md") }
        #expect(documents.flatMap(diagramNames).count > 50)
        expectNone(documents.flatMap { unknownNames(in: $0, declared: declared) })
    }

    @Test(
        "The diagram rule finds names that are not declared in the code",
        arguments: [
            ("flowchart LR\n    TidelineCore --> PushMachine & LocalStore", 0),
            ("flowchart LR\n    TidelineGone --> PushMachine & PostgreSQL", 1),
            ("sequenceDiagram\n    PushMachine->>LocalStore: store rows, If-Match, POST", 0),
            ("sequenceDiagram\n    PushMachine->>GoneStore: send to GoneType", 2),
            ("stateDiagram-v2\n    [*] --> idle\n    idle --> sending: start", 0),
            ("stateDiagram-v2\n    idle --> gone: start --> sending\n    gone --> [*]", 2),
            ("stateDiagram-v2\n    idle --> other: a case of another type", 1),
            ("stateDiagram-v2\n    idle --> last: a case in another file of the type", 0),
        ]
    )
    func diagramRuleCanFail(diagram: String, count: Int) {
        let code = "enum PushMachine {\n    case idle\n    case sending(Int)\n}\nclass LocalStore"
        let declared = DeclaredNames([
            SourceFile(path: "Sources/TidelineCore/A.swift", text: code),
            SourceFile(path: "Sources/TidelineCore/B.swift", text: "enum B {\n    case other\n}"),
            SourceFile(path: "Sources/TidelineCore/PushMachine+C.swift", text: "    case last"),
        ])
        let text =
            "`B` and GoneBefore\n\nThe states of\n`PushMachine`:\n\n```mermaid\n\(diagram)\n```\nGoneAfter"
        let document = SourceFile(path: "docs/a.md", text: text)
        #expect(unknownNames(in: document, declared: declared).count == count)
    }
}

/// The names of the types and the targets of the sources, and the cases in the files of each type.
private struct DeclaredNames {
    var types: Set<String> = []
    var cases: [String: Set<String>] = [:]

    init(_ files: [SourceFile]) {
        for file in files {
            let path = file.path.split(separator: "/")
            types.insert(String(path[1]))
            // The extension of a type is in Type+Aspect.swift.
            var declared: Set = [String(path[path.count - 1].prefix { $0 != "+" && $0 != "." })]
            var cases: Set<String> = []
            for line in file.code {
                let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
                for (keyword, name) in zip(words, words.dropFirst()) {
                    if kindsOfTypes.contains(keyword) { declared.insert(String(name)) }
                    if keyword == "case" { cases.insert(String(name)) }
                }
            }
            for type in declared { self.cases[type, default: []].formUnion(cases) }
            types.formUnion(declared)
        }
    }

    /// Whether the name of a type exists, or that of a state in a file of one of its owners.
    func contains(_ found: DiagramName) -> Bool {
        guard let owners = found.owners else { return types.contains(found.name) }
        return owners.contains { cases[$0]?.contains(found.name) == true }
    }
}

private let kindsOfTypes: Set<Substring> = ["actor", "class", "enum", "protocol", "struct"]

/// Names of products that look like names of types.
private let products: Set<Substring> = ["OpenSSL", "PostgreSQL", "SQLite"]

/// A name in a diagram, with its line in the document.
private struct DiagramName {
    var line: Int
    var name: String
    /// The types that the paragraph above the diagram names, for a state; nil for a type.
    var owners: [String]?
}

/// Returns the types that the diagrams of a document name, and the ends of arrows between states.
private func diagramNames(in file: SourceFile) -> [DiagramName] {
    var names: [DiagramName] = []
    var isDiagram = false
    var owners: [String]?
    for (index, line) in file.lines.enumerated() {
        let text = line.trimmingCharacters(in: .whitespaces)
        if text.hasPrefix("```") {
            isDiagram = text == "```mermaid"
            owners = nil
        }
        guard isDiagram else { continue }
        if text.hasPrefix("stateDiagram") { owners = typesInCode(above: index - 1, in: file) }
        let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
        for word in words where isTypeName(word) {
            names.append(DiagramName(line: index + 1, name: String(word)))
        }
        guard let owners, let arrow = text.range(of: "-->") else { continue }
        for end in [text[..<arrow.lowerBound], text[arrow.upperBound...]] {
            let name = end.prefix { $0 != ":" }.trimmingCharacters(in: .whitespaces)
            if name != "[*]" {
                names.append(DiagramName(line: index + 1, name: name, owners: owners))
            }
        }
    }
    return names
}

/// Returns the types that the paragraph above a line names in code spans.
private func typesInCode(above index: Int, in file: SourceFile) -> [String] {
    let paragraph = file.lines[..<index].reversed().drop { $0.isEmpty }.prefix { !$0.isEmpty }
    return paragraph.flatMap { line in
        line.matches(of: /`(\w+)`/).map { $0.output.1 }.filter(isTypeName).map(String.init)
    }
}

/// Whether a word is written like `PushMachine` or `HTTPServer`.
private func isTypeName(_ word: Substring) -> Bool {
    guard let first = word.first, first.isUppercase, !products.contains(word) else { return false }
    return word.dropFirst().contains(where: \.isUppercase) && word.contains(where: \.isLowercase)
}

private func unknownNames(in file: SourceFile, declared: DeclaredNames) -> [Finding] {
    diagramNames(in: file).filter { !declared.contains($0) }.map { found in
        let owners = found.owners.map { "state of \($0.joined(separator: " or "))" }
        let message = "There is no \(owners ?? "type") '\(found.name)'."
        return Finding(path: file.path, line: found.line, message: message)
    }
}
