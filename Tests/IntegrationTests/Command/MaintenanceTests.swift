// MaintenanceTests: maintenance of database files: restore, purge-tombstones, inspect.

import Foundation
import Testing
import Tideline
import TidelineSQLite

extension ProcessTests {
    struct MaintenanceTests {
        private static func tideline(
            _ workspace: Workspace,
            _ words: String...
        ) async throws -> Finished {
            let options = [
                "--config", workspace.path("tideline.json"), "--database",
                "sqlite:" + workspace.path("server.db"),
            ]
            return try await workspace.run(.tideline, words + options)
        }

        private static func object(_ finished: Finished) -> [String: Any] {
            let data = Data(finished.output.utf8)
            return (try? JSONSerialization.jsonObject(with: data)) as? [String: Any] ?? [:]
        }

        @Test("A restore preserves the replaced database and gives the restored one a new epoch")
        func restorePutsABackupInPlace() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let note = try await server.wire.send("POST", "/tables/Note", #"{"id":"a"}"#)
                #expect(note.status == 201)
                let epoch = try await server.wire.send("GET", "/tables/Note")
                    .headers["Tideline-Epoch"]
                let file = workspace.path("backup.db")
                #expect(try await Self.tideline(workspace, "backup", file).code == 0)
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"late"}"#)
                let running = try await Self.tideline(workspace, "restore", file)
                #expect(running.code == 1 && running.error.contains("in use by another server"))
                // Its log is lost with it.
                try await server.process.destroy()
                let restored = try await Self.tideline(workspace, "restore", file, "--json")
                #expect(restored.code == 0, "\(restored.error)")
                let report = Self.object(restored)
                let former = try #require(report["former"] as? String)
                for end in ["", "-wal"] {
                    #expect(FileManager.default.fileExists(atPath: former + end))
                }
                #expect(
                    try FileManager.default.contentsOfDirectory(atPath: workspace.directory)
                        .filter { $0.contains("restoring") }.isEmpty
                )
                try DatabaseFile(workspace.path("server.db")).expectIntact()
                let again = try await server.restart()
                let notes = try await again.wire.send("GET", "/tables/Note")
                #expect(notes.ids == ["a"])
                #expect(notes.headers["Tideline-Epoch"] == report["epoch"] as? String)
                #expect(notes.headers["Tideline-Epoch"] != epoch)
                #expect(try await again.stop() == .exit(0))
                // The lost database is complete: it is a backup like any other.
                let back = try await Self.tideline(workspace, "restore", former)
                #expect(back.code == 0 && back.output.contains("new epoch"), "\(back.error)")
                let last = try await again.restart()
                #expect(try await last.wire.send("GET", "/tables/Note").ids == ["a", "late"])
            }
        }

        /// A copy from a killed server, whose last writes are in the write-ahead log.
        @Test("A restore warns that the write-ahead log of the file is missing")
        func aFileWithoutItsLogIsReported() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let note = try await server.wire.send("POST", "/tables/Note", #"{"id":"a"}"#)
                #expect(note.status == 201)
                try await server.process.destroy()
                let bare = workspace.path("bare.db")
                try FileManager.default.copyItem(atPath: workspace.path("server.db"), toPath: bare)
                // A server's file has the log from its first moment on.
                let restored = try await Self.tideline(workspace, "restore", bare)
                #expect(restored.code == 0 && restored.error.contains("'\(bare)-wal'"))
            }
        }

        @Test(
            "An empty SQLite database is reported as one without tables of a server",
            arguments: ["backup", "restore", "restored"]
        )
        func anEmptyFileIsNotAServersDatabase(_ command: String) async throws {
            try await withWorkspace { workspace in
                let blank = workspace.path("blank.db")
                try Database(path: blank).execute("PRAGMA journal_mode = WAL")
                let server = try await ServerProcess.start(in: workspace)
                #expect(try await server.stop() == .exit(0))
                let config = ["--config", workspace.path("tideline.json")]
                var words = command.split(separator: " ").map(String.init)
                if command == "backup" { words.append(workspace.path("copy.db")) }
                if command == "restore" { words.append(blank) }
                let database = command == "restore" ? workspace.path("server.db") : blank
                let ended = try await workspace.run(
                    .tideline,
                    words + config + ["--database", "sqlite:" + database]
                )
                #expect(ended.code == 1 && ended.error.contains("has no tables of a server"))
                #expect(!FileManager.default.fileExists(atPath: workspace.path("copy.db")))
            }
        }

        @Test(
            "A file that is not a backup leaves the database unchanged",
            arguments: ["missing.db", "text.db", "empty.db", "store.db", "server.db"]
        )
        func aFileThatIsNotABackupIsNotRestored(_ name: String) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"a"}"#)
                #expect(try await server.stop() == .exit(0))
                _ = try workspace.file("text.db", String(repeating: "no database ", count: 100))
                _ = try workspace.file("empty.db", "")
                let todo = TodoProgram(workspace, "store.db")
                _ = try await todo.add("milk")
                let before = try Data(contentsOf: URL(filePath: workspace.path("server.db")))
                let ended = try await Self.tideline(workspace, "restore", workspace.path(name))
                #expect(ended.code == 1)
                #expect(ended.error.contains("Nothing was restored") && ended.error.contains(name))
                let after = try Data(contentsOf: URL(filePath: workspace.path("server.db")))
                #expect(before == after)
            }
        }

        @Test("Tombstones older than the given number of days are purged")
        func deletedRowsArePurged() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                for table in ["Note", "TodoItem"] {
                    for id in ["a", "b"] {
                        let body = #"{"id":"\#(id)"}"#
                        _ = try await server.wire.send("POST", "/tables/\(table)", body)
                    }
                    _ = try await server.wire.send("DELETE", "/tables/\(table)/a")
                }
                let running = try await Self.tideline(workspace, "purge-tombstones", "--days", "0")
                #expect(running.code == 1 && running.error.contains("in use by another server"))
                #expect(try await server.stop() == .exit(0))
                let young = try await Self.tideline(
                    workspace,
                    "purge-tombstones",
                    "--days",
                    "1",
                    "--json"
                )
                #expect(
                    young.output == #"{"tables":[{"name":"Note","removed":0},"#
                        + #"{"name":"TodoItem","removed":0}]}"# + "\n"
                )
                let purged = try await Self.tideline(
                    workspace,
                    "purge-tombstones",
                    "--days",
                    "0",
                    "--tables",
                    "note"
                )
                #expect(purged.code == 0 && purged.output.contains("Note  1"), "\(purged.output)")
                let unknown = try await Self.tideline(
                    workspace,
                    "purge-tombstones",
                    "--days",
                    "0",
                    "--tables",
                    "None"
                )
                #expect(unknown.code == 1 && unknown.error.contains("Its tables: Note, TodoItem"))
                let missing = try await Self.tideline(workspace, "purge-tombstones")
                #expect(missing.code == 2 && missing.error.contains("--days"))
                let again = try await server.restart()
                let list = try await again.wire.send("GET", "/tables/Note?__includeDeleted=true")
                #expect(list.ids == ["b"])
                #expect(list.headers["Tideline-Horizon"] != nil)
                let others = try await again.wire.allRows("TodoItem")
                #expect(others.count == 2)
            }
        }

        // MARK: - Inspecting files

        @Test("Inspect describes a server's database without showing its values")
        func aServersDatabaseIsDescribed() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                for id in ["a", "b", "c"] {
                    let body = #"{"id":"\#(id)","text":"a secret"}"#
                    _ = try await server.wire.send("POST", "/tables/Note", body)
                }
                _ = try await server.wire.send("DELETE", "/tables/Note/c")
                let epoch = try await server.wire.send("GET", "/tables/Note")
                    .headers["Tideline-Epoch"]
                // While it runs, and after it has ended.
                for isRunning in [true, false] {
                    if !isRunning { _ = try await server.stop() }
                    let files = try FileManager.default.contentsOfDirectory(
                        atPath: workspace.directory
                    )
                    let file = workspace.path("server.db")
                    let ended = try await workspace.run(.tideline, ["inspect", file, "--json"])
                    #expect(ended.code == 0, "\(ended.error)")
                    let report = Self.object(ended)
                    #expect(report["kind"] as? String == "server")
                    #expect(report["epoch"] as? String == epoch)
                    let tables = try #require(report["tables"] as? [[String: Any]])
                    #expect(tables.map { $0["name"] as? String } == ["Note", "TodoItem"])
                    #expect(tables[0]["rows"] as? Int == 2 && tables[0]["deleted"] as? Int == 1)
                    #expect(tables[0]["lastWrite"] is String && tables[1]["lastWrite"] is NSNull)
                    let text = try await workspace.run(.tideline, ["inspect", file])
                    #expect(text.output.contains("Note"))
                    #expect(!(text.output + ended.output).contains("a secret"))
                    let left = try FileManager.default.contentsOfDirectory(
                        atPath: workspace.directory
                    )
                    #expect(
                        left.filter { $0.hasPrefix("server") }.sorted()
                            == files.filter { $0.hasPrefix("server") }.sorted()
                    )
                }
            }
        }

        @Test("Inspect describes a device's store, and doctor compares it with the server")
        func aDevicesStoreIsDescribed() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let todo = TodoProgram(workspace, "store.db", server.url)
                _ = try await todo.add("milk")
                _ = try await todo("sync")
                let id = try await todo.add("a secret")
                let file = workspace.path("store.db")
                let ended = try await workspace.run(.tideline, ["inspect", file, "--json"])
                #expect(ended.code == 0, "\(ended.error)")
                let report = Self.object(ended)
                #expect(report["kind"] as? String == "store")
                #expect(report["queued"] as? Int == 1)
                let queue = try #require(report["queue"] as? [[String: Any]])
                #expect(queue.count == 1 && (queue[0]["item"] as? String)?.hasPrefix(id) == true)
                #expect(queue.map { $0["kind"] as? String } == ["insert"])
                #expect(queue.map { $0["state"] as? String } == ["pending"])
                let cursors = try #require(report["cursors"] as? [[String: Any]])
                #expect(cursors.contains { $0["table"] as? String == "TodoItem" })
                #expect(!ended.output.contains("a secret") && !ended.output.contains("milk"))
                // The store's contents are compared with the server's.
                let doctor = try await workspace.run(
                    .tideline,
                    ["doctor", "--server", "\(server.url)", "--store", file]
                )
                #expect(doctor.code == 0, "\(doctor.output) \(doctor.error)")
                #expect(doctor.output.contains("1 operations are pending"))
                #expect(doctor.output.contains("table TodoItem"))
                #expect(!doctor.output.contains("restored or replaced"))
                _ = try await server.stop()
                let restored = try await Self.tideline(workspace, "restored")
                #expect(restored.code == 0)
                let again = try await server.restart()
                let warned = try await workspace.run(
                    .tideline,
                    ["doctor", "--server", "\(again.url)", "--store", file]
                )
                #expect(warned.code == 0 && warned.output.contains("restored or replaced"))
            }
        }

        @Test(
            "Inspect rejects missing files and files that are not SQLite databases",
            arguments: [
                ("missing.db", "does not exist"), ("text.db", "not an SQLite database"),
            ]
        )
        func otherFilesAreNotDescribed(_ name: String, _ text: String) async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("text.db", String(repeating: "no database ", count: 100))
                let ended = try await workspace.run(.tideline, ["inspect", workspace.path(name)])
                #expect(ended.code == 1 && ended.error.contains(text), "\(ended.error)")
            }
        }
    }
}
