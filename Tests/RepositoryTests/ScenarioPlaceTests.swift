// ScenarioPlaceTests: the tests that docs/scenarios.md names for each scenario exist.

import Foundation
import Testing

struct ScenarioPlaceTests {
    @Test("Each test named in the scenario document exists") func everyPlaceIsATest() throws {
        let files = try Repository.files()
        let document = try #require(files.first { $0.path == "docs/scenarios.md" })
        let tests = files.filter { $0.isIn("Tests") && $0.path.hasSuffix(".swift") }
        #expect(document.lines.flatMap(places).count > 100)
        expectNone(missingPlaces(in: document, tests: tests))
    }

    @Test(
        "The scenario rule finds names of missing or ambiguous tests",
        arguments: [
            ("| a | `PushTests/works` |", 0),
            ("| a | `PushTests/works`, then `Other.PushTests/works` |", 0),
            ("| a | `PushTests/is`, `PullTests/works` |", 2),
            ("| a | `Sync.PullTests/works` |", 1),
            ("| a | `PushTests/helps` |", 1),
            ("| a | `QueueTests/all` |", 0),
            ("| a | `SameTests/one` |", 1),
            ("| a | `Sync.SameTests/one` |", 0),
            ("| a | no equivalent: `/tables/x` and `a` |\nBelow is `GoneTests/gone`.", 0),
        ]
    )
    func placeRuleCanFail(text: String, count: Int) {
        let push =
            "struct PushTests {\n    @Test(arguments: [1])\n    func works() {}\n    func helps() {}\n}"
        let same = "@Suite struct SameTests {\n    @Test func one() {}\n}"
        let tests = [
            SourceFile(path: "Tests/Other/A.swift", text: push),
            SourceFile(path: "Tests/Sync/QueueTests.swift", text: "@Test func all() {}"),
            SourceFile(path: "Tests/Sync/B.swift", text: same),
            SourceFile(path: "Tests/Other/B.swift", text: same),
        ]
        let document = SourceFile(path: "docs/scenarios.md", text: text)
        #expect(missingPlaces(in: document, tests: tests).count == count)
    }
}

/// A test as a document names it; without a target if only one target has the suite.
private struct Place: Hashable {
    var target: Substring?
    var suite: Substring
    var test: Substring
}

private func missingPlaces(in document: SourceFile, tests: [SourceFile]) -> [Finding] {
    var targets: [Place: Set<Substring>] = [:]
    for file in tests {
        let target = file.path.split(separator: "/")[1]
        for place in declaredPlaces(in: file) { targets[place, default: []].insert(target) }
    }
    return document.lines.enumerated().flatMap { index, line in
        places(in: line).compactMap { place in
            let found = targets[Place(suite: place.suite, test: place.test)] ?? []
            let isThere = place.target.map(found.contains) ?? (found.count == 1)
            guard !isThere else { return nil }
            let message =
                "\(place.suite)/\(place.test) is "
                + (found.isEmpty || place.target != nil ? "not a test." : "in several targets.")
            return Finding(path: document.path, line: index + 1, message: message)
        }
    }
}

/// Returns the tests that a line of a table names.
private func places(in line: Substring) -> [Place] {
    guard line.hasPrefix("|") else { return [] }
    return line.matches(of: /`(?:(\w+)\.)?(\w+)\/(\w+)`/).map {
        Place(target: $0.output.1, suite: $0.output.2, test: $0.output.3)
    }
}

/// Returns the tests of a file, under each of its types and under the name of the file.
private func declaredPlaces(in file: SourceFile) -> [Place] {
    var suites: Set = [file.path.split(separator: "/").last?.dropLast(".swift".count) ?? ""]
    var tests: [Substring] = []
    var isTest = false
    for line in file.code {
        let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
        for (word, name) in zip(words, words.dropFirst()) {
            if kindsOfSuites.contains(word) { suites.insert(name) }
            if word == "Test" { isTest = true }
            if word == "func", isTest {
                tests.append(name)
                isTest = false
            }
        }
        if words.last == "Test" { isTest = true }
    }
    return suites.flatMap { suite in tests.map { Place(suite: suite, test: $0) } }
}

private let kindsOfSuites: Set<Substring> = ["actor", "class", "enum", "extension", "struct"]
