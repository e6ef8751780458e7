// RestoreTests: a server's database is lost, and an operator restores it from a backup.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

extension ProcessTests {
    struct RestoreTests {
        /// Inserts rows one after the other until it is cancelled or the server has ended.
        private static func write(_ server: ServerProcess) async -> Int {
            var count = 0
            while !Task.isCancelled {
                let body = #"{"id":"w\#(count)"}"#
                let answer = try? await server.wire.send("POST", "/tables/TodoItem", body)
                guard answer?.status == 201 else { break }
                count += 1
            }
            return count
        }

        private static func tideline(
            _ workspace: Workspace,
            _ words: String...
        ) async throws
            -> Finished
        {
            let options = [
                "--config", workspace.path("tideline.json"), "--database",
                "sqlite:" + workspace.path("server.db"),
            ]
            return try await workspace.run(.tideline, words + options)
        }

        @Test("A backup made during writes is restored under a new epoch")
        func backupAndRestore() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let note = try await server.wire.send("POST", "/tables/Note", #"{"id":"a"}"#)
                #expect(note.status == 201)
                let epoch = try await server.wire.send("GET", "/tables/Note")
                    .headers["Tideline-Epoch"]
                let writer = Task { await Self.write(server) }
                // The backup is made during its writes.
                try await until {
                    try await server.wire.send("GET", "/tables/TodoItem/w10").status == 200
                }
                let file = workspace.path("backup.db")
                let backup = try await Self.tideline(workspace, "backup", file)
                #expect(backup.code == 0 && backup.output.contains(file), "\(backup.error)")
                // Rows that the backup does not have:
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"late"}"#)
                let rejected = try await Self.tideline(workspace, "backup", file)
                #expect(rejected.code == 1 && rejected.error.contains("exists"))
                let running = try await Self.tideline(workspace, "restored")
                #expect(running.code == 1 && running.error.contains("in use by another server"))
                try await server.process.destroy()
                let written = await writer.value
                #expect(written > 10)

                try Self.replace(workspace, by: file)
                let restored = try await Self.tideline(workspace, "restored")
                #expect(restored.code == 0, "\(restored.error)")
                try DatabaseFile(workspace.path("server.db")).expectIntact()
                let again = try await server.restart()
                let notes = try await again.wire.send("GET", "/tables/Note")
                #expect(notes.ids == ["a"])
                #expect(notes.headers["Tideline-Epoch"] != epoch)
                let rows = try await again.wire.allRows("TodoItem").compactMap {
                    $0["id"] as? String
                }
                #expect(!rows.isEmpty && Set(rows) == Set((0..<rows.count).map { "w\($0)" }))
                let next = try await again.wire.send("POST", "/tables/Note", #"{"id":"late"}"#)
                #expect(next.status == 201)
            }
        }

        /// Replaces the database by hand, as docs/operations/back-up-and-restore.md describes.
        private static func replace(_ workspace: Workspace, by file: String) throws {
            let manager = FileManager.default
            let path = workspace.path("server.db")
            for end in ["", "-wal", "-shm"] where manager.fileExists(atPath: path + end) {
                try manager.moveItem(atPath: path + end, toPath: path + ".lost" + end)
            }
            try manager.copyItem(atPath: file, toPath: path)
        }

        @Test("A device keeps the rows that a restore lost, and sends them again")
        func devicesKeepWhatTheRestoreLost() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let client = SyncClient(endpoint: server.url)
                let schema = TableSchema(
                    name: "Note",
                    columns: [ColumnDefinition("text", .string)]
                )
                try await client.syncContext.initialize(
                    store: try SQLiteStore(path: workspace.path("device.sqlite")),
                    tables: [],
                    schemas: [schema]
                )
                let notes = try client.syncTable(named: "Note")
                try await notes.insert(["id": "early", "text": "before"])
                try await client.syncContext.push()
                let file = workspace.path("backup.db")
                #expect(try await Self.tideline(workspace, "backup", file).code == 0)
                try await notes.insert(["id": "late", "text": "late"])
                try await notes.update(id: "early") { $0["text"] = "after" }
                try await notes.pull(queryID: "all")
                _ = try await server.stop()
                let restored = try await Self.tideline(workspace, "restore", file)
                #expect(restored.code == 0, "\(restored.error)")
                let again = try await server.restart(samePort: true)

                #expect(again.url == server.url)
                #expect(try await notes.pull(queryID: "all").lost == 2)
                #expect(try await notes.read(id: "late")?["text"] == "late")
                #expect(try await notes.read(id: "early")?["text"] == "after")
                #expect(try await client.syncContext.sendLostRowsAgain() == 2)
                try await client.syncContext.push()
                let there = try await again.wire.allRows("Note").compactMap {
                    $0["text"] as? String
                }
                #expect(Set(there) == ["after", "late"])
            }
        }

        @Test("The restored command rejects a copied file next to the log of the lost database")
        func theLogOfTheLostDatabaseIsDetected() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"a"}"#)
                let file = workspace.path("backup.db")
                #expect(try await Self.tideline(workspace, "backup", file).code == 0)
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"b"}"#)
                try await server.process.destroy()
                let path = workspace.path("server.db")
                try FileManager.default.removeItem(atPath: path)
                try FileManager.default.copyItem(atPath: file, toPath: path)
                let restored = try await Self.tideline(workspace, "restored")
                #expect(restored.code == 1 && restored.error.contains("server.db-wal"))
                #expect(
                    FileManager.default.contentsEqual(atPath: path, andPath: file)
                )
            }
        }

        @Test("A changed column type prevents a start until the migration is applied")
        func migration() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"a","rank":1}"#)
                _ = try await server.stop()
                _ = try workspace.file(
                    "tideline.json",
                    #"{"tables": {"Note": {"columns": {"rank": "string"}}}}"#
                )
                await #expect(throws: (any Error).self) { try await server.restart() }
                let plan = try await Self.tideline(workspace, "migrate")
                #expect(plan.code == 0)
                #expect(plan.output.contains("column 'rank': 1 value becomes string"))
                #expect(plan.output.contains("tideline backup FILE"))
                let done = try await Self.tideline(workspace, "migrate", "--apply")
                #expect(done.code == 0 && done.output.hasSuffix("Done.\n"), "\(done.error)")
                let again = try await server.restart()
                let row = try await again.wire.send("GET", "/tables/Note/a")
                #expect(row.object["rank"] as? String == "1")
            }
        }
    }
}
