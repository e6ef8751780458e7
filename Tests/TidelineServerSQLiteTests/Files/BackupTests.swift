// Backups of a database during writes, and the epoch after a restore.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite

@Suite struct BackupTests {
    private static func database(_ path: String) throws -> ServerDatabase {
        var configuration = ServerConfiguration()
        configuration.database = .sqlite(path: path)
        configuration.tables = [TestServer.todo]
        return try ServerDatabase(configuration)
    }

    @Test("A backup copies the database while rows are written")
    func copiesWhileRowsAreWritten() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            for index in 0..<100 {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(index)"}"#)
            }
            let database = try Self.database(directory + "/a.db")
            async let writes: Void = {
                for index in 100..<300 {
                    _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(index)"}"#)
                }
            }()
            let copy = directory + "/copy.db"
            let bytes = try database.backup(to: copy)
            await writes
            await server.store.stop()
            let attributes = try FileManager.default.attributesOfItem(atPath: copy)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            #expect(attributes[.size] as? Int64 == bytes)
            let files = try FileManager.default.contentsOfDirectory(atPath: directory)
                .filter { $0.hasPrefix("copy") }
            #expect(files == ["copy.db"])
            try checkPrefix(copy)
            let restored = try await TestServer(path: copy)
            #expect(await restored.send("GET", "/tables/TodoItem/99").status == 200)
            await restored.store.stop()
        }
    }

    /// A backup is the state after a commit: if it has a row, it has all earlier rows.
    private func checkPrefix(_ path: String) throws {
        let copy = try Database(path: path, mode: .readOnly)
        let count = try copy.integer("SELECT count(*) FROM TodoItem") ?? 0
        let last = try copy.integer("SELECT max(CAST(id AS INTEGER)) FROM TodoItem") ?? 0
        #expect(count >= 100 && count == last + 1)
        let timestamp = try copy.integer("SELECT max(updatedAt) FROM TodoItem")
        #expect(try copy.integer("SELECT stamp FROM tideline_tables") == timestamp)
    }

    @Test(
        "A backup does not overwrite a file",
        arguments: ["copy.db", "copy.db-wal", "copy.db-journal"]
    )
    func overwritesNothing(_ name: String) async throws {
        try await withTemporaryDirectory { directory in
            try await TestServer(path: directory + "/a.db").store.stop()
            try Data("mine".utf8).write(to: URL(filePath: directory + "/" + name))
            let database = try Self.database(directory + "/a.db")
            let error = #expect(throws: DatabaseError.self) {
                try database.backup(to: directory + "/copy.db")
            }
            #expect(error?.code == .exists)
            let files = try FileManager.default.contentsOfDirectory(atPath: directory)
                .filter { $0.hasPrefix("copy") }
            #expect(files == [name])
            let kept = FileManager.default.contents(atPath: directory + "/" + name)
            #expect(kept == Data("mine".utf8))
        }
    }

    @Test("A backup removes the files of a killed backup but not those of a running one")
    func removesTheFilesOfAKilledBackup() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let copy = directory + "/copy.db"
            let kept = ["copy.db.partial-1", "copy.db.partial-x", "other.db.partial-7"]
            let left = ["copy.db.partial-99999", "copy.db.partial-99999-journal"]
            for name in kept + left + ["copy.db.partial-88888-journal"] {
                try Data("x".utf8).write(to: URL(filePath: directory + "/" + name))
            }
            let running = open(directory + "/copy.db.partial-1", O_RDONLY)
            #expect(flock(running, LOCK_EX | LOCK_NB) == 0)
            defer { close(running) }
            try Self.database(directory + "/a.db").backup(to: copy)
            let files = try FileManager.default.contentsOfDirectory(atPath: directory)
                .filter { $0.contains("partial") }
            #expect(files.sorted() == kept)
            await server.store.stop()
        }
    }

    @Test("A backup of a file that is missing or not a database is rejected")
    func aSourceThatIsNotADatabase() async throws {
        try await withTemporaryDirectory { directory in
            try Data("text".utf8).write(to: URL(filePath: directory + "/text"))
            for (name, code) in [("none", DatabaseError.Code.missing), ("text", .foreign)] {
                let database = try Self.database(directory + "/" + name)
                let error = #expect(throws: DatabaseError.self) {
                    try database.backup(to: directory + "/copy.db")
                }
                #expect(error?.code == code)
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["text"])
        }
    }

    @Test("A database in memory cannot be backed up")
    func aDatabaseInMemoryCannotBeBackedUp() throws {
        var configuration = ServerConfiguration()
        configuration.database = .memory
        #expect(throws: DatabaseError.self) { try ServerDatabase(configuration) }
    }

    @Test("A new epoch needs exclusive access to the file")
    func aNewEpochNeedsExclusiveAccessToTheFile() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path)
            let before = await server.send("GET", "/tables/TodoItem").headers["Tideline-Epoch"]
            let database = try Self.database(path)
            let error = #expect(throws: DatabaseError.self) { try database.renewEpoch() }
            #expect(error?.code == .inUse)
            await server.store.stop()
            let epoch = try database.renewEpoch()
            #expect(epoch != before && !epoch.isEmpty)
            let again = try await TestServer(path: path)
            let after = await again.send("GET", "/tables/TodoItem").headers["Tideline-Epoch"]
            #expect(after == epoch)
            await again.store.stop()
        }
    }
}
