// Repository, SourceFile, Finding: the files that the rules read, and the findings that they report.
//
// A rule is a pure function from text to findings. Each rule is tested with broken examples, to
// show that it can fail, and is then applied to the files of this repository.

import Foundation
import Testing

/// A violation of a rule.
struct Finding: Hashable, CustomStringConvertible {
    var path: String
    var line = 1
    var message: String

    var description: String { "\(path):\(line): \(message)" }
}

/// A text file, with its path from the root of the repository.
struct SourceFile {
    let path: String
    let lines: [Substring]

    /// The lines of a Swift file without comments and string literals; none for other files.
    let code: [Substring]

    init(path: String, text: String) {
        self.path = path
        lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        code =
            path.hasSuffix(".swift")
            ? CodeScanner.code(of: text).split(separator: "\n", omittingEmptySubsequences: false)
            : []
    }

    /// Whether the file is in one of these folders, which are paths from the root without a final slash.
    func isIn(_ folders: String...) -> Bool {
        folders.contains { path.hasPrefix($0 + "/") }
    }
}

enum Repository {
    static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The folders that these tests read; others, such as `.build`, are ignored.
    private static let folders = [
        ".ci", "Benchmarks", "Examples", "Fuzz/Sources/fuzz", "Fuzz/Targets", "Sources", "Tests",
        "deploy", "docs", "scripts",
    ]

    private static let binaryTypes: Set<String> = ["db", "png", "sqlite"]

    /// All Swift files except those of this target, which quotes forbidden code.
    static func swiftFiles() throws -> [SourceFile] {
        try files().filter { $0.path.hasSuffix(".swift") }
    }

    /// All text files of the project except those of this target and the license.
    static func files() throws -> [SourceFile] {
        try read.get()
    }

    /// The files, read once for all rules.
    private static let read = Result { try readFiles() }

    private static func readFiles() throws -> [SourceFile] {
        let top = try FileManager.default.contentsOfDirectory(
            at: root,
            includingPropertiesForKeys: [.isRegularFileKey],
            options: .skipsHiddenFiles
        )
        var files = try top.compactMap(sourceFile)
        for folder in folders {
            let found = FileManager.default.enumerator(
                at: root.appending(path: folder),
                includingPropertiesForKeys: [.isRegularFileKey],
                options: .skipsHiddenFiles
            )
            while let url = found?.nextObject() as? URL {
                if let file = try sourceFile(url) {
                    files.append(file)
                }
            }
        }
        try #require(files.count > 20, "The files of the repository were not found at \(root).")
        return files.sorted { $0.path < $1.path }
    }

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }

    /// Runs a Python script in the repository; returns its exit code and its output.
    static func run(
        _ script: String,
        _ arguments: [String] = []
    ) throws -> (code: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", script] + arguments
        process.currentDirectoryURL = root
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }

    private static func sourceFile(_ url: URL) throws -> SourceFile? {
        let values = try url.resourceValues(forKeys: [.isRegularFileKey])
        guard values.isRegularFile == true, !binaryTypes.contains(url.pathExtension) else {
            return nil
        }
        let absolute = url.standardizedFileURL.path
        let path = absolute.dropFirst(root.standardizedFileURL.path.count).drop { $0 == "/" }
        guard !path.hasPrefix("Tests/RepositoryTests/"), path != "LICENSE",
            let text = String(bytes: try Data(contentsOf: url), encoding: .utf8)
        else { return nil }
        return SourceFile(path: String(path), text: text)
    }
}

/// Fails the running test with one line per finding, in a format that editors recognize.
func expectNone(
    _ findings: [Finding],
    sourceLocation: SourceLocation = #_sourceLocation
) {
    guard !findings.isEmpty else { return }
    let list = findings.map(\.description).joined(separator: "\n")
    Issue.record("\(findings.count) found:\n\(list)", sourceLocation: sourceLocation)
}
