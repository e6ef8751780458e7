// DiagramTests: the Mermaid diagrams of the documents name types and states that exist.

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
        ]
    )
    func diagramRuleCanFail(diagram: String, count: Int) {
        let code = "enum PushMachine {\n    case idle\n    case sending(Int)\n}\nclass LocalStore"
        let declared = DeclaredNames([SourceFile(path: "Sources/TidelineCore/A.swift", text: code)])
        let text = "GoneBefore\n```mermaid\n\(diagram)\n```\nGoneAfter"
        let document = SourceFile(path: "docs/a.md", text: text)
        #expect(unknownNames(in: document, declared: declared).count == count)
    }
}

/// The names of the types, the cases of enums and the targets of the sources.
private struct DeclaredNames {
    var types: Set<String> = []
    var cases: Set<String> = []

    init(_ files: [SourceFile]) {
        for file in files {
            types.insert(String(file.path.split(separator: "/")[1]))
            for line in file.code {
                let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
                for (keyword, name) in zip(words, words.dropFirst()) {
                    if kindsOfTypes.contains(keyword) { types.insert(String(name)) }
                    if keyword == "case" { cases.insert(String(name)) }
                }
            }
        }
    }
}

private let kindsOfTypes: Set<Substring> = ["actor", "class", "enum", "protocol", "struct"]

/// Names of products that look like names of types.
private let products: Set<Substring> = ["OpenSSL", "PostgreSQL", "SQLite"]

/// A name in a diagram, with its line in the document.
private struct DiagramName {
    var line: Int
    var name: String
    var isState: Bool
}

/// Returns the types that the diagrams of a document name, and the ends of arrows between states.
private func diagramNames(in file: SourceFile) -> [DiagramName] {
    var names: [DiagramName] = []
    var isDiagram = false
    var hasStates = false
    for (index, line) in file.lines.enumerated() {
        let text = line.trimmingCharacters(in: .whitespaces)
        if text.hasPrefix("```") {
            isDiagram = text == "```mermaid"
            hasStates = false
        }
        guard isDiagram else { continue }
        if text.hasPrefix("stateDiagram") { hasStates = true }
        let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
        for word in words where isTypeName(word) {
            names.append(DiagramName(line: index + 1, name: String(word), isState: false))
        }
        guard hasStates, let arrow = text.range(of: "-->") else { continue }
        for end in [text[..<arrow.lowerBound], text[arrow.upperBound...]] {
            let name = end.prefix { $0 != ":" }.trimmingCharacters(in: .whitespaces)
            if name != "[*]" {
                names.append(DiagramName(line: index + 1, name: name, isState: true))
            }
        }
    }
    return names
}

/// Whether a word is written like `PushMachine` or `HTTPServer`.
private func isTypeName(_ word: Substring) -> Bool {
    guard let first = word.first, first.isUppercase, !products.contains(word) else { return false }
    return word.dropFirst().contains(where: \.isUppercase) && word.contains(where: \.isLowercase)
}

private func unknownNames(in file: SourceFile, declared: DeclaredNames) -> [Finding] {
    diagramNames(in: file).filter { found in
        !(found.isState ? declared.cases : declared.types).contains(found.name)
    }
    .map { found in
        let message = "There is no \(found.isState ? "state" : "type") '\(found.name)'."
        return Finding(path: file.path, line: found.line, message: message)
    }
}
