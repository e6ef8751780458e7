// TokenTests: a server with authentication as a process: `tideline token` creates tokens, and a user does not see the
// rows of another user.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct TokenTests {
        private static let configuration = """
            {
              "authentication": {
                "secretFile": "jwt.key", "issuer": "https://id.example", "audience": "todo"
              },
              "cors": { "origins": ["https://app.example"] },
              "tables": { "TodoItem": { "columns": { "text": "string" }, "owner": "userId" } },
              "log": { "level": "debug", "requests": "info" }
            }
            """

        private func token(_ subject: String, _ workspace: Workspace) async throws -> String {
            let finished = try await workspace.run(
                .tideline,
                ["token", "--config", workspace.path("tideline.json"), "--subject", subject]
            )
            #expect(finished.code == 0, "\(finished.error)")
            #expect(finished.error.isEmpty)
            return finished.output.trimmingCharacters(in: .newlines)
        }

        @Test("A token gives its user access to that user's rows only")
        func usersOverASocket() async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let anna = try await token("anna", workspace)
                let bert = try await token("bert", workspace)
                let wire = server.wire
                let none = try await wire.send("GET", "/tables/TodoItem")
                #expect(none.status == 401)
                #expect(none.headers["WWW-Authenticate"] == "Bearer realm=\"tideline\"")
                let created = try await wire.send(
                    "POST",
                    "/tables/TodoItem",
                    #"{"id":"a","text":"hers"}"#,
                    headers: ["X-ZUMO-AUTH": anna, "Origin": "https://app.example"]
                )
                #expect(created.status == 201 && created.object["userId"] as? String == "anna")
                #expect(created.headers["Access-Control-Allow-Origin"] == "https://app.example")
                let other = try await wire.send(
                    "GET",
                    "/tables/TodoItem/a",
                    headers: ["Authorization": "Bearer " + bert]
                )
                #expect(other.status == 404)
                let own = try await wire.send(
                    "GET",
                    "/tables/TodoItem/a",
                    headers: ["Authorization": "Bearer " + anna]
                )
                #expect(own.status == 200)
                let bad = try await wire.send(
                    "GET",
                    "/tables/TodoItem/a",
                    headers: ["X-ZUMO-AUTH": anna.dropLast(3) + "AAA"]
                )
                #expect(bad.status == 401)
                let challenge = bad.headers["WWW-Authenticate"] ?? ""
                #expect(challenge.hasPrefix("Bearer error=\"invalid_token\""))
                let preflight = try await wire.send(
                    "OPTIONS",
                    "/tables/TodoItem",
                    headers: [
                        "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
                    ]
                )
                #expect(preflight.status == 200)
                #expect(
                    preflight.headers["Access-Control-Allow-Methods"]?.contains("PATCH") == true
                )
                // The log is written by a separate thread; at the end it is complete.
                _ = try await server.stop()
                let log = server.process.error
                #expect(log.contains("status=401"))
                for secret in [anna, bert, "0123456789abcdef"] { #expect(!log.contains(secret)) }
            }
        }

        /// `@` stands for the workspace.
        @Test(
            "The token command reports invalid arguments and configurations",
            arguments: [
                (["token"], "--config is missing"),
                (["token", "--config", "@/a.json"], "--subject is missing"),
                (["token", "--config", "@/a.json", "--subject", ""], "--subject is missing"),
                (
                    ["token", "--config", "@/no.json", "--subject", "a"],
                    "the file '@/no.json' does not exist"
                ),
                (["token", "--config", "@/open.json", "--subject", "a"], "authentication"),
                (["token", "--config", "@/weak.json", "--subject", "a"], "at least 32"),
                (["token", "--config", "@/a.json", "--subject", "a\nb"], "no control characters"),
                (
                    ["token", "--config", "@/a.json", "--subject", "a", "--expires", "0"],
                    "--expires: a number of seconds from 1"
                ),
                (
                    ["token", "--user", "a"],
                    "'--user' is unknown; allowed for token are --config, --subject"
                ),
                (["token", "--subject"], "--subject needs a value"),
            ]
        )
        func reportsTheMistake(_ words: [String], _ expected: String) async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                _ = try workspace.file("weak.key", "secret")
                _ = try workspace.file("a.json", Self.configuration)
                _ = try workspace.file("open.json", "{}")
                _ = try workspace.file(
                    "weak.json",
                    #"{"authentication": {"secretFile": "weak.key"}}"#
                )
                func filled(_ text: String) -> String {
                    text.replacing("@", with: workspace.directory)
                }
                let finished = try await workspace.run(.tideline, words.map(filled))
                #expect(finished.code == 2)
                #expect(finished.output.isEmpty)
                #expect(finished.error.contains(filled(expected)), "\(finished.error)")
            }
        }
    }
}
