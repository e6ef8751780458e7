// Probe: a device in a separate process, which can be killed.

import Foundation
import Testing
import TidelineTestKit

struct Probe {
    private let workspace: Workspace
    private let server: URL
    let path: String

    init(_ workspace: Workspace, _ server: URL, store: String = "probe.sqlite") {
        self.workspace = workspace
        self.server = server
        path = workspace.path(store)
    }

    /// The store, opened again.
    var file: DatabaseFile {
        get throws { try DatabaseFile(path) }
    }

    /// The size of all files of the store together, in bytes; it grows with each write until a checkpoint.
    var bytesWritten: Int {
        let file = URL(filePath: path)
        let folder = file.deletingLastPathComponent().path
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasPrefix(file.lastPathComponent) }.reduce(0) { sum, name in
            var status = stat()
            return stat("\(folder)/\(name)", &status) == 0 ? sum + Int(status.st_size) : sum
        }
    }

    func start(_ words: String...) throws -> ChildProcess {
        try workspace.start(.probe, [path, server.absoluteString] + words)
    }

    /// Runs a command to its end.
    func run(_ words: String...) async throws {
        let finished = try await workspace.run(.probe, [path, server.absoluteString] + words)
        guard finished.code == 0 else {
            throw TestFailure("SyncProbe \(words) failed: \(finished.error)")
        }
    }

    /// Starts a command and kills it when a random number of bytes has passed through the proxy in front of the server.
    ///
    /// - Returns: 1, or 0 if the command finished first.
    func killed(
        _ word: String,
        at proxy: SlowProxy,
        bytes: ClosedRange<Int>,
        using random: inout SeededGenerator
    ) async throws -> Int {
        let child = try workspace.start(.probe, [path, proxy.url.absoluteString, word])
        proxy.after(bytes: Int.random(in: bytes, using: &random)) { child.send(SIGKILL) }
        switch try await child.wait() {
        case .signal(SIGKILL): return 1
        case .exit(0): return 0
        case let end: throw TestFailure("SyncProbe \(word): \(end) \(child.error)")
        }
    }
}

extension DatabaseFile {
    /// Whether an operation was sent without a response.
    func hasOperationInFlight() throws -> Bool {
        try integer(#"SELECT count(*) FROM "MS_TableOperations" WHERE "state" = 1"#) != 0
    }

    /// The id of the last operation ever queued.
    func lastOperation() throws -> Int64 {
        try integer(
            "SELECT seq FROM sqlite_sequence WHERE name = 'MS_TableOperations'"
        ) ?? 0
    }
}
