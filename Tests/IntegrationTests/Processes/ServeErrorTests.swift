// ServeErrorTests: the error messages of `tideline`, and its exit codes: 1 for a failed start, 2 for a mistake on the
// command line or in the configuration.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct ServeErrorTests {
        struct Case: Sendable, CustomTestStringConvertible {
            var words: [String]
            var code: Int32
            /// The text that the message must contain.
            var names: [String]

            var testDescription: String { words.joined(separator: " ") }
        }

        /// `@` stands for the workspace.
        static let cases = [
            Case(words: [], code: 2, names: ["command", "serve"]),
            Case(words: ["sevre"], code: 2, names: ["'sevre'", "serve"]),
            Case(words: ["serve", "--databse", "x"], code: 2, names: ["--databse", "--database"]),
            Case(words: ["serve", "extra"], code: 2, names: ["'extra'"]),
            Case(words: ["serve", "--listen"], code: 2, names: ["--listen"]),
            Case(words: ["serve", "--listen", "8080"], code: 2, names: ["--listen", "HOST:PORT"]),
            Case(words: ["serve", "--listen", "127.0.0.1:99999"], code: 2, names: ["65535"]),
            Case(words: ["serve", "--database", "@/a.db"], code: 2, names: ["sqlite:PATH"]),
            Case(
                words: ["serve", "--listen", "a:0", "--listen", "b:0"],
                code: 2,
                names: ["--listen", "twice"]
            ),
            Case(words: ["backup"], code: 2, names: ["backup needs FILE"]),
            Case(words: ["backup", "a", "b"], code: 2, names: ["'b'", "--database"]),
            Case(words: ["restored", "--listen", "a:1"], code: 2, names: ["'--listen'"]),
            Case(words: ["migrate", "--aply"], code: 2, names: ["'--aply'", "--apply"]),
            Case(
                words: ["backup", "@/b.db", "--database", "sqlite:@/a.db"],
                code: 1,
                names: ["No backup was created", "@/a.db"]
            ),
            Case(
                words: ["backup", "@/b.db", "--database", "sqlite::memory:"],
                code: 1,
                names: ["no file"]
            ),
            Case(words: ["serve", "--config", "@/none.json"], code: 2, names: ["@/none.json"]),
            Case(words: ["serve", "--config", "@"], code: 2, names: ["@"]),
            Case(
                words: ["serve", "--config", "@/bad.json"],
                code: 2,
                names: ["@/bad.json", "lsten", "tables.T.columns.a", "limits.rowBytes"]
            ),
            Case(
                words: ["serve", "--config", "@/broken.json"],
                code: 2,
                names: ["@/broken.json", "JSON"]
            ),
            Case(
                words: ["serve", "--database", "sqlite:@/none/a.db", "--listen", "127.0.0.1:0"],
                code: 1,
                names: ["@/none/a.db"]
            ),
            Case(
                words: ["serve", "--database", "sqlite:@", "--listen", "127.0.0.1:0"],
                code: 1,
                names: ["@"]
            ),
            Case(
                words: ["serve", "--database", "sqlite:@/bad.json", "--listen", "127.0.0.1:0"],
                code: 1,
                names: ["@/bad.json", "not a"]
            ),
            Case(
                words: ["serve", "--database", "sqlite:@/a.db", "--listen", "example.org:0"],
                code: 2,
                names: ["--listen", "example.org", "localhost"]
            ),
            Case(
                words: ["serve", "--database", "sqlite:@/a.db", "--listen", "192.0.2.1:0"],
                code: 1,
                names: ["192.0.2.1"]
            ),
        ]

        @Test("A server that cannot start reports the reason and an exit code", arguments: cases)
        func reportsTheMistake(_ example: Case) async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file(
                    "bad.json",
                    """
                    {"lsten": "a", "tables": {"T": {"columns": {"a": "txt"}}},
                     "limits": {"rowBytes": "many"}, "padding": "\(String(repeating: " ", count: 200))"}
                    """
                )
                _ = try workspace.file("broken.json", "{\"listen\": ")
                func filled(_ text: String) -> String {
                    text.replacing("@", with: workspace.directory)
                }
                let finished = try await workspace.run(.tideline, example.words.map(filled))
                #expect(finished.code == example.code)
                #expect(finished.output.isEmpty)
                // A new database is announced before the address is bound.
                #expect(
                    finished.error.split(separator: "\n").contains { $0.hasPrefix("tideline: ") }
                )
                for name in example.names {
                    #expect(finished.error.contains(filled(name)), "\(finished.error)")
                }
            }
        }

        @Test("A server reports that its port is in use, and the other server continues to serve")
        func portInUse() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let database = "sqlite:" + workspace.path("other.db")
                let listen = "127.0.0.1:\(server.port)"
                let finished = try await workspace.run(
                    .tideline,
                    ["serve", "--database", database, "--listen", listen]
                )
                #expect(finished.code == 1)
                #expect(finished.output.isEmpty)
                #expect(finished.error.contains(listen))
                #expect(finished.error.contains("another port"))
                let health = try await server.wire.send("GET", "/health")
                #expect(health.status == 200)
            }
        }

        @Test("A server that would lose data does not start and leaves its tables unchanged")
        func databaseOfAnotherConfiguration() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"a","rank":1}"#)
                _ = try await server.stop()
                let file = try workspace.file(
                    "other.json",
                    #"{"tables": {"Note": {"columns": {"rank": "string"}}}}"#
                )
                let finished = try await workspace.run(
                    .tideline,
                    [
                        "serve", "--config", file, "--listen", "127.0.0.1:0", "--database",
                        "sqlite:" + workspace.path("server.db"),
                    ]
                )
                #expect(finished.code == 1)
                #expect(finished.error.contains("Note"))
                #expect(finished.error.contains("rank"))
                let again = try await server.restart()
                let row = try await again.wire.send("GET", "/tables/Note/a")
                #expect(row.object["rank"] as? Int == 1)
            }
        }

        @Test("Help lists the commands and their options", arguments: ["--help", "-h", "help"])
        func help(words: String) async throws {
            try await withWorkspace { workspace in
                let words = words.split(separator: " ").map(String.init)
                let finished = try await workspace.run(.tideline, words)
                #expect(finished.code == 0)
                #expect(finished.error.isEmpty)
                for word in [
                    "serve", "backup", "restored", "migrate", "--apply", "--config", "--database",
                    "--listen", "--dynamic-schema",
                ] {
                    #expect(finished.output.contains(word))
                }
            }
        }

        @Test("The version option prints the version of the program") func version() async throws {
            try await withWorkspace { workspace in
                let finished = try await workspace.run(.tideline, ["--version"])
                #expect(finished.code == 0)
                #expect(finished.output.wholeMatch(of: /tideline \d+\.\d+\.\d+\n/) != nil)
            }
        }

        @Test("A server without a configuration has the TodoItem table and a dynamic schema")
        func serveWithoutConfiguration() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    ["--database", "sqlite:" + workspace.path("a.db"), "--dynamic-schema"],
                    listen: "127.0.0.1:0",
                    in: workspace
                )
                for (table, body) in [("TodoItem", #"{"text":"a"}"#), ("Other", #"{"size":3}"#)] {
                    let answer = try await server.wire.send("POST", "/tables/\(table)", body)
                    #expect(answer.status == 201)
                }
                _ = try await server.stop()
                let again = try await server.restart()
                let rows = try await again.wire.allRows("Other")
                #expect(rows.count == 1 && rows.first?["size"] as? Int == 3)
            }
        }
    }
}
