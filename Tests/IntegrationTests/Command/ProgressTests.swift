// ProgressTests: long work shows its progress, but only on a terminal.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct ProgressTests {
        private static let script = "/usr/bin/script"

        /// Runs `tideline` with a terminal for its streams, and returns its output.
        private static func onTerminal(
            _ words: [String],
            in space: Workspace
        ) async throws -> String {
            let quoted = ([Program.tideline.path] + words).map { "'\($0)'" }.joined(separator: " ")
            let child = try ChildProcess(
                script,
                ["--quiet", "--return", "--command", quoted, space.path("typescript")],
                environment: ["TERM": "xterm", "SHELL": "/bin/sh"],
                files: space.path(UUID().uuidString),
                errors: nil
            )
            #expect(try await child.wait() == .exit(0), "\(child.output)")
            return child.output
        }

        @Test(
            "A terminal shows the progress of a long command and erases it before the result",
            .enabled(if: FileManager.default.isExecutableFile(atPath: script))
        )
        func theProgressOfLongWorkIsShown() async throws {
            try await withWorkspace { space in
                let server = try await ServerProcess.start(in: space)
                for number in 0..<50 {
                    let created = try await server.wire.send(
                        "POST",
                        "/tables/Note",
                        #"{"id":"\#(number)"}"#
                    )
                    #expect(created.status == 201)
                }
                #expect(try await server.stop() == .exit(0))
                let database = "sqlite:" + space.path("server.db")
                let config = ["--config", space.path("tideline.json"), "--database", database]
                let commands = [
                    ["backup", space.path("a.db")] + config, ["migrate", "--apply"] + config,
                    ["purge-tombstones", "--days", "0"] + config,
                    ["restore", space.path("a.db")] + config,
                    ["copy", "--from", database, "--to", "sqlite:" + space.path("b.db")],
                ]
                for words in commands {
                    let told = try await Self.onTerminal(words, in: space)
                    // The progress is shown, and erased before the result.
                    let line = try #require(told.range(of: "\r\u{1B}[K\(words[0])"), "\(told)")
                    let end = try #require(told.range(of: "\r\u{1B}[K", options: .backwards))
                    #expect(line.lowerBound < end.lowerBound)
                    #expect(!told[end.upperBound...].contains(", 0 s"))
                    let result = told[end.upperBound...]
                    #expect(result.contains { $0.isLetter })
                }
                let json = try await Self.onTerminal(
                    ["backup", space.path("c.db"), "--json"] + config,
                    in: space
                )
                #expect(json.hasPrefix("{"))
                let silent = try await space.run(
                    .tideline,
                    ["backup", space.path("d.db")] + config
                )
                #expect(silent.code == 0 && silent.error == "")
            }
        }
    }
}
