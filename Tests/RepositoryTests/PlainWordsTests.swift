// PlainWordsTests: the share of prose lines that scripts/plain-words flags.

import Foundation
import Testing

@Suite struct PlainWordsTests {
    /// Runs scripts/plain-words in the repository.
    private func run(_ arguments: [String]) throws -> (code: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "scripts/plain-words"] + arguments
        process.currentDirectoryURL = Repository.root
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }

    private static let places = [
        "Sources", "docs", "README.md", "Examples", "scripts", "SECURITY.md", "CONTRIBUTING.md",
        "CHANGELOG.md",
    ]

    @Test("The script flags at most 0.5 percent of the lines of prose")
    func proseIsPlain() throws {
        let (code, output) = try run(["--percent", "0.5"] + Self.places)
        #expect(code == 0, "\(output)")
    }

    @Test("The script fails if the share of flagged lines is above the bound")
    func flaggedProseFails() throws {
        #expect(try run(["--percent", "0.01"] + Self.places).code == 1)
    }
}
