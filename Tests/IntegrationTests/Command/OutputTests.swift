// OutputTests: a command reports lost output, and never opens a file as one of its standard streams.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct OutputTests {
        /// Runs `tideline` with redirected streams, as a shell does.
        private static func run(
            _ words: [String],
            _ redirection: String,
            in space: Workspace
        ) async throws -> (code: ChildProcess.End, error: String) {
            let child = try ChildProcess(
                "/bin/sh",
                ["-c", "exec \"$@\" \(redirection)", "sh", Program.tideline.path] + words,
                environment: [:],
                files: space.path(UUID().uuidString),
                errors: nil
            )
            return (try await child.wait(), child.error)
        }

        @Test(
            "Output that cannot be written is reported, and the command fails",
            arguments: [">/dev/full", ">&-"]
        )
        func outputThatCannotBePrintedIsReported(redirection: String) async throws {
            try await withWorkspace { space in
                let server = try await ServerProcess.start(in: space)
                #expect(try await server.stop() == .exit(0))
                let words = [
                    ["help"], ["--version"], ["inspect", space.path("server.db"), "--json"],
                    ["doctor", "--server", "http://127.0.0.1:1"],
                    ["migrate", "--database", "sqlite:" + space.path("server.db")],
                    ["certificate", "--host", "a.b", "--directory", space.path("certificates")],
                ]
                for words in words {
                    let ended = try await Self.run(words, redirection, in: space)
                    #expect(ended.code == .exit(1), "\(words)")
                    #expect(ended.error.hasPrefix("tideline: The output is lost: "), "\(words)")
                    #expect(ended.error.split(separator: "\n").count == 1)
                }
            }
        }

        @Test("A file opened by a command does not become its output")
        func aFileGetsNoDescriptorOfAStream() async throws {
            try await withWorkspace { space in
                let server = try await ServerProcess.start(in: space)
                let created = try await server.wire.send("POST", "/tables/Note", #"{"id":"a"}"#)
                #expect(created.status == 201)
                #expect(try await server.stop() == .exit(0))
                let lock = URL(filePath: space.path("server.db-lock"))
                let database = "sqlite:" + space.path("server.db")
                let config = space.path("tideline.json")
                let words = ["restored", "--config", config, "--database", database]
                let ended = try await Self.run(words, "<&- >&- 2>&-", in: space)
                #expect(ended.code == .exit(1) && ended.error == "")
                try DatabaseFile(space.path("server.db")).expectIntact()
                // The lock file names its last owner, and contains none of the printed output.
                let held = try String(contentsOf: lock, encoding: .utf8)
                #expect(!held.contains("epoch") && !held.contains("output"))
            }
        }

        @Test("A server without standard output starts and reports the lost output")
        func aServerServesWithoutAnOutput() async throws {
            try await withWorkspace { space in
                let words = [
                    "serve", "--listen", "127.0.0.1:0", "--database",
                    "sqlite:" + space.path("server.db"),
                ]
                let child = try ChildProcess(
                    "/bin/sh",
                    ["-c", "exec \"$@\" >&-", "sh", Program.tideline.path] + words,
                    environment: [:],
                    files: space.path("serve"),
                    errors: nil
                )
                _ = try await eventually("a line about the output: \(child.error)") {
                    child.error.contains("The output is lost") ? true : nil
                }
                child.send(SIGTERM)
                #expect(try await child.wait() == .exit(0))
                #expect(child.error.contains("listening"))
            }
        }
    }
}
