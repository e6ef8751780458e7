// DocumentTests: documents link to files that exist, show code that compiles, and are only about the
// product.

import Foundation
import Testing

struct DocumentTests {
    @Test("Links in documents lead to existing files") func documentsNameNoMissingFile() throws {
        let documents = try Repository.files().filter { $0.path.hasSuffix(".md") }
        expectNone(documents.flatMap { brokenLinks(in: $0, exists: Repository.exists) })
    }

    @Test(
        "The link rule finds links to missing files",
        arguments: [
            ("README.md", "See [here](docs/contributing/README.md).", 0),
            ("README.md", "See [here](docs/contributing/README.md#tests) and [there](#below).", 0),
            ("README.md", "See [here](docs/GONE.md) and ![this](gone.png).", 2),
            (
                "docs/A.md",
                "See [here](contributing/README.md), [up](../README.md \"Start\"), [down](docs/A.md).",
                1
            ),
            ("docs/A.md", "See [far](../../elsewhere/A.md).", 1),
            ("README.md", "See [site](https://example.org/a.md), [mail](mailto:a@example.org).", 0),
            ("README.md", "A name:\n[label]: docs/GONE.md", 1),
            ("README.md", "Not a link: `[a](gone.md)`.\n```\n[b](gone.md)\n```", 0),
            ("README.md", "See [a file](<docs/contributing/README.md>).", 0),
        ]
    )
    func linkRuleCanFail(path: String, text: String, count: Int) {
        let known: Set<String> = ["README.md", "docs/contributing/README.md"]
        let file = SourceFile(path: path, text: text)
        #expect(brokenLinks(in: file, exists: known.contains).count == count)
    }

    /// Each Swift block of the README is a region of a compiled file, between the lines
    /// `// README begins` and `// README ends`.
    @Test("Each Swift block of the README is compiled code")
    func readmeShowsCodeThatCompiles() throws {
        let files = try Repository.files()
        guard let readme = files.first(where: { $0.path == "README.md" }) else { return }
        let compiled = files.filter { $0.isIn("Examples", "Tests") && $0.path.hasSuffix(".swift") }
        expectNone(unknownBlocks(in: readme, regions: compiled.flatMap(readmeRegions)))
    }

    @Test(
        "The README rule finds blocks that are not compiled code",
        arguments: [
            ("```swift\nlet a = 1\n\nlet b = 2\n```", 0),
            ("```swift\nlet a = 1\nlet b = 2\n```", 1),
            ("```swift\nlet c = 1\n```\n```swift\nlet d = 1\n```", 2),
            ("```\nmake run\n```", 0),
        ]
    )
    func readmeRuleCanFail(readme: String, count: Int) {
        let test = """
            func a() {
                // README begins
                let a = 1

                let b = 2
                // README ends
            }
            """
        let regions = readmeRegions(SourceFile(path: "Tests/A.swift", text: test))
        let file = SourceFile(path: "README.md", text: readme)
        #expect(unknownBlocks(in: file, regions: regions).count == count)
    }

    @Test("The article about stores shows the store that passes the conformance suite")
    func articleShowsTheStoreThatIsChecked() throws {
        let files = try Repository.files()
        let store = files.filter { $0.isIn("Tests/TidelineTests/Store/Snapshot") }
        let regions = store.flatMap(readmeRegions)
        #expect(regions.count == 3)
        let article = try #require(files.first { $0.path.hasSuffix("docc/WritingAStore.md") })
        let blocks = regionsOfLines(article.lines, from: "```swift", to: "```").map(\.text)
        #expect(regions.filter { !blocks.contains($0) }.isEmpty)
    }

    @Test("No document mentions how the product is made") func onlyTheProductIsSpokenOf() throws {
        expectNone(try Repository.files().flatMap(wordsAboutTheMaking))
    }

    @Test(
        "The word rule finds words about the making of the product",
        arguments: [
            ("An AI wrote this.", 1),
            ("The assistants of the agent", 2),
            ("Fields such as User-Agent, user agent and userAgent", 0),
            ("Done in an earlier session.", 1),
            ("A session of HTTP, URLSession, one session per device, available", 0),
            ("See /work/main and ../shared/NOTES.md", 2),
            ("The helper reads a line; the container is available.", 0),
        ]
    )
    func wordRuleCanFail(text: String, count: Int) {
        #expect(wordsAboutTheMaking(SourceFile(path: "A.md", text: text)).count == count)
    }
}

// MARK: - Links

private func brokenLinks(in file: SourceFile, exists: (String) -> Bool) -> [Finding] {
    links(in: file.lines).compactMap { line, link in
        guard let path = resolve(link, from: file.path) else {
            let message = "\(link) leads out of the repository."
            return Finding(path: file.path, line: line, message: message)
        }
        guard !exists(path) else { return nil }
        return Finding(path: file.path, line: line, message: "\(path) does not exist.")
    }
}

/// Returns the links to files with their lines, without links in code and URLs with a scheme.
private func links(in lines: [Substring]) -> [(line: Int, link: String)] {
    var links: [(line: Int, link: String)] = []
    for (index, line) in proseLines(lines).enumerated() {
        var targets = line.components(separatedBy: "](").dropFirst().map { rest in
            rest.prefix { $0 != ")" }
        }
        if line.hasPrefix("["), let definition = line.range(of: "]: ") {
            targets.append(line[definition.upperBound...])
        }
        for target in targets {
            let words = target.split(whereSeparator: \.isWhitespace)
            let path = words.first?.trimmingCharacters(in: ["<", ">"]).prefix { $0 != "#" } ?? ""
            if !path.isEmpty, !path.contains(":") {
                links.append((index + 1, path.removingPercentEncoding ?? String(path)))
            }
        }
    }
    return links
}

/// Returns the lines of a document without code blocks and inline code.
func proseLines(_ lines: [Substring]) -> [String] {
    var isCode = false
    return lines.map { line in
        let isFence = line.drop(while: \.isWhitespace).hasPrefix("```")
        if isFence { isCode.toggle() }
        guard !isFence, !isCode else { return "" }
        let parts = line.split(separator: "`", omittingEmptySubsequences: false)
        return parts.enumerated().filter { $0.offset % 2 == 0 }.map(\.element).joined()
    }
}

/// Returns the target of a link in `path`, from the root; nil if it is above the root.
private func resolve(_ link: String, from path: String) -> String? {
    var parts = link.hasPrefix("/") ? [] : path.split(separator: "/").dropLast()
    for part in link.split(separator: "/") where part != "." {
        if part != ".." {
            parts.append(part)
        } else if parts.popLast() == nil {
            return nil
        }
    }
    return parts.joined(separator: "/")
}

// MARK: - Code in the README

private func unknownBlocks(in readme: SourceFile, regions: [String]) -> [Finding] {
    regionsOfLines(readme.lines, from: "```swift", to: "```").filter { block in
        !regions.contains(block.text)
    }
    .map { block in
        let message = "This code is in no region 'README begins' of Examples or Tests."
        return Finding(path: readme.path, line: block.line, message: message)
    }
}

private func readmeRegions(_ file: SourceFile) -> [String] {
    regionsOfLines(file.lines, from: "// README begins", to: "// README ends").map(\.text)
}

/// Returns the texts between two marker lines, without their common indentation.
private func regionsOfLines(
    _ lines: [Substring],
    from begin: String,
    to end: String
) -> [(line: Int, text: String)] {
    var regions: [(line: Int, text: String)] = []
    var open: (line: Int, lines: [Substring])?
    for (index, line) in lines.enumerated() {
        let marker = line.trimmingCharacters(in: .whitespaces)
        if let region = open, marker == end {
            let indents = region.lines.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }
            let texts = region.lines.map { $0.dropFirst(indents.min() ?? 0) }
            regions.append((region.line, texts.joined(separator: "\n")))
            open = nil
        } else if open != nil {
            open?.lines.append(line)
        } else if marker == begin {
            open = (index + 1, [])
        }
    }
    return regions
}

// MARK: - Words

/// Returns the words of a text in lower case, in order, without HTTP's "user agent".
private let wordsOfTheMaking: [[String]] = [
    ["agent"], ["agents"], ["subagent"], ["assistant"], ["assistants"], ["llm"], ["llms"],
    ["language", "model"], ["chatgpt"], ["openai"], ["anthropic"], ["claude"], ["copilot"], ["ceo"],
    ["work", "session"], ["coding", "session"], ["earlier", "session"], ["previous", "session"],
    ["session", "of", "work"], ["helper", "session"], ["the", "brief"],
]

private let pathsOfTheMaking = ["/work/", "../shared"]

private func wordsAboutTheMaking(_ file: SourceFile) -> [Finding] {
    file.lines.enumerated().flatMap { index, line -> [Finding] in
        let words = line.split { !$0.isASCII || !$0.isLetter }
        let lowered = words.map { $0.lowercased() }
        var found = words.contains("AI") ? ["AI"] : []
        for phrase in wordsOfTheMaking {
            for start in lowered.indices where lowered[start...].starts(with: phrase) {
                let isUserAgent = phrase[0].hasPrefix("agent") && start > 0
                if !(isUserAgent && lowered[start - 1] == "user") {
                    found.append(phrase.joined(separator: " "))
                }
            }
        }
        found += pathsOfTheMaking.filter { line.contains($0) }
        return found.map { word in
            let message = "'\(word)' speaks of how the project is made, not of the product."
            return Finding(path: file.path, line: index + 1, message: message)
        }
    }
}
