// Probe: a device in a process of its own, which can be killed.

import Foundation
import Testing

struct Probe {
    private let workspace: Workspace
    private let server: URL
    let path: String

    init(_ workspace: Workspace, _ server: URL, store: String = "probe.sqlite") {
        self.workspace = workspace
        self.server = server
        path = workspace.path(store)
    }

    /// The store, opened anew.
    var file: DatabaseFile {
        get throws { try DatabaseFile(path) }
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

    /// Starts a command and kills it at a random moment, so many times.
    ///
    /// - Returns: How often the kill came before the end.
    func killed(_ words: String..., times: Int) async throws -> Int {
        var kills = 0
        for _ in 0..<times {
            let child = try workspace.start(.probe, [path, server.absoluteString] + words)
            try await Task.sleep(for: .milliseconds(Int.random(in: 30...160)))
            switch try await child.destroy() {
            case .signal(SIGKILL): kills += 1
            case .exit(0): break
            case let end: throw TestFailure("SyncProbe \(words): \(end) \(child.error)")
            }
        }
        return kills
    }
}

extension DatabaseFile {
    /// Whether an operation was sent without an answer.
    func hasOperationInFlight() throws -> Bool {
        try integer(#"SELECT count(*) FROM "MS_TableOperations" WHERE "state" = 1"#) != 0
    }

    /// The id of the last operation ever queued.
    func lastOperation() throws -> Int64 {
        try integer(
            #"SELECT CAST("value" AS INTEGER) FROM "MS_TableConfig" WHERE "key" = 'operation'"#
        ) ?? 0
    }
}
