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

    /// Starts a command and kills it at a random moment, until so many kills have met it at work.
    ///
    /// `refill` is called when it came to its end before the kill.
    func killed(
        _ words: String...,
        times: Int,
        within limit: Duration = .milliseconds(250),
        refill: () async throws -> Void
    ) async throws {
        var kills = 0
        var runs = 0
        while kills < times {
            runs += 1
            try #require(runs < times * 10, "only \(kills) of \(runs) runs met a kill")
            let child = try workspace.start(.probe, [path, server.absoluteString] + words)
            try await Task.sleep(for: limit * Double.random(in: 0..<1))
            switch try await child.destroy() {
            case .signal(SIGKILL): kills += 1
            case .exit(0): try await refill()
            case let end: throw TestFailure("SyncProbe \(words): \(end) \(child.error)")
            }
        }
    }
}

extension DatabaseFile {
    /// The id of the last operation ever queued.
    func lastOperation() throws -> Int64 {
        try integer(
            #"SELECT CAST("value" AS INTEGER) FROM "MS_TableConfig" WHERE "key" = 'operation'"#
        ) ?? 0
    }
}
