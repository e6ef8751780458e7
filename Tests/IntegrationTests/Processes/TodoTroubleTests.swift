// TodoTroubleTests: `todo` if something is wrong: rejected items, wrong files, unusual texts, invalid arguments.
// Nothing is lost silently, and every message says what to do.

import Foundation
import Testing

extension ProcessTests {
    struct TodoTroubleTests {
        private func rejectingServer(in workspace: Workspace) async throws -> ServerProcess {
            try await ServerProcess.start(
                in: workspace,
                configuration: ServerProcess.configuration.replacing(
                    "\"limits\": {",
                    with: "\"limits\": { \"rowBytes\": 2000,"
                )
            )
        }

        @Test("An item that the server never accepted is dropped only with a confirmation")
        func theOnlyCopyIsNotDroppedSilently() async throws {
            try await withWorkspace { workspace in
                let server = try await rejectingServer(in: workspace)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let text = String(repeating: "long ", count: 1000).trimmingCharacters(
                    in: .whitespaces
                )
                let id = try await todo.add(text)
                _ = try await todo.fails("sync", code: 1)
                let conflicts = try await todo("conflicts")
                #expect(conflicts.contains("\(id)  insert rejected (413)\n"))
                #expect(conflicts.contains("  server: The insert of row '\(id)"))
                #expect(conflicts.contains("was rejected by the server (413): "))
                #expect(conflicts.contains("  theirs: none; the server does not have this item\n"))

                let rejected = try await todo.fails("conflicts", "take-theirs", id, code: 1)
                #expect(rejected.contains("--discard"))
                #expect(rejected.contains("only copy of '[ ] long"))
                #expect(rejected.contains("413"))
                #expect(try await todo("list").contains(id))

                let dropped = try await todo("conflicts", "take-theirs", id, "--discard")
                #expect(dropped.hasPrefix("dropped \(id)  [ ] long"))
                #expect(try await todo("list") == "nothing to do\n")
                try await todo("sync")
            }
        }

        @Test("An edited item is sent after a rejection, and its conflict is resolved")
        func keepMineAfterAnEditSendsIt() async throws {
            try await withWorkspace { workspace in
                let server = try await rejectingServer(in: workspace)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let id = try await todo.add(String(repeating: "long ", count: 1000))
                _ = try await todo.fails("sync", code: 1)
                try await todo("conflicts", "keep-mine", id)
                #expect(try await todo("conflicts") == "no conflicts\n")
                _ = try await todo.fails("sync", code: 1)
                try await todo("edit", id, "short")
                #expect(try await todo("conflicts", "keep-mine", id).contains("todo sync"))
                let late = try await todo.fails("conflicts", "take-theirs", id, code: 1)
                #expect(late.contains("no longer a conflict"))
                try await todo("sync")
                #expect(try await todo("list", "--remote") == "[ ] \(id)  short\n")
            }
        }

        @Test("A sync reports the rejected push and the rejected pull")
        func bothFailuresOfASyncAreReported() async throws {
            try await withWorkspace { workspace in
                let tables = """
                    {"tables": {"TodoItem": {
                        "columns": {"text": {"type": "string", "maxLength": 3}, "complete": "boolean"},
                        "permissions": {"read": "disabled"}
                    }}}
                    """
                let server = try await ServerProcess.start(in: workspace, configuration: tables)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let id = try await todo.add("too long")
                let message = try await todo.fails("sync", code: 1)
                #expect(message.contains("The insert of row '\(id)"))
                #expect(message.contains("todo conflicts"))
                #expect(message.contains("the pull of 'TodoItem'"))
            }
        }

        @Test("The status shows that an attempted operation has no response yet")
        func statusDoesNotClaimWhatWasNotSent() async throws {
            try await withWorkspace { workspace in
                let todo = TodoProgram(workspace, "a.sqlite")
                let id = try await todo.add("one")
                _ = try await todo.fails("sync", code: 1)
                let status = try await todo("status")
                #expect(status.contains("  insert \(id) (sent, no response yet)\n"))
                #expect(!status.contains("(sent)"))
            }
        }

        @Test("Plain HTTP to another machine affects only commands that send and can be allowed")
        func localCommandsNeedNoEndpoint() async throws {
            try await withWorkspace { workspace in
                var todo = TodoProgram(workspace, "a.sqlite")
                todo.server = "http://0.0.0.0:9"
                let id = try await todo.add("one")
                try await todo("edit", id, "two")
                #expect(try await todo("list") == "[ ] \(id)  two\n")
                #expect(
                    try await todo("status").contains("pending operations: 1\n  insert \(id)\n")
                )
                #expect(try await todo("conflicts") == "no conflicts\n")
                for words in [["sync"], ["list", "--remote"]] {
                    let rejected = try await todo.run(words)
                    #expect(rejected.code == 1)
                    #expect(rejected.error.contains("plain http"))
                    #expect(rejected.error.contains("--allow-insecure-endpoint"))
                }
                // If it is allowed, the command fails only because no server listens.
                let name = "TODO_ALLOW_INSECURE_ENDPOINT"
                let flagged = try await todo.run(["--allow-insecure-endpoint", "sync"])
                let allowed = try await todo.run(["sync"], environment: [name: "1"])
                for finished in [flagged, allowed] {
                    #expect(finished.code == 1)
                    #expect(finished.error.contains("could not be reached"))
                }
                let forbidden = try await todo.run(["sync"], environment: [name: "0"])
                #expect(forbidden.error.contains("plain http"))
                #expect(try await todo.run(["list"], environment: [name: "maybe"]).code == 2)
            }
        }

        @Test("Control characters in a text are escaped for the terminal")
        func textsDoNotReachTheTerminalRaw() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let text = "a\u{1B}[2J\u{9B}31m\u{7}\nb\tc\u{202E}d\u{2028}é 👩‍👧"
                let id = try await todo.add(text)
                let shown = #"a\u{1b}[2J\u{9b}31m\u{7}\nb\tc\u{202e}d\u{2028}é 👩‍👧"#
                #expect(try await todo("list") == "[ ] \(id)  \(shown)\n")
                #expect(try await todo("done", id) == "done \(id)  \(shown)\n")
                try await todo("sync")
                #expect(try await todo("list", "--remote") == "[x] \(id)  \(shown)\n")
                let message = try await todo.fails("done", "\u{1B}[31m", code: 1)
                #expect(message.contains(#"'\u{1b}[31m'"#))
                #expect(try await todo.fails("\u{1B}c", code: 2).contains(#"'\u{1b}c'"#))
            }
        }

        @Test("An item that does not decode hides no other item and can be removed")
        func anItemThatDoesNotDecode() async throws {
            try await withWorkspace { workspace in
                let tables =
                    #"{"tables": {"TodoItem": {"columns": {"text": "string", "complete": "string"}}}}"#
                let server = try await ServerProcess.start(in: workspace, configuration: tables)
                let rows = [
                    #"{"id":"bad","text":"a","complete":"perhaps"}"#, #"{"id":"good","text":"b"}"#,
                ]
                for row in rows { _ = try await server.wire.send("POST", "/tables/TodoItem", row) }
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                try await todo("sync")
                for words in [["list"], ["list", "--all"], ["list", "--remote"]] {
                    let finished = try await todo.run(words)
                    #expect(finished.code == 0)
                    #expect(finished.output == "[ ] good  b\n")
                    #expect(finished.error.contains("'bad'"))
                    #expect(finished.error.contains("'complete'"))
                    #expect(!finished.error.contains("perhaps"))
                }
                #expect(try await todo.fails("done", "bad", code: 1).contains("'bad'"))
                try await todo("rm", "bad")
                try await todo("sync")
                #expect(try await todo("list", "--all") == "[ ] good  b\n")
            }
        }

        @Test("Files that are not a store are reported by path and not changed")
        func filesThatAreNotAStore() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                _ = try await server.stop()
                let file = URL(filePath: workspace.path("server.db"))
                let before = try Data(contentsOf: file)
                let database = TodoProgram(workspace, "server.db")
                for words in [["list"], ["add", "x"], ["sync"]] {
                    let finished = try await database.run(words)
                    #expect(finished.code == 1)
                    #expect(finished.error.contains("database of a tideline server"))
                    #expect(finished.error.contains(file.path()))
                }
                #expect(try Data(contentsOf: file) == before)
                for store in ["", "none/a.sqlite", "."] {
                    let finished = try await workspace.run(.todo, ["--store", store, "list"])
                    #expect(finished.code == 1)
                    #expect(!finished.error.contains("SQL"))
                }
            }
        }

        @Test(
            "A message about invalid arguments says which argument is missing or superfluous",
            arguments: [
                (["done"], "done needs the ID"), (["done", "a", "b"], "remove 'b'"),
                (["edit"], "edit needs the ID"), (["edit", "a"], "edit needs the new text"),
                (["sync", "now"], "remove 'now'"), (["status", "x"], "remove 'x'"),
                (["conflicts", "keep"], "not 'keep'"),
                (["conflicts", "keep-mine"], "needs the ID"),
                (["conflicts", "take-theirs", "--discard"], "needs the ID"),
                (["add"], "add needs a text"), (["add", " "], "the text is empty"),
                (["--store"], "--store needs a value"), (["-x", "list"], "unknown option '-x'"),
                (["list", "-a"], "list does not take '-a'"), (["lsit"], "unknown command 'lsit'"),
            ]
        )
        func invalidArguments(words: [String], message: String) async throws {
            try await withWorkspace { workspace in
                let finished = try await TodoProgram(workspace, "a.sqlite").run(words)
                #expect(finished.code == 2)
                #expect(finished.error.contains(message))
                #expect(finished.error.contains("usage: todo"))
                #expect(!FileManager.default.fileExists(atPath: workspace.path("a.sqlite")))
            }
        }

        @Test("A text may begin with a dash or contain an option")
        func aTextMayStartWithADash() async throws {
            try await withWorkspace { workspace in
                let todo = TodoProgram(workspace, "a.sqlite")
                let first = try await todo("add", "--", "--help", "me")
                #expect(first.hasSuffix("  --help me\n"))
                let second = try await todo("add", "an", "item", "--help")
                #expect(second.hasSuffix("  an item --help\n"))
            }
        }
    }
}
