// SQLiteStore and its file: the files that it opens or rejects, and their contents afterwards.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct SQLiteFileTests {
    @Test("A file of a newer storage format is rejected and not changed")
    func aNewerFileIsRejectedAndNotChanged() async throws {
        try await withTemporaryFile { path in
            try Self.makeFile(
                path,
                "CREATE TABLE t (a); PRAGMA user_version = 999; PRAGMA application_id = 0x54494445"
            )
            let before = try Data(contentsOf: URL(filePath: path))
            let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
            #expect(error?.code == .newerStore)
            #expect(error?.message.contains("999") == true)
            #expect(try Data(contentsOf: URL(filePath: path)) == before)
        }
    }

    @Test("A file that is not a database is rejected and not changed")
    func aFileThatIsNotADatabaseIsRejectedAndNotChanged() async throws {
        try await withTemporaryFile { path in
            let text = Data(String(repeating: "This is a letter. ", count: 100).utf8)
            try text.write(to: URL(filePath: path))
            let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
            #expect(error?.code == .storeFailure)
            #expect(error?.message.contains("not a SQLite database") == true)
            #expect(try Data(contentsOf: URL(filePath: path)) == text)
        }
    }

    @Test("An empty file is opened as a new store") func anEmptyFileIsANewStore() async throws {
        try await withTemporaryFile { path in
            try Data().write(to: URL(filePath: path))
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            #expect(try await device.context.pendingOperationCount == 0)
        }
    }

    /// SQLite itself does not wait in this case.
    @Test("Opening a file waits for another program that is creating it")
    func aFileThatAnotherProgramIsCreatingIsWaitedFor() async throws {
        try await withTemporaryFile { path in
            try Data().write(to: URL(filePath: path))
            let other = try Database(path: path, mode: .existing)
            try other.execute("BEGIN IMMEDIATE")
            // Runs on a separate thread, because it must return even if tests block all threads of the pool.
            Thread.detachNewThread {
                // The other program is slow. The test also passes if the store opens later than that.
                Thread.sleep(forTimeInterval: 0.2)
                #expect(throws: Never.self) { try other.execute("ROLLBACK") }
            }
            _ = try SQLiteStore(path: path)
        }
    }

    /// Databases of other programs, with or without an application id.
    @Test(
        "A file of another program is rejected and not changed",
        arguments: [
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)",
            "CREATE TABLE customers (id); PRAGMA user_version = 999",
            "CREATE TABLE customers (id); PRAGMA user_version = 1",
            "PRAGMA application_id = 7; PRAGMA user_version = 1",
            #"CREATE TABLE "TodoItem" ("id" TEXT PRIMARY KEY, "text" TEXT)"#,
        ]
    )
    func aFileOfAnotherProgramIsRejectedAndNotChanged(sql: String) async throws {
        try await withTemporaryFile { path in
            try Self.makeFile(path, sql)
            let before = try Data(contentsOf: URL(filePath: path))
            let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
            #expect(error?.code == .storeFailure)
            #expect(error?.message.contains("another program") == true)
            #expect(error?.message.contains(path) == true)
            #expect(try Data(contentsOf: URL(filePath: path)) == before)
            let folder = URL(filePath: path).deletingLastPathComponent().path()
            let files = try FileManager.default.contentsOfDirectory(atPath: folder)
            #expect(files.allSatisfy { !$0.hasPrefix("store.sqlite-") || $0.contains("-made") })
        }
    }

    /// The server's file is in WAL mode: no file is created next to it either.
    @Test("Opening the database of a Tideline server throws an error that names the server")
    func theErrorNamesTheDatabaseOfAServer() async throws {
        try await withTemporaryFile { path in
            let path = path.replacing("store.sqlite", with: "a store #1?.sqlite")
            try Database(path: path).execute("CREATE TABLE tideline_tables (name TEXT)")
            let before = try Data(contentsOf: URL(filePath: path))
            let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
            #expect(error?.message.contains("tideline server") == true)
            #expect(try Data(contentsOf: URL(filePath: path)) == before)
            for end in ["-wal", "-shm", "-journal"] {
                #expect(!FileManager.default.fileExists(atPath: path + end))
            }
        }
    }

    /// Stores of the original SDK have the queue's tables and no application id.
    @Test("A store of the original SDK without an application ID is opened")
    func aStoreWithoutAnApplicationIDIsOpened() async throws {
        try await withTemporaryFile { path in
            try Self.makeFile(
                path,
                """
                CREATE TABLE MS_TableOperations (id INTEGER PRIMARY KEY, itemId TEXT,
                    properties BLOB, "table" TEXT, tableKind INTEGER)
                """
            )
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            #expect(try await device.context.pendingOperationCount == 0)
        }
    }

    @Test(
        "Each kind of invalid path has its own message without SQLite's words",
        arguments: [
            ("", "path of the store is empty"), ("/tmp", "/tmp is a folder"),
            ("/nowhere/at/all/todo.sqlite", "The folder '/nowhere/at/all/' of"),
            ("nowhere/todo.sqlite", "The folder 'nowhere/' of"),
            ("/proc/todo.sqlite", "cannot be opened or created"),
        ]
    )
    func invalidPathsAreClearErrors(path: String, words: String) {
        let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
        #expect(error?.code == .storeFailure)
        #expect(error?.message.contains(words) == true)
        #expect(error?.message.contains("SQL") == false)
    }

    @Test("Opening a file that another program has locked throws an error that says so")
    func aLockedFileIsAClearError() async throws {
        try await withTemporaryFile { path in
            _ = try SQLiteStore(path: path)
            let other = try Database(path: path)
            try other.execute("PRAGMA locking_mode = EXCLUSIVE")
            try other.execute("BEGIN EXCLUSIVE; CREATE TABLE t (a); COMMIT")
            let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
            #expect(error?.code == .storeFailure)
            #expect(error?.message.contains("locked by another program") == true)
            #expect(error?.message.contains(path) == true)
        }
    }

    @Test(
        "A read-only file or folder is an error that names the path",
        arguments: [(0o400, 0o700), (0o600, 0o500), (0o400, 0o500)]
    )
    func aReadOnlyFileIsAClearError(file: Int, folder: Int) async throws {
        try await withTemporaryFile { path in
            try await SQLiteStore(path: path).close()
            let files = FileManager.default
            let parent = URL(filePath: path).deletingLastPathComponent().path()
            try files.setAttributes([.posixPermissions: file], ofItemAtPath: path)
            try files.setAttributes([.posixPermissions: folder], ofItemAtPath: parent)
            defer { try? files.setAttributes([.posixPermissions: 0o700], ofItemAtPath: parent) }
            let before = try Data(contentsOf: URL(filePath: path))
            let error = await #expect(throws: SyncError.self) {
                // A readable file is opened, and the first write fails.
                let store = try OrdinaryUser.owning([path, parent]) { try SQLiteStore(path: path) }
                _ = try await Device(ScriptedTransport(), store: store)
            }
            #expect(error?.code == .storeFailure)
            let message = try #require(error?.message)
            // SQLite before 3.22 does not open it at all.
            let words = [
                "cannot be written: the file or its folder", "cannot be opened or created",
            ]
            #expect(
                message.contains(path)
                    && (message.contains("Allow the app") || message.contains("permissions"))
            )
            #expect(words.contains { message.contains($0) })
            #expect(try Data(contentsOf: URL(filePath: path)) == before)
        }
    }

    /// Like a store on a disk that was mounted read-only after an error.
    @Test(
        "A read-only disk is an error that names the path",
        .enabled(if: SmallDisk.mayMount, "mounting a small disk needs rights")
    )
    func aReadOnlyDiskIsAClearError() async throws {
        try await SmallDisk.with { folder in
            let path = folder + "/store.sqlite"
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            try await device.todos().insert(Todo(id: "a", text: "milk"))
            try await device.store.close()
            try #require(SmallDisk.makeReadOnly(folder))
            let error = #expect(throws: SyncError.self) { try SQLiteStore(path: path) }
            #expect(error?.code == .storeFailure)
            let message = try #require(error?.message)
            #expect(message.contains("The store at \(path) cannot be"))
            #expect(message.contains("app's permissions for the file and its folder"))
        }
    }

    @Test("A store has the tables and columns of the original SDK")
    func theTablesOfTheOriginalSDKExist() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            try await device.todos().insert(Todo(id: "a", text: "milk", rank: 3))
            let database = try Database(path: path, mode: .readOnly)
            let wanted = [
                "MS_TableOperations": ["id", "itemId", "properties", "table", "tableKind"],
                "MS_TableOperationErrors": ["id", "operationId", "properties", "tableKind"],
                "MS_TableConfig": ["id", "key", "keyType", "table", "value"],
                "Todo": ["id", "text", "complete", "rank", "version", "createdAt", "updatedAt"],
            ]
            for (table, columns) in wanted {
                let names = try database.columns(of: table).map(\.name)
                for column in columns {
                    #expect(names.contains(column), "\(table).\(column)")
                }
            }
            #expect(try database.integer("SELECT rank FROM Todo WHERE id = 'a'") == 3)
            #expect(try database.integer("SELECT complete FROM Todo WHERE id = 'a'") == 0)
            #expect(try database.integer("SELECT tableKind FROM MS_TableOperations") == 0)
        }
    }

    @Test("A store uses a write-ahead log and syncs each write to the disk")
    func aWriteIsSyncedToTheDisk() async throws {
        try await withTemporaryFile { path in
            _ = try SQLiteStore(path: path)
            // The file header states that there is a write-ahead log: 2 for writing, 2 for reading.
            let head = try Data(contentsOf: URL(filePath: path)).prefix(20)
            #expect(Array(head.suffix(2)) == [2, 2])
            let database = try Database(path: path)
            #expect(try database.integer("PRAGMA synchronous") == 2)
            #expect(try database.integer("PRAGMA user_version") == 3)
        }
    }

    /// Without a write-ahead log readers would see incomplete transactions, so a database that cannot have one, such as
    /// SQLite's own temporary files, is rejected.
    @Test("A database that cannot have a write-ahead log is rejected")
    func aFileWithoutAWriteAheadLogIsRejected() {
        let error = #expect(throws: SQLiteError.self) { _ = try Database(path: "") }
        #expect(error.map { "\($0)" }?.contains("write-ahead log") == true)
    }

    /// Guarantee 8, as far as one process can show it: a second connection sees the state before or after a
    /// transaction, with queue and row together.
    @Test("A row and its operation are stored in one transaction")
    func rowAndOperationAreOneTransaction() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let database = try Database(path: path, mode: .readOnly)
            for number in 1...10 {
                try await device.todos().insert(Todo(id: "\(number)", text: "x"))
                let sql = """
                    SELECT (SELECT count(*) FROM Todo) * 1000
                        + (SELECT count(*) FROM MS_TableOperations)
                    """
                #expect(try database.integer(sql) == Int64(number * 1001))
            }
        }
    }

    private static func makeFile(_ path: String, _ sql: String) throws {
        let database = try Database(path: path + "-made")
        try database.execute("PRAGMA journal_mode = DELETE")
        try database.execute(sql)
        try FileManager.default.copyItem(atPath: path + "-made", toPath: path)
    }
}

@Suite struct StoreCloseTests {
    @Test(
        "A closed store has no open files and reports that it is closed",
        arguments: [true, false]
    )
    func aClosedStoreHoldsNoFileAndReportsIt(inline: Bool) async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path, inline: inline)
            let device = try await Device(ScriptedTransport(), store: store)
            let changes = store.changes()
            try await device.todos().insert(Todo(id: "a", text: "kept"))
            async let counts = withTaskGroup(of: Void.self) { group in
                for index in 0..<20 {
                    group.addTask { _ = try? await device.todos().insert(Todo(id: "b\(index)")) }
                    group.addTask { _ = try? await device.todos().count() }
                }
            }
            try await store.close()
            try await store.close()
            await counts
            #if os(Linux)
            #expect(try Self.descriptors(of: path) == 0)
            #endif
            for await _ in changes {}
            for await _ in store.changes() {}
            let error = await #expect(throws: SyncError.self) {
                try await device.todos().read(id: "a")
            }
            #expect(error?.code == .storeFailure)
            #expect(error?.message.contains("closed") == true)
            #expect(await code { try await device.todos().insert(Todo(id: "z")) } == .storeFailure)
            let again = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            #expect(try await again.todos().read(id: "a")?.text == "kept")
            #expect(try await again.todos().read(id: "z") == nil)
        }
    }

    #if os(Linux)
    /// Returns the number of this process's descriptors of a file or of its companion files.
    private static func descriptors(of path: String) throws -> Int {
        let files = FileManager.default
        return try files.contentsOfDirectory(atPath: "/proc/self/fd").count { name in
            let target = try? files.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
            return target?.hasPrefix(path) == true
        }
    }
    #endif
}
