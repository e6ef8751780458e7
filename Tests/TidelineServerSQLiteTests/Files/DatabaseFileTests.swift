// Files that a server is given as its database: which ones are rejected, with which message, and that they stay
// unchanged.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct DatabaseFileTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var code: DatabaseError.Code
        var words: [String]
        /// Creates the file `a.db` in the directory.
        var make: @Sendable (String) throws -> Void

        var testDescription: String { name }
    }

    private static func sql(_ text: String, _ path: String) throws {
        let database = try Database(path: path, mode: .readWrite)
        try database.execute("PRAGMA journal_mode = DELETE")
        try database.execute(text)
    }

    static let cases = [
        Case(name: "newer", code: .newerFormat, words: ["format 99", "Install the newer server"]) {
            try sql("CREATE TABLE tideline_tables (a); PRAGMA user_version = 99", $0)
        },
        Case(name: "tables of others", code: .foreign, words: ["not created by a Tideline server"])
        {
            try sql("CREATE TABLE t (a)", $0)
        },
        Case(
            name: "a format of others",
            code: .foreign,
            words: ["not created by a Tideline server"]
        ) {
            try sql("PRAGMA user_version = 1", $0)
        },
        Case(name: "mark of others", code: .foreign, words: ["not created by a Tideline server"]) {
            try sql("PRAGMA application_id = 5", $0)
        },
        Case(name: "store of a client", code: .foreign, words: ["local store of a client"]) {
            try sql("PRAGMA application_id = \(0x5449_4445)", $0)
        },
        Case(name: "store of another client", code: .foreign, words: ["local store of a client"]) {
            try sql("CREATE TABLE MS_TableOperations (id)", $0)
        },
        Case(name: "text", code: .foreign, words: ["not an SQLite database"]) {
            try Data("hello".utf8).write(to: URL(filePath: $0))
        },
        Case(name: "long text", code: .foreign, words: ["not an SQLite database"]) {
            try Data(repeating: 0x41, count: 9000).write(to: URL(filePath: $0))
        },
        Case(name: "folder", code: .foreign, words: ["is a folder"]) {
            try FileManager.default.createDirectory(
                atPath: $0,
                withIntermediateDirectories: false
            )
        },
        Case(name: "log of another file", code: .staleLog, words: ["a.db-wal", "away"]) {
            try sql("CREATE TABLE tideline_tables (a)", $0)
            try Data("log".utf8).write(to: URL(filePath: $0 + "-wal"))
        },
        Case(name: "log without a file", code: .staleLog, words: ["a.db-wal"]) {
            try Data("log".utf8).write(to: URL(filePath: $0 + "-wal"))
            try Data().write(to: URL(filePath: $0))
        },
    ]

    /// The files in a directory with their bytes.
    private static func snapshot(_ directory: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            files[name] = FileManager.default.contents(atPath: directory + "/" + name) ?? Data()
        }
        return files
    }

    @Test("A file that is rejected at the start is not changed", arguments: cases)
    func rejectedFilesStayUnchanged(_ example: Case) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            try example.make(path)
            let before = try Self.snapshot(directory)
            let error = #expect(throws: DatabaseError.self) { try SQLiteTableStore(path: path) }
            #expect(error?.code == example.code)
            for word in example.words {
                #expect(error?.message.contains(word) == true, "\(error?.message ?? "")")
            }
            #expect(try Self.snapshot(directory) == before)
        }
    }

    @Test("A missing folder is reported with the command that creates it")
    func missingFolder() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/none/a.db"
            let error = #expect(throws: DatabaseError.self) { try SQLiteTableStore(path: path) }
            #expect(error?.code == .missing)
            #expect(error?.message.contains("mkdir -p '\(directory)/none'") == true)
        }
    }

    @Test(
        "Errors of SQLite become messages that name the file instead of the SQL",
        arguments: [
            (5, DatabaseError.Code.inUse), (8, .notPermitted), (3, .notPermitted), (11, .damaged),
            (13, .full), (26, .foreign), (14, .unavailable), (10 | 3 << 8, .unavailable),
            (1, .unavailable),
        ]
    )
    func resultsOfSQLite(_ code: Int, _ expected: DatabaseError.Code) {
        let result = SQLiteError(code: Int32(code), message: "near SELECT", sql: "SELECT 1")
        let error = DatabaseError(result, path: "/a.db")
        #expect(error.code == expected)
        #expect(error.message.contains("'/a.db'"))
        #expect(!error.message.contains("SELECT"))
    }

    @Test("A file that a server uses is rejected under all its names")
    func oneServerForEachFile() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let first = try await TestServer(path: path)
            try FileManager.default.createSymbolicLink(
                atPath: directory + "/b.db",
                withDestinationPath: path
            )
            for other in [path, directory + "/b.db"] {
                let error = #expect(throws: DatabaseError.self) {
                    try SQLiteTableStore(path: other)
                }
                #expect(error?.code == .inUse)
                #expect(error?.message.contains("process \(getpid())") == true)
            }
            #expect(await first.send("POST", "/tables/TodoItem", "{}").status == 201)
            await first.store.stop()
            let second = try await TestServer(path: path)
            #expect(await second.send("GET", "/tables/TodoItem").rows.count == 1)
            await second.store.stop()
        }
    }

    @Test("A new file is opened only once through links to links")
    func oneServerForEachFileBehindDanglingLinks() async throws {
        try await withTemporaryDirectory { directory in
            let files = FileManager.default
            try files.createDirectory(
                atPath: directory + "/data",
                withIntermediateDirectories: false
            )
            let path = directory + "/data/a.db"
            for (name, target) in [
                ("near.db", "data/a.db"), ("far.db", path), ("twice.db", "near.db"),
                ("data/up.db", "../twice.db"),
            ] {
                try files.createSymbolicLink(
                    atPath: directory + "/" + name,
                    withDestinationPath: target
                )
            }
            let names = ["near.db", "far.db", "twice.db", "data/up.db", "data/a.db"]
            for name in names {
                let first = try await TestServer(path: directory + "/" + name)
                #expect(files.fileExists(atPath: path + "-lock"))
                for other in names {
                    let error = #expect(throws: DatabaseError.self, "\(name) \(other)") {
                        try SQLiteTableStore(path: directory + "/" + other)
                    }
                    #expect(error?.code == .inUse)
                }
                await first.store.stop()
                for end in ["", "-wal", "-shm", "-lock"] {
                    try? files.removeItem(atPath: path + end)
                }
            }
            // No files are created next to the links.
            let left = try files.contentsOfDirectory(atPath: directory).sorted()
            #expect(left == ["data", "far.db", "near.db", "twice.db"])
        }
    }

    @Test("A link that leads to itself is rejected") func circularLinks() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            try FileManager.default.createSymbolicLink(
                atPath: path,
                withDestinationPath: "a.db"
            )
            #expect(throws: DatabaseError.self) { try SQLiteTableStore(path: path) }
        }
    }

    @Test("A file of an earlier server without an application ID is accepted")
    func filesWithoutAMarker() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = try await TestServer(path: path)
            _ = await old.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            await old.store.stop()
            try Database(path: path)
                .execute("PRAGMA application_id = 0; PRAGMA user_version = 2")
            let new = try await TestServer(path: path)
            #expect(await new.send("GET", "/tables/TodoItem/a").status == 200)
            await new.store.stop()
            #expect(try Database(path: path).integer("PRAGMA application_id") == 0x5444_4C53)
        }
    }

    @Test("A server that is stopped while it starts does not run afterward")
    func stoppedWhileItStarts() async throws {
        try await withTemporaryDirectory { directory in
            var configuration = ServerConfiguration()
            configuration.port = 0
            configuration.database = .sqlite(path: directory + "/a.db")
            configuration.log.level = .error
            configuration.tables = [TestServer.todo]
            let server = TidelineServer(configuration: configuration)
            _ = try await server.start()
            await server.stop()
            // The next start takes the lock file, and then waits for this transaction.
            try FileManager.default.removeItem(atPath: directory + "/a.db-lock")
            let other = try Database(path: directory + "/a.db")
            try other.execute("BEGIN IMMEDIATE")
            let start = Task { try await server.start() }
            try await until {
                FileManager.default.fileExists(atPath: directory + "/a.db-lock")
            }
            await server.stop()
            try other.execute("COMMIT")
            await #expect(throws: CancellationError.self) { _ = try await start.value }
            // Everything was released: this server can be started again, and so can another one.
            let url = try await server.start()
            #expect(url.port != 0)
            await server.stop()
            let second = TidelineServer(configuration: configuration)
            _ = try await second.start()
            await second.stop()
        }
    }

    @Test("A running server cannot be started again, but a stopped one can")
    func aServerCanBeStartedOnce() async throws {
        try await withTemporaryDirectory { directory in
            var configuration = ServerConfiguration()
            configuration.port = 0
            configuration.database = .sqlite(path: directory + "/a.db")
            configuration.log.level = .error
            let server = TidelineServer(configuration: configuration)
            _ = try await server.start()
            let error = await #expect(throws: HTTPServerError.self) { try await server.start() }
            #expect(error?.code == .alreadyStarted)
            await server.stop()
            _ = try await server.start()
            await server.stop()
        }
    }
}
