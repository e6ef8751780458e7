// RestoreStepTests: a restore that fails or is interrupted at one of its steps, and unfinished copies: the result is
// the old database or the backup, or an error says what to do.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite

@Suite struct RestoreStepTests {
    private static let files = FileManager.default

    private static func database(_ path: String) throws -> ServerDatabase {
        var configuration = ServerConfiguration()
        configuration.database = .sqlite(path: path)
        configuration.tables = [TestServer.todo]
        return try ServerDatabase(configuration)
    }

    /// A backup with the row `a`, and a server's files as a kill leaves them, with the row `b` in the log.
    private static func fill(_ directory: String, _ name: String) async throws {
        let server = try await TestServer(path: directory + "/made.db")
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        try Self.database(directory + "/made.db").backup(to: directory + "/backup.db")
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
        for end in ["", "-wal"] {
            try files.copyItem(
                atPath: directory + "/made.db" + end,
                toPath: directory + "/" + name + end
            )
        }
        await server.store.stop()
    }

    private static func ids(_ path: String) async throws -> [String] {
        let server = try await TestServer(path: path)
        let ids = await server.send("GET", "/tables/TodoItem").ids
        await server.store.stop()
        return ids
    }

    @Test("The temporary file of a restore is rejected as a backup")
    func theFileThatARestoreCreatesIsNotABackup() async throws {
        try await withTemporaryDirectory { directory in
            try await Self.fill(directory, "a.db")
            let file = directory + "/a.db.restoring"
            try Self.files.moveItem(atPath: directory + "/backup.db", toPath: file)
            let error = #expect(throws: DatabaseError.self) {
                try Self.database(directory + "/a.db").restore(from: file)
            }
            #expect(error?.code == .exists && error?.message.contains("Rename it") == true)
            #expect(try await Self.ids(file) == ["a"])
            #expect(try await Self.ids(directory + "/a.db") == ["a", "b"])
        }
    }

    @Test("A server does not start after an interrupted restore, which can be completed")
    func aServerDoesNotCreateADatabaseAfterAnInterruptedRestore() async throws {
        try await withTemporaryDirectory { directory in
            try await Self.fill(directory, "a.db.lost-1")
            let path = directory + "/a.db"
            // The log was not moved yet.
            try Self.files.moveItem(atPath: path + ".lost-1-wal", toPath: path + "-wal")
            try Self.files.copyItem(
                atPath: directory + "/backup.db",
                toPath: path + ".restoring"
            )
            for _ in 0..<2 {
                let error = #expect(throws: DatabaseError.self) { try SQLiteTableStore(path: path) }
                #expect(error?.message.contains("tideline restore") == true)
                #expect(!Self.files.fileExists(atPath: path))
                #expect(throws: DatabaseError.self) { try Self.database(path).renewEpoch() }
            }
            let result = try Self.database(path).restore(from: directory + "/backup.db")
            #expect(try await Self.ids(path) == ["a"])
            // Files that belong together have matching names.
            #expect(result.former == path + ".lost-1")
            #expect(try await Self.ids(path + ".lost-1") == ["a", "b"])
            let left = try Self.files.contentsOfDirectory(atPath: directory)
            #expect(!left.contains { $0.contains("restoring") })
        }
    }

    /// The next name for the log is longer than the file system allows.
    @Test("A restore moves files back when the next step fails")
    func movedFilesAreMovedBackWhenTheNextStepFails() async throws {
        try await withTemporaryDirectory { directory in
            let name = String(repeating: "d", count: 221)
            try await Self.fill(directory, name)
            let path = directory + "/" + name
            // The next free name has a number with four digits.
            for number in 1..<1000 {
                let end = number == 1 ? "" : "-\(number)"
                try Data().write(to: URL(filePath: path + ".lost-\(Int64.min)" + end))
            }
            let restore = DatabaseRestore(of: directory + "/backup.db", to: path)
            let error = #expect(throws: DatabaseError.self) { try restore.make(now: .min) }
            #expect(
                error?.message.contains("The database was not changed") == true,
                "\(error?.message ?? "")"
            )
            let left = try Self.files.contentsOfDirectory(atPath: directory)
            #expect(!left.contains { $0.hasSuffix("-1000") || $0.contains("restoring") })
            #expect(try await Self.ids(path) == ["a", "b"])
        }
    }

    // MARK: - Copies

    private struct Killed: Error {}

    @Test("Maintenance rejects an unfinished copy, which can be continued")
    func anUnfinishedCopyIsNotServed() async throws {
        try await withTemporaryDirectory { directory in
            try await Self.fill(directory, "a.db")
            let half = directory + "/half.db"
            #expect(throws: Killed.self) {
                try ServerDatabase.copy(
                    from: .sqlite(path: directory + "/a.db"),
                    to: .sqlite(path: half)
                ) { _, _ in throw Killed() }
            }
            let database = try Self.database(half)
            let care: [() throws -> Void] = [
                { _ = try database.renewEpoch() },
                { _ = try database.purgeTombstones(olderThan: 0) },
                { _ = try database.backup(to: directory + "/copy.db") },
            ]
            for call in care {
                let error = #expect(throws: DatabaseError.self) { try call() }
                #expect(error?.message.contains("is incomplete") == true)
            }
            // The copy continues from where it was interrupted.
            try ServerDatabase.copy(
                from: .sqlite(path: directory + "/a.db"),
                to: .sqlite(path: half)
            )
            #expect(try await Self.ids(half) == ["a", "b"])
        }
    }

    /// A write that is repeated later must be known in the copy as well.
    @Test("A copy detects a ledger entry that was added meanwhile")
    func aLedgerEntryThatWasAddedMeanwhileIsDetected() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path)
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            await server.store.stop()
            let copy = directory + "/copy.db"
            let error = #expect(throws: DatabaseError.self) {
                try ServerDatabase.copy(
                    from: .sqlite(path: path),
                    to: .sqlite(path: copy),
                    report: { part, _ in if part == "ledger" { try Self.enter(path) } }
                )
            }
            #expect(error?.code == .inUse)
        }
    }

    private static func enter(_ path: String) throws {
        try Database(path: path).execute(
            """
            INSERT INTO "tideline_ledger"
            ("place", "request", "caller", "received", "digest", "outcome", "id")
            VALUES (1000, 'named', '', 1, x'00', 'missing', 'b')
            """
        )
    }
}
