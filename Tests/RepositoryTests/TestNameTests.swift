// TestNameTests: every test has a display name that reads as a sentence.

import Foundation
import Testing

struct TestNameTests {
    /// The identifiers with which a display name may begin.
    ///
    /// Any other display name begins with a capital letter.
    static let identifiers: Set<String> = [
        "localizedCaseInsensitiveContains", "monitor.md", "protocol.md", "retryParked", "sync.md",
        "syncOnce", "tideline",
    ]

    @Test("Every test has a display name with a capital letter and without a final period")
    func testsAreSentences() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Tests") } + ownFiles()
        expectNone(files.flatMap(unfitNames))
        let names = files.flatMap(displayNames).compactMap(\.name)
        #expect(Self.identifiers.subtracting(names.map(firstWord)) == [], "not needed any longer")
    }

    @Test(
        "The name rule finds tests without a display name, and names that are not sentences",
        arguments: [
            ("@Test(\"A row is read\") func a() {}", 0),
            ("    @MainActor @Test(\"A row is read\", arguments: [1])", 0),
            ("@Test(\n    \"A row is read\",\n    arguments: [1]\n)", 0),
            ("@Test(\"syncOnce pulls a table\") func a() {}", 0),
            ("@Test(\"a row is read\") func a() {}", 1),
            ("@Test(\"syncTwice pulls a table\") func a() {}", 1),
            ("@Test(\n    \"a row is read\",\n    arguments: [1]\n)", 1),
            ("@Test(\"A row is read.\") func a() {}", 1),
            ("@Test(\"\") func a() {}", 1),
            ("@Test func a() {}", 1),
            ("@Test\nfunc a() {}", 1),
            ("@Test(arguments: [1])", 1),
            ("@Test(\n    arguments: [\"A\"]\n)", 1),
            ("@Test(.tags(.slow)) func a() {}", 1),
            ("let text = \"@Test func a() {}\"", 0),
            ("// @Test func a() {}", 0),
        ]
    )
    func nameRuleCanFail(text: String, count: Int) {
        #expect(unfitNames(SourceFile(path: "Tests/A.swift", text: text)).count == count)
    }

    /// Returns the files of this target, which `Repository.swiftFiles()` leaves out.
    private func ownFiles() throws -> [SourceFile] {
        let folder = Repository.root.appending(path: "Tests/RepositoryTests")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        return try names.filter { $0.hasSuffix(".swift") }.sorted().map { name in
            let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
            return SourceFile(path: "Tests/RepositoryTests/" + name, text: text)
        }
    }
}

/// Finds the tests of a file without a display name, and those whose name is not a sentence.
private func unfitNames(_ file: SourceFile) -> [Finding] {
    displayNames(file).compactMap { line, name in
        problem(with: name).map { Finding(path: file.path, line: line, message: $0) }
    }
}

/// Returns the line and the display name of each test of a file; nil if a test has no name.
func displayNames(_ file: SourceFile) -> [(line: Int, name: Substring?)] {
    file.code.indices.filter { file.code[$0].contains("@Test") }.map { index in
        (index + 1, displayName(at: index, in: file.lines))
    }
}

private func displayName(at index: Int, in lines: [Substring]) -> Substring? {
    guard let attribute = lines[index].ranges(of: "@Test(").first else { return nil }
    var arguments = lines[index][attribute.upperBound...]
    if arguments.isEmpty, index + 1 < lines.count {
        arguments = lines[index + 1].drop(while: \.isWhitespace)
    }
    return arguments.first == "\"" ? arguments.dropFirst().prefix { $0 != "\"" } : nil
}

private func problem(with name: Substring?) -> String? {
    guard let name, let first = name.first else {
        return "A test without a display name. Write a sentence that says what the test proves."
    }
    if !first.isUppercase && !TestNameTests.identifiers.contains(firstWord(name)) {
        return "A display name begins with a capital letter, or with an identifier that is "
            + "listed in TestNameTests.identifiers."
    }
    return name.last == "." ? "A display name ends without a period." : nil
}

private func firstWord(_ name: Substring) -> String {
    String(name.prefix { $0 != " " })
}
