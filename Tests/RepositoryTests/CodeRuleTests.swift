// CodeRuleTests: what the code may not contain, with the exceptions and their reasons.

import Foundation
import Testing

struct CodeRuleTests {
    /// The files that may read the clock, make ids, draw random numbers or sleep, and why.
    ///
    /// Everything else is handed an environment value, so that tests and seeds decide.
    static let readsTheWorld: [String: String] = [:]

    /// The files of over `linesMax` lines, and why they are not two.
    static let longFiles: [String: String] = [:]

    /// No file of the sources is longer; new files stay under `linesWanted`.
    static let linesMax = 450
    static let linesWanted = 300

    @Test func onlyTheEnvironmentReadsTheClock() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        let readers = files.filter { !readingTheWorld($0).isEmpty }.map(\.path)
        expectNone(files.filter { Self.readsTheWorld[$0.path] == nil }.flatMap(readingTheWorld))
        expectNone(staleEntries(of: Self.readsTheWorld, in: readers))
    }

    @Test(arguments: [
        ("let now = Date()", 1),
        ("let now = Date(timeIntervalSince1970: 0)", 0),
        ("let now: Date = .now", 1),
        ("let now = Date.now", 1),
        ("let nowhere = place.nowhere", 0),
        ("let id = UUID()", 1),
        ("let id = value.asUUID()", 0),
        ("let die = Int.random(in: 1...6)", 1),
        ("let die = generator.randomElement()", 0),
        ("try await Task.sleep(for: .seconds(1))", 1),
        ("let clock = ContinuousClock()", 1),
        ("clock_gettime(CLOCK_MONOTONIC, &time)", 1),
        ("/// The default is `Date()`.", 0),
        (#"let text = "Date()""#, 0),
        ("let now = Date()\nlet id = UUID()", 2),
    ])
    func clockRuleCanFail(text: String, count: Int) {
        #expect(readingTheWorld(SourceFile(path: "Sources/A.swift", text: text)).count == count)
    }

    @Test func nothingIsLeftOver() throws {
        expectNone(try Repository.swiftFiles().flatMap(leftovers))
    }

    @Test(arguments: [
        ("Sources/Tideline/A.swift", "// FIXME: later", 1),
        ("Sources/Tideline/A.swift", "// TODO", 1),
        ("Tests/TidelineTests/A.swift", "// XXX", 1),
        ("Sources/Tideline/A.swift", #"let name = "TodoItem", key = "TODO_SERVER""#, 0),
        ("Sources/Tideline/A.swift", "print(row)", 1),
        ("Sources/Tideline/A.swift", "debugPrint(row)\ndump(row)", 2),
        ("Sources/Tideline/A.swift", "/// print(row)", 0),
        ("Sources/Tideline/A.swift", "blueprint(row)", 0),
        ("Sources/TidelineCommand/A.swift", "print(row)", 0),
        ("Examples/Todo/A.swift", "print(row)", 0),
        ("Sources/Tideline/A.swift", "let row = try! read()", 1),
        ("Tests/TidelineTests/A.swift", "let row = try! read()", 0),
        ("Sources/Tideline/A.swift", "fatalError()", 1),
        ("Sources/Tideline/A.swift", "final class A: @unchecked Sendable {", 1),
        ("Sources/Tideline/A.swift", "/// A box.\nfinal class A: @unchecked Sendable {", 1),
        (
            "Sources/Tideline/A.swift",
            "/// `@unchecked Sendable`: one thread only.\n@frozen\nfinal class A: @unchecked Sendable",
            0
        ),
        ("Sources/Tideline/A.swift", "nonisolated(unsafe) var a = 1", 1),
        (
            "Sources/Tideline/A.swift",
            "// Written once, before any.\nnonisolated(unsafe) var a = 1", 0
        ),
    ])
    func leftoverRuleCanFail(path: String, text: String, count: Int) {
        #expect(leftovers(SourceFile(path: path, text: text)).count == count)
    }

    @Test func everyFileBeginsWithItsRole() throws {
        expectNone(try Repository.swiftFiles().flatMap(missingRole))
    }

    @Test(arguments: [
        ("// A: what it is.\n", 0),
        ("import Foundation\n", 1),
        ("//\n// A.swift\n", 1),
        ("", 1),
    ])
    func roleRuleCanFail(text: String, count: Int) {
        #expect(missingRole(SourceFile(path: "Sources/A.swift", text: text)).count == count)
    }

    @Test func filesAreShort() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        let long = files.filter { $0.lineCount > Self.linesMax }.map(\.path)
        expectNone(tooLong(files, allowed: Set(Self.longFiles.keys)))
        expectNone(staleEntries(of: Self.longFiles, in: long))
    }

    @Test func lengthRuleCanFail() {
        let files = [150, 301, 450, 451, 600].map { count in
            SourceFile(path: "\(count)", text: String(repeating: "//\n", count: count))
        }
        #expect(tooLong(files, allowed: ["600"]).map(\.path) == ["451", "301", "450"])
        #expect(tooLong(files, allowed: ["451", "600"]).isEmpty)
        #expect(
            staleEntries(of: ["451": "a table", "9": "gone"], in: ["451"]).map(\.path) == ["9"]
        )
    }
}

/// What makes a run differ from the run before.
private let worldReads = [
    "Date()", "Date.now", ": Date = .now", "UUID()", ".random(", "SystemRandomNumberGenerator",
    "Task.sleep", "Thread.sleep", "usleep(", "ContinuousClock", "SuspendingClock",
    "DispatchTime.now",
    "DispatchWallTime.now", "systemUptime", "clock_gettime", "gettimeofday",
]

private func readingTheWorld(_ file: SourceFile) -> [Finding] {
    occurrences(of: worldReads, in: file) { found in
        "\(found) outside the environment. Take it from the environment value, or add the file, "
            + "with the reason, to CodeRuleTests.readsTheWorld."
    }
}

private func leftovers(_ file: SourceFile) -> [Finding] {
    var findings = unexplained("@unchecked Sendable", naming: "Sendable", in: file)
    findings += unexplained("nonisolated(unsafe)", naming: "", in: file)
    for (index, line) in file.lines.enumerated() {
        for mark in ["FIXME", "TODO", "XXX"] where contains(line, mark) {
            let message = "\(mark) is left over. Do it, or file an issue."
            findings.append(Finding(path: file.path, line: index + 1, message: message))
        }
    }
    guard !file.isIn("Tests", "Benchmarks") else { return findings }
    findings += occurrences(of: ["try!", "fatalError("], in: file) { found in
        "\(found) Throw for the world's mistakes, precondition for ours, with a message."
    }
    guard !file.isIn("Sources/TidelineCommand", "Examples") else { return findings }
    findings += occurrences(of: ["print(", "debugPrint(", "dump("], in: file) { found in
        "\(found)…) in a library. Log it, or return it."
    }
    return findings
}

/// Places of `code` that have no comment directly above which names `word`.
private func unexplained(_ code: String, naming word: String, in file: SourceFile) -> [Finding] {
    let lines = file.lines
    return occurrences(of: [code], in: file) { "\($0) without a comment above that proves it." }
        .filter { finding in
            let above = lines[..<(finding.line - 1)].reversed()
                .map { $0.drop(while: \.isWhitespace) }
                .drop { $0.hasPrefix("@") }
            let comment = above.prefix { $0.hasPrefix("//") }
            return comment.isEmpty || !comment.joined().contains(word) && !word.isEmpty
        }
}

private func missingRole(_ file: SourceFile) -> [Finding] {
    let first = file.lines.first ?? ""
    let hasRole = first.hasPrefix("// ") && first.contains(where: \.isLetter)
    guard !hasRole else { return [] }
    let message = "The first line is not a comment that tells the role of the file."
    return [Finding(path: file.path, message: message)]
}

/// The files over the limit; where there are any, the ones that come near it too.
private func tooLong(_ files: [SourceFile], allowed: Set<String>) -> [Finding] {
    let long = files.filter { $0.lineCount > CodeRuleTests.linesWanted }
        .filter { !allowed.contains($0.path) }
    let over = long.filter { $0.lineCount > CodeRuleTests.linesMax }
    guard !over.isEmpty else { return [] }
    let near = long.filter { $0.lineCount <= CodeRuleTests.linesMax }
    return over.map { file in
        let message = "\(file.lineCount) lines; the limit is \(CodeRuleTests.linesMax). Split it."
        return Finding(path: file.path, line: file.lineCount, message: message)
    }
        + near.map { file in
            let message = "\(file.lineCount) lines; wanted are \(CodeRuleTests.linesWanted)."
            return Finding(path: file.path, line: file.lineCount, message: message)
        }
}

/// Exceptions that nothing needs any more, so that the tables stay true.
private func staleEntries(of table: [String: String], in needed: [String]) -> [Finding] {
    table.keys.filter { !needed.contains($0) }.sorted().map { path in
        Finding(path: path, message: "The exception for this file is not needed. Remove it.")
    }
}

/// Where the code of a file, not its comments and texts, contains one of `patterns`.
private func occurrences(
    of patterns: [String],
    in file: SourceFile,
    message: (String) -> String
) -> [Finding] {
    let code = CodeScanner.code(of: file.text)
    let present = patterns.filter { code.contains($0) }
    guard !present.isEmpty else { return [] }
    var findings: [Finding] = []
    let lines = code.split(separator: "\n", omittingEmptySubsequences: false)
    for (index, line) in lines.enumerated() {
        for pattern in present where contains(line, pattern) {
            findings.append(
                Finding(path: file.path, line: index + 1, message: message(pattern))
            )
        }
    }
    return findings
}

/// Whether `line` contains `pattern` as a whole: an identifier that only ends or begins with it
/// does not count.
private func contains(_ line: Substring, _ pattern: String) -> Bool {
    func isPart(_ character: Character?) -> Bool {
        character.map { $0.isLetter || $0.isNumber || $0 == "_" } ?? false
    }
    return line.ranges(of: pattern).contains { range in
        let before = line[..<range.lowerBound].last
        let after = line[range.upperBound...].first
        return !(isPart(pattern.first) && isPart(before))
            && !(isPart(pattern.last) && isPart(after))
    }
}

extension SourceFile {
    fileprivate var lineCount: Int { lines.count - (text.hasSuffix("\n") ? 1 : 0) }
}
