// TodoTests: the program `todo` as a user sees it: arguments in, lines and an exit code out.

import Foundation
import Testing

extension ProcessTests {
    struct TodoTests {
        @Test("Items are added, edited, completed and removed without a server")
        func worksWithoutAServer() async throws {
            try await withWorkspace { workspace in
                let todo = TodoProgram(workspace, "a.sqlite")
                #expect(try await todo("list") == "nothing to do\n")
                #expect(try await todo("list", "--all") == "no items\n")
                let milk = try await todo.add("Buy milk")
                let bread = try await todo.add("Buy bread")
                #expect(
                    try await todo("list") == "[ ] \(bread)  Buy bread\n[ ] \(milk)  Buy milk\n"
                )
                #expect(try await todo("done", milk) == "done \(milk)  Buy milk\n")
                #expect(try await todo("list") == "[ ] \(bread)  Buy bread\n")
                #expect(
                    try await todo("list", "--all")
                        == "[ ] \(bread)  Buy bread\n[x] \(milk)  Buy milk\n"
                )
                let edited = try await todo("edit", String(bread.prefix(6)), "Buy", "rye", "bread")
                #expect(edited == "changed \(bread)  Buy rye bread\n")
                #expect(try await todo("rm", milk) == "removed \(milk)\n")
                #expect(try await todo("list", "--all") == "[ ] \(bread)  Buy rye bread\n")
                let status = try await todo("status")
                #expect(
                    status == """
                        pending operations: 1
                          insert \(bread)
                        last sync: never
                        errors: 0

                        """
                )
                let why = try await todo("why", String(bread.prefix(6)))
                #expect(why.contains("  The row is on this device.\n"))
                #expect(why.contains("  The insert is pending: it has not been sent yet."))
                #expect(try await todo("why", "nothing").contains("was never pulled"))
                #expect(try await todo("conflicts") == "no conflicts\n")
                #expect(try await todo("--help").contains("usage: todo"))
            }
        }

        @Test("Two stores converge through the server") func twoStoresConverge() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let one = TodoProgram(workspace, "one.sqlite", server.url)
                let two = TodoProgram(workspace, "two.sqlite", server.url)
                let milk = try await one.add("Buy milk")
                let bread = try await two.add("Buy bread")
                #expect(try await one("sync").hasPrefix("sent 1, received "))
                try await two("sync")
                try await one("sync")
                try await one("edit", bread, "Buy rye bread")
                try await two("done", milk)
                try await one("sync")
                try await two("sync")
                try await one("sync")
                let list = "[x] \(milk)  Buy milk\n[ ] \(bread)  Buy rye bread\n"
                #expect(try await one("list", "--all") == list)
                #expect(try await two("list", "--all") == list)
                #expect(try await two("list", "--remote") == list)
                try await two("rm", milk)
                try await two("sync")
                #expect(try await one("sync").contains("removed 1"))
                #expect(try await one("list", "--all") == "[ ] \(bread)  Buy rye bread\n")
                let status = try await one("status")
                #expect(status.contains("pending operations: 0\n"))
                #expect(status.contains(/last sync: 20\d\d-\d\d-\d\dT/))
            }
        }

        @Test(
            "A conflict between two edits is resolved by either choice",
            arguments: ["keep-mine", "take-theirs"]
        )
        func conflictIsResolved(by choice: String) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let one = TodoProgram(workspace, "one.sqlite", server.url)
                let two = TodoProgram(workspace, "two.sqlite", server.url)
                let id = try await one.add("base")
                try await one("sync")
                try await two("sync")
                try await one("edit", id, "mine of one")
                try await two("edit", id, "mine of two")
                try await one("sync")
                let message = try await two.fails("sync", code: 1)
                #expect(message.contains("todo conflicts"))
                let conflicts = try await two("conflicts")
                #expect(conflicts.contains(id))
                #expect(conflicts.contains("mine:   [ ] mine of two\n"))
                #expect(conflicts.contains("theirs: [ ] mine of one\n"))
                #expect(try await two("status").contains("(rejected)"))
                try await two("conflicts", choice, id)
                #expect(try await two("conflicts") == "no conflicts\n")
                try await two("sync")
                try await one("sync")
                let text = choice == "keep-mine" ? "mine of two" : "mine of one"
                #expect(try await one("list") == "[ ] \(id)  \(text)\n")
                #expect(try await two("list") == "[ ] \(id)  \(text)\n")
            }
        }

        @Test(
            "A conflict between an edit and a delete is resolved by either choice",
            arguments: ["keep-mine", "take-theirs"]
        )
        func conflictWithADelete(by choice: String) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let one = TodoProgram(workspace, "one.sqlite", server.url)
                let two = TodoProgram(workspace, "two.sqlite", server.url)
                let id = try await one.add("base")
                try await one("sync")
                try await two("sync")
                try await one("rm", id)
                try await two("edit", id, "edited")
                try await one("sync")
                _ = try await two.fails("sync", code: 1)
                #expect(try await two("conflicts").contains("theirs: deleted\n"))
                try await two("conflicts", choice, id)
                try await two("sync")
                try await one("sync")
                let list = choice == "keep-mine" ? "[ ] \(id)  edited\n" : "nothing to do\n"
                #expect(try await one("list") == list)
                #expect(try await two("list") == list)
            }
        }

        @Test("Messages about invalid arguments name the argument and the correct usage")
        func mistakesSayWhatToDo() async throws {
            try await withWorkspace { workspace in
                let todo = TodoProgram(workspace, "a.sqlite")
                _ = try await todo.add("one")
                _ = try await todo.add("two")
                for words in [["done", "zzz"], ["edit", "zzz", "text"], ["rm", "zzz"]] {
                    let finished = try await workspace.run(.todo, ["--store", todo.store] + words)
                    #expect(finished.code == 1)
                    #expect(finished.error.contains("'zzz'"))
                    #expect(finished.error.contains("todo list --all"))
                    #expect(!finished.error.contains("usage:"))
                }
                #expect(try await todo.fails("done", "", code: 2).contains("id"))
                #expect(try await todo.fails("dnoe", "a", code: 2).contains("'dnoe'"))
                #expect(try await todo.fails("done", code: 2).contains("usage:"))
                #expect(try await todo.fails("add", code: 2).contains("usage:"))
                #expect(try await todo.fails("add", "", code: 2).contains("text"))
                #expect(try await todo.fails("list", "--al", code: 2).contains("'--al'"))
                #expect(try await todo.fails(code: 2).contains("usage:"))
                #expect(
                    try await todo.fails("conflicts", "keep-mine", "zzz", code: 1).contains("zzz")
                )
                #expect(try await todo.fails("--flag", "list", code: 2).contains("'--flag'"))
                #expect(try await todo.fails("status", "--store", code: 2).contains("--store"))
                #expect(
                    try await todo.fails("--server", "nowhere", "list", code: 2).contains("nowhere")
                )
                let port = "http://127.0.0.1:99999"
                #expect(try await todo.fails("--server", port, "list", code: 2).contains(port))
                #expect(try await todo("list").split(separator: "\n").count == 2)
            }
        }

        @Test("An item that the server rejected for its size is sent after an edit")
        func rejectedItem() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: ServerProcess.configuration.replacing(
                        "\"limits\": {",
                        with: "\"limits\": { \"rowBytes\": 2000,"
                    )
                )
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let long = try await todo.add(String(repeating: "long ", count: 1000))
                let other = try await todo.add("short")
                _ = try await todo.fails("sync", code: 1)
                let conflicts = try await todo("conflicts")
                #expect(conflicts.contains("\(long)  insert rejected (413)"))
                #expect(!conflicts.contains("deleted"))
                try await todo("edit", long, "mended")
                try await todo("sync")
                let list = try await todo("list", "--remote")
                #expect(list == "[ ] \(long)  mended\n[ ] \(other)  short\n")
            }
        }

        @Test("Programs that share a new store at the same time lose no item")
        func programsAtTheSameTime() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                try await together(6) { number in _ = try await todo.add("item \(number)") }
                #expect(try await todo("list").split(separator: "\n").count == 6)
                try await together(4) { _ in try await todo("sync") }
                try await together(6) { number in
                    let line = try await todo("list", "--all").split(separator: "\n")[number]
                    try await todo("done", String(line.dropFirst(4).prefix(8)))
                }
                try await together(4) { _ in try await todo("sync") }
                let rows = try await server.wire.allRows("TodoItem")
                #expect(rows.count == 6)
                #expect(try await todo("status").contains("pending operations: 0\n"))
                #expect(try RequestCounts(workspace.path("server.db")).inserts == 6)
            }
        }

        private func together(
            _ count: Int,
            _ body: @escaping @Sendable (Int) async throws -> Void
        ) async throws {
            try await withThrowingTaskGroup { group in
                for number in 0..<count { group.addTask { try await body(number) } }
                try await group.waitForAll()
            }
        }

        @Test("An ambiguous ID prefix is rejected, and a complete ID matches only its item")
        func ambiguousIDs() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                for id in ["aba", "abb", "abc", "ab"] {
                    let body = #"{"id":"\#(id)","text":"\#(id)"}"#
                    _ = try await server.wire.send("POST", "/tables/TodoItem", body)
                }
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                try await todo("sync")
                let message = try await todo.fails("done", "a", code: 1)
                #expect(message.contains("several"))
                #expect(message.contains("'a'"))
                // A complete id matches only its item, even if other ids start with it.
                #expect(try await todo("why", "ab").hasPrefix("ab\n"))
                try await todo("done", "abb")
                #expect(try await todo("why", "ab").hasPrefix("ab\n"))
                #expect(try await todo("done", "ab") == "done ab  ab\n")
                #expect(try await todo("why", "ab").hasPrefix("ab\n"))
            }
        }

        @Test("Unreachable servers and unusable store files are reported by name")
        func errorsOfTheEnvironment() async throws {
            try await withWorkspace { workspace in
                let todo = TodoProgram(workspace, "a.sqlite")
                let pull = try await todo.fails("sync", code: 1)
                #expect(pull.contains("http://127.0.0.1:9"))
                _ = try await todo.add("one")
                let push = try await todo.fails("sync", code: 1)
                #expect(push.contains("http://127.0.0.1:9"))
                #expect(push.contains("lost"))
                #expect(try await todo.fails("list", "--remote", code: 1).contains("127.0.0.1:9"))
                #expect(try await todo("list").contains("one"))

                for store in ["none/a.sqlite", "text.txt", "."] {
                    _ = try workspace.file("text.txt", String(repeating: "no database ", count: 99))
                    let broken = TodoProgram(workspace, store)
                    #expect(try await broken.fails("list", code: 1).contains(broken.store))
                }
            }
        }
    }
}
