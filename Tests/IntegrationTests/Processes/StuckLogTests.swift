// StuckLogTests: a server that logs to a pipe that is not read.

import Foundation
import Testing
import Tideline
import TidelineTestSupport

@Suite(.slow) struct StuckLogTests {
    @Test("A server whose log is not read continues to serve requests")
    func requestsAreServed() async throws {
        try await withWorkspace { workspace in
            let pipe = workspace.path("log")
            #expect(mkfifo(pipe, 0o600) == 0)
            let reader = open(pipe, O_RDONLY | O_NONBLOCK)
            let file = try workspace.file("a.json", ServerProcess.configuration)
            let server = try await ServerProcess.start(
                ["--config", file, "--database", "sqlite:" + workspace.path("a.db")],
                listen: "127.0.0.1:0",
                in: workspace,
                errors: pipe
            )
            // Each request is a line; the pipe holds about 600.
            for _ in 0..<1500 {
                #expect(try await server.wire.send("GET", "/health").status == 200)
            }
            #expect(try await server.wire.send("POST", "/tables/Note", "{}").status == 201)
            let end = try await server.stop()
            #expect(end == .exit(0))
            close(reader)
        }
    }
}
