// A database file that is moved, removed, replaced, truncated or damaged while its server runs: no further write is
// acknowledged, and the log says what to do.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

@Suite struct FileWatchTests {
    struct Slip: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: String
        /// Performs the operation on the database at this path.
        var make: @Sendable (_ path: String) throws -> Void
    }

    /// Replaces the contents of a file, which is never empty in between: the server looks at it once a second
    /// and would report a file that was cut off.
    private static func overwrite(_ path: String, with other: String) throws {
        let bytes = try #require(FileManager.default.contents(atPath: other))
        let file = try #require(FileHandle(forWritingAtPath: path))
        try file.write(contentsOf: bytes)
        try file.truncate(atOffset: UInt64(bytes.count))
        try file.close()
    }

    static let slips = [
        Slip(testDescription: "mv", code: "databaseMissing") {
            try FileManager.default.moveItem(atPath: $0, toPath: $0 + ".old")
        },
        Slip(testDescription: "rm", code: "databaseMissing") {
            try FileManager.default.removeItem(atPath: $0)
        },
        Slip(testDescription: "rm of the log", code: "databaseMissing") {
            try FileManager.default.removeItem(atPath: $0 + "-wal")
        },
        Slip(testDescription: "rm of the index of the log", code: "databaseMissing") {
            try FileManager.default.removeItem(atPath: $0 + "-shm")
        },
        Slip(testDescription: "mv of another file over it", code: "databaseReplaced") {
            try FileManager.default.copyItem(atPath: $0, toPath: $0 + ".new")
            _ = rename($0 + ".new", $0)
        },
        Slip(testDescription: "cp over it", code: "databaseReplaced") {
            try overwrite($0, with: $0 + ".before")
        },
        Slip(testDescription: "truncate -s 0", code: "databaseTruncated") { _ = truncate($0, 0) },
        Slip(testDescription: "truncate to one page", code: "databaseTruncated") {
            _ = truncate($0, 4096)
        },
        Slip(testDescription: "truncate of the log", code: "databaseTruncated") {
            _ = truncate($0 + "-wal", 0)
        },
        Slip(testDescription: "rm of the lock", code: "databaseLockMissing") {
            try FileManager.default.removeItem(atPath: $0 + "-lock")
        },
    ]

    @Test("A copy from before a checkpoint is detected under the write-ahead log")
    func olderCopy() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.logBytes = 1 << 20
            let server = try await TestServer(path: path, limits: limits)
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
            try FileManager.default.copyItem(atPath: path, toPath: path + ".before")
            func size() throws -> Int {
                try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
            }
            let before = try size()
            let text = String(repeating: "x", count: 90_000)
            for _ in 0..<200 where try size() < before + 400_000 {
                let created = await server.send("POST", "/tables/TodoItem", #"{"text":"\#(text)"}"#)
                #expect(created.status == 201)
            }
            #expect(try size() >= before + 400_000)
            // Another program may read, and may run a checkpoint.
            try Database(path: path, mode: .existing).execute("PRAGMA wal_checkpoint(PASSIVE)")
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
            try Self.overwrite(path, with: path + ".before")
            let rejected = await server.send("POST", "/tables/TodoItem", "{}")
            #expect(rejected.status == 503 && rejected.row["code"] as? String == "databaseReplaced")
            await server.store.stop()
        }
    }

    /// After a kill, the first commit of the next start begins a checkpoint, while the server stores its identity.
    @Test("A server that was killed with a long log writes again after its next start")
    func longLog() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var limits = ServerLimits()
            limits.logBytes = 1 << 30
            let server = try await TestServer(path: path, limits: limits)
            let body = #"{"text":"\#(String(repeating: "x", count: 90_000))"}"#
            for _ in 0..<300 {
                #expect(await server.send("POST", "/tables/TodoItem", body).status == 201)
            }
            let files = ["", "-wal", "-lock"]
            for file in files {
                try FileManager.default.copyItem(
                    atPath: path + file,
                    toPath: path + ".killed" + file
                )
            }
            await server.store.stop()
            for number in 0..<8 {
                let copy = directory + "/\(number).db"
                for file in files {
                    try FileManager.default.copyItem(
                        atPath: path + ".killed" + file,
                        toPath: copy + file
                    )
                }
                let next = try await TestServer(path: copy)
                for id in ["x", "y", "z"] {
                    let created = await next.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                    #expect(created.status == 201, "\(created.row["code"] ?? "")")
                }
                await next.store.stop()
            }
        }
    }

    /// Such a checkpoint copies the first page, with the number of pages, but not a page that was appended and then
    /// changed again.
    @Test("A checkpoint that a reader limits does not look like another file")
    func partialCheckpoint() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path)
            let body = #"{"text":"\#(String(repeating: "x", count: 600))"}"#
            let other = try Database(path: path, mode: .existing)
            for _ in 0..<40 {
                #expect(await server.send("POST", "/tables/TodoItem", body).status == 201)
                let reader = try Database(path: path, mode: .readOnly)
                try reader.execute("BEGIN; SELECT count(*) FROM sqlite_master")
                #expect(await server.send("POST", "/tables/TodoItem", body).status == 201)
                try other.execute("PRAGMA wal_checkpoint(PASSIVE)")
                let next = await server.send("POST", "/tables/TodoItem", body)
                #expect(next.status == 201, "\(next.row["code"] ?? "")")
                try reader.execute("COMMIT")
            }
            await server.store.stop()
        }
    }

    @Test("No write is acknowledged after the files were changed", arguments: slips)
    func slip(_ slip: Slip) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let first = try await TestServer(path: path)
            #expect(await first.send("POST", "/tables/TodoItem", "{}").status == 201)
            await first.store.stop()
            try FileManager.default.copyItem(atPath: path, toPath: path + ".before")
            let lines = Mutex("")
            let log = ServerLog(level: .error, now: { 0 }) { line in
                lines.withLock { $0 += String(decoding: line, as: UTF8.self) }
            }
            let server = try await TestServer(path: path, storeLog: log)
            #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
            #expect(await server.send("GET", "/health/ready").status == 200)
            try slip.make(path)
            let rejected = await server.send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
            #expect(rejected.status == 503)
            #expect(rejected.row["code"] as? String == slip.code)
            #expect(!rejected.error.contains(path))
            #expect(await server.send("GET", "/health/ready").status == 503)
            let reported = lines.withLock { $0 }
            #expect(reported.contains(slip.code) && reported.contains(path))
            await server.store.stop()
        }
    }

    @Test("A database that was moved is served again with all rows when it is moved back")
    func movedBack() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path)
            #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
            try FileManager.default.moveItem(atPath: path, toPath: path + ".old")
            #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"b"}"#).status == 503)
            await server.store.stop()
            try FileManager.default.moveItem(atPath: path + ".old", toPath: path)
            let again = try await TestServer(path: path)
            #expect(await again.send("GET", "/tables/TodoItem/a").status == 200)
            await again.store.stop()
        }
    }

    #if os(Linux)
    @Test("A second server does not start even if the lock file is removed")
    func lockFileRemoved() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path)
            try FileManager.default.removeItem(atPath: path + "-lock")
            let error = #expect(throws: DatabaseError.self) { try SQLiteTableStore(path: path) }
            #expect(error?.code == .inUse)
            await server.store.stop()
            try await TestServer(path: path).store.stop()
        }
    }
    #endif

    @Test("A damaged file is not served", arguments: [4096, 8192, 12288])
    func damagedAtStart(_ offset: Int) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            try await Self.filled(path).store.stop()
            try Self.damage(path, from: offset)
            await #expect(throws: DatabaseError.self) { try await TestServer(path: path) }
        }
    }

    private static func damage(_ path: String, from offset: Int) throws {
        let file = try #require(FileHandle(forUpdatingAtPath: path))
        try file.seek(toOffset: UInt64(offset))
        try file.write(contentsOf: Data(repeating: 0xA5, count: 4096))
        try file.close()
    }

    private static func filled(_ path: String) async throws -> TestServer {
        let server = try await TestServer(path: path)
        let text = String(repeating: "x", count: 500)
        for index in 0..<100 {
            let answer = await server.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"\#(index)","text":"\#(text)"}"#
            )
            #expect(answer.status == 201)
        }
        return server
    }

    @Test("Only its owner may read a new database")
    func permissions() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path)
            for end in ["", "-wal", "-shm"] {
                let attributes = try FileManager.default.attributesOfItem(atPath: path + end)
                #expect(attributes[.posixPermissions] as? Int == 0o600)
            }
            await server.store.stop()
        }
    }

    // MARK: - History

    @Test("A restart keeps the epoch, even after a kill")
    func restart() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var epochs: Set<String> = []
            for index in 0..<3 {
                let server = try await TestServer(path: path)
                epochs.insert(try await server.store.epoch())
                #expect(
                    await server.send("POST", "/tables/TodoItem", #"{"id":"\#(index)"}"#).status
                        == 201
                )
                await server.store.stop()
            }
            // A missing lock file proves nothing, and the file is the same.
            try FileManager.default.removeItem(atPath: path + "-lock")
            let server = try await TestServer(path: path)
            epochs.insert(try await server.store.epoch())
            await server.store.stop()
            #expect(epochs.count == 1)
        }
    }

    @Test("A restore of an earlier copy starts a new epoch", arguments: [false, true])
    func putBack(asBackup: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let first = try await Self.filled(path)
            let epoch = try await first.store.epoch()
            if asBackup {
                _ = try DatabaseBackup(of: path, to: directory + "/copy").make()
            }
            await first.store.stop()
            if !asBackup {
                try FileManager.default.copyItem(atPath: path, toPath: directory + "/copy")
            }
            let second = try await TestServer(path: path)
            #expect(try await second.store.epoch() == epoch)
            #expect(await second.send("POST", "/tables/TodoItem", #"{"id":"b"}"#).status == 201)
            await second.store.stop()
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.copyItem(atPath: directory + "/copy", toPath: path)
            let third = try await TestServer(path: path)
            let renewed = try await third.store.epoch()
            #expect(renewed != epoch)
            await third.store.stop()
            // Once.
            let fourth = try await TestServer(path: path)
            #expect(try await fourth.store.epoch() == renewed)
            await fourth.store.stop()
        }
    }
}
