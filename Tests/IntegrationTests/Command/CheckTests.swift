// CheckTests: `tideline check`, the path of a database, and passwords, which no command prints.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct CheckTests {
        @Test("The check command prints each mistake, and its exit code is 0 or 2")
        func mistakesArePrinted() async throws {
            try await withWorkspace { workspace in
                let right = try workspace.file(
                    "right.json",
                    #"{"database": "sqlite:data/a.db", "tables": {"T": {"columns": {"a": "string"}}}}"#
                )
                let good = try await workspace.run(.tideline, ["check", "--config", right])
                #expect(good.code == 0 && good.error.isEmpty)
                #expect(good.output.contains("sqlite:" + workspace.path("data/a.db")))
                let wrong = try workspace.file(
                    "wrong.json",
                    #"{"lsten": 1, "limits": {"rowBytes": "many"}, "tables": {"T": {"pageSize": 0}}}"#
                )
                let bad = try await workspace.run(.tideline, ["check", "--config", wrong])
                #expect(bad.code == 2)
                for name in ["lsten", "limits.rowBytes", "tables.T.pageSize"] {
                    #expect(bad.output.contains(name), "\(bad.output)")
                }
                let standby = try workspace.file(
                    "standby.json",
                    #"{"database": "postgres://h/d?target_session_attrs=standby"}"#
                )
                let late = try await workspace.run(.tideline, ["check", "--config", standby])
                #expect(late.code == 2 && late.output.contains("target_session_attrs"))
                let none = try await workspace.run(
                    .tideline,
                    ["check", "--config", workspace.path("none.json")]
                )
                #expect(none.code == 2 && none.error.contains("none.json"))
                #expect(!FileManager.default.fileExists(atPath: workspace.path("data")))
            }
        }

        @Test(
            "A relative database path is resolved from the configuration file, and printed"
        )
        func databaseBesideTheFile() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file(
                    "tideline.json",
                    #"{"database": "sqlite:own.db", "log": {"level": "info"}}"#
                )
                let server = try await ServerProcess.start(
                    ["--config", file],
                    listen: "127.0.0.1:0",
                    in: workspace
                )
                let path = workspace.path("own.db")
                #expect(FileManager.default.fileExists(atPath: path))
                let lines = server.process.output.split(separator: "\n")
                #expect(lines.count == 2 && lines.last?.hasSuffix("sqlite:" + path) == true)
                // The log is written by a separate thread; at the end it is complete.
                let next = try await server.stop()
                #expect(next == .exit(0))
                let log = server.process.error
                #expect(log.contains("a new database was created") && log.contains(path))
                let again = try await server.restart()
                _ = try await again.stop()
                #expect(!again.process.error.contains("a new database was created"))
                #expect(again.process.error.contains(path))
            }
        }

        @Test(
            "No command prints a password",
            arguments: [
                ["serve", "postgres://u:hunter2@h/d"], ["postgres://u:hunter2@h/d"],
                ["serve", "--databse=postgres://u:hunter2@h/d"],
                ["help", "postgres://u:hunter2@h/d"],
                ["serve", "--listen", "postgres://u:hunter2@h/d"],
                ["serve", "--config", "postgres://u:hunter2@h/d"],
                ["serve", "--database", "postgres://u:hun/ter2@127.0.0.1:1/d"],
                ["serve", "--database", "postgres://u:hunter2@127.0.0.1:1/d"],
                ["serve", "--database", "postgres://127.0.0.1:1/d?password=hunter2"],
                ["check", "--database", "postgres://u:hunter2@h:x/d"],
                ["inspect", "postgres://u:hunter2@127.0.0.1:1/d"],
                ["backup", "--database", "postgres://u:hunter2@127.0.0.1:1/d"],
                ["backup", "a", "postgres://u:hunter2@h/d"],
                ["restore", "postgres://u:hunter2@h/d", "--database", "sqlite:/none/a.db"],
                ["copy", "--from", "sqlite:/none/a", "--to", "postgres://u:hunter2@127.0.0.1:1/d"],
                ["migrate", "--database", "postgres://u:hunter2@127.0.0.1:1/d"],
                ["doctor", "--server", "http://u:hunter2@127.0.0.1:1"],
                ["doctor", "--server", "postgres://u:hunter2@h/d"],
                ["bench", "http://u:hunter2@127.0.0.1:1", "--table", "T", "--seconds", "1"],
            ]
        )
        func noPasswords(words: [String]) async throws {
            try await withWorkspace { workspace in
                let finished = try await workspace.run(.tideline, words)
                #expect(finished.code != 0)
                let text = finished.output + finished.error
                #expect(!text.contains("hunter2") && !text.contains("ter2"), "\(text)")
            }
        }

        @Test("The doctor command reports the scheme of a port and the reason for a rejection")
        func schemes() async throws {
            try await withWorkspace { workspace in
                let folder = workspace.path("certificates")
                _ = try await workspace.run(
                    .tideline,
                    ["certificate", "--host", "127.0.0.1", "--directory", folder]
                )
                let secure = try await ServerProcess.start(
                    in: workspace,
                    configuration: """
                        { "tls": { "certificateFile": "certificates/certificate.pem",
                                   "keyFile": "certificates/certificate.key" } }
                        """
                )
                let plain = try await ServerProcess.start(in: workspace, database: "b.db")
                for (server, other) in [
                    ("http://127.0.0.1:\(secure.port)", "https://127.0.0.1:\(secure.port)"),
                    ("https://127.0.0.1:\(plain.port)", "http://127.0.0.1:\(plain.port)"),
                ] {
                    let finished = try await workspace.run(
                        .tideline,
                        ["doctor", "--server", server]
                    )
                    #expect(finished.code == 1)
                    #expect(finished.output.contains("Use \(other)"), "\(finished.output)")
                }
                _ = try await secure.stop()
                _ = try await plain.stop()
            }
        }
    }
}
