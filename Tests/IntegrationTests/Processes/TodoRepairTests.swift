// TodoRepairTests: `todo` on a store whose file was damaged: its messages in its own terms, and the remedies.

import Foundation
import Testing

extension ProcessTests {
    struct TodoRepairTests {
        private static func change(_ todo: TodoProgram, _ sql: String) throws {
            _ = try DatabaseFile(todo.store).rows(sql)
        }

        /// Names of Swift methods do not help a user who types commands.
        private static func expectCommands(
            _ text: String,
            sourceLocation: SourceLocation = #_sourceLocation
        ) {
            for call in ["()", "with:)", "tables:", "onDecodingFailure"] {
                #expect(!text.contains(call), "\(text)", sourceLocation: sourceLocation)
            }
        }

        @Test("Verifying a sync finds a missing row and repairs it")
        func verifyFindsAndRepairs() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let milk = try await todo.add("Buy milk")
                let bread = try await todo.add("Buy bread")
                let same = "verified: device and server have the same 2 items\n"
                #expect(try await todo("sync", "--verify").hasSuffix(same))
                try Self.change(todo, "DELETE FROM TodoItem WHERE text = 'Buy milk'")
                let repaired = try await todo("sync", "--verify")
                #expect(
                    repaired.hasSuffix(
                        "verified: 1 missing, 0 different, 0 too many; repaired 1\n"
                    )
                )
                #expect(try await todo("sync", "--verify").hasSuffix(same))
                let list = "[ ] \(bread)  Buy bread\n[ ] \(milk)  Buy milk\n"
                #expect(try await todo("list") == list)
            }
        }

        @Test("The why command reports the state of an item")
        func whyReportsTheStateOfAnItem() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: ServerProcess.configuration.replacing(
                        "\"limits\": {",
                        with: "\"limits\": { \"rowBytes\": 2000,"
                    )
                )
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let short = try await todo.add("short")
                let long = try await todo.add(String(repeating: "long ", count: 1000))
                _ = try await todo.fails("sync", code: 1)
                let sent = try await todo("why", short)
                #expect(sent.hasPrefix(short))
                #expect(sent.contains("  The row is on this device.\n"))
                #expect(sent.contains("  The row matches server version "))
                #expect(!sent.contains("todo conflicts"))
                let rejected = try await todo("why", long)
                #expect(rejected.contains("  The insert was rejected by the server (413)"))
                #expect(rejected.contains("  Run 'todo conflicts' to see how to resolve it.\n"))
                Self.expectCommands(rejected)
                try await todo("rm", short)
                #expect(try await todo("why", short).contains("it was deleted here"))
            }
        }

        /// An unreadable operation is dropped by the id of its item, or by a separate id if it names no item.
        ///
        /// The local version cannot be kept.
        @Test(
            "A damaged operation can be dropped by its ID",
            arguments: ["kind = 9", "itemId = NULL"]
        )
        func aDamagedOperationCanBeDropped(damage: String) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                let milk = try await todo.add("Buy milk")
                try await todo("sync")
                try await todo("edit", milk, "Buy more milk")
                try Self.change(todo, "UPDATE MS_TableOperations SET \(damage)")
                let failed = try await todo.fails("sync", code: 1)
                #expect(failed.contains("A change cannot be sent."))
                Self.expectCommands(failed)
                let conflicts = try await todo("conflicts")
                Self.expectCommands(conflicts)
                let id = String(conflicts.prefix { $0 != " " })
                #expect((id == milk) == (damage == "kind = 9"), "\(id)")
                #expect(conflicts.contains("  update not sent\n"))
                #expect(conflicts.contains("todo conflicts take-theirs \(id) --discard"))
                let kept = try await todo.fails("conflicts", "keep-mine", id, code: 1)
                let reason = damage == "itemId = NULL" ? "no item to keep" : "mine cannot be kept"
                #expect(kept.contains(reason))
                Self.expectCommands(kept)
                try await todo("conflicts", "take-theirs", id, "--discard")
                #expect(try await todo("conflicts") == "no conflicts\n")
                try await todo("sync")
                #expect(try await todo("list") == "[ ] \(milk)  Buy milk\n")
            }
        }

        /// Ids with the same prefix are shown with as many characters as it takes to distinguish them; an empty
        /// rejection is resolved like any other.
        @Test("Conflicts with similar IDs are shown with IDs that select exactly one")
        func aConflictIsNamedSoThatItCanBeResolved() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: ServerProcess.configuration.replacing(
                        "\"limits\": {",
                        with: "\"limits\": { \"rowBytes\": 2000,"
                    )
                )
                let todo = TodoProgram(workspace, "a.sqlite", server.url)
                for number in 1...2 {
                    _ = try await todo.add("\(number)" + String(repeating: " long", count: 1000))
                    try Self.change(
                        todo,
                        "UPDATE TodoItem SET id = 'alike-00-\(number)' WHERE text LIKE '\(number)%'"
                    )
                    try Self.change(
                        todo,
                        """
                        UPDATE MS_TableOperations SET itemId = 'alike-00-\(number)'
                        WHERE id = \(number)
                        """
                    )
                }
                _ = try await todo.fails("sync", code: 1)
                try Self.change(todo, "DELETE FROM MS_TableOperationErrors WHERE operationId = 1")
                let conflicts = try await todo("conflicts")
                #expect(conflicts.contains("alike-00-1  insert not sent\n"))
                #expect(conflicts.contains("alike-00-2  insert rejected (413)\n"))
                #expect(conflicts.contains("'todo conflicts keep-mine alike-00-1'"))
                try await todo("conflicts", "take-theirs", "alike-00-2", "--discard")
                let kept = "kept mine; 'todo sync' sends it\n"
                #expect(try await todo("conflicts", "keep-mine", "alike-00-1") == kept)
                #expect(try await todo("conflicts") == "no conflicts\n")
            }
        }

        @Test("Messages recommend commands and options of the program")
        func remediesAreCommands() async throws {
            try await withWorkspace { workspace in
                var todo = TodoProgram(workspace, "a.sqlite")
                todo.server = "http://0.0.0.0:9"
                let insecure = try await todo.fails("sync", code: 1)
                #expect(insecure.contains("http://0.0.0.0:9 is plain http"))
                #expect(insecure.contains("--allow-insecure-endpoint."))
                #expect(!insecure.contains("allowsInsecureEndpoint"))
                let id = try await todo.add("milk")
                try Self.change(todo, "UPDATE TodoItem SET complete = 'perhaps'")
                let listed = try await todo.run(["list"])
                #expect(listed.error.contains("'todo rm' removes it"), "\(listed.error)")
                #expect(listed.error.contains(id))
                Self.expectCommands(listed.error)
            }
        }

        @Test(
            "A server address with a user name, password or query is rejected",
            arguments: ["http://127.0.0.1:9/?key=secret", "http://me:secret@127.0.0.1:9"]
        )
        func anAddressWithOtherPartsIsRejected(address: String) async throws {
            try await withWorkspace { workspace in
                var todo = TodoProgram(workspace, "a.sqlite")
                todo.server = address
                let message = try await todo.fails("list", code: 2)
                #expect(message.contains("must not have a user name, password, query or fragment"))
                #expect(!message.contains("secret"))
            }
        }
    }
}
