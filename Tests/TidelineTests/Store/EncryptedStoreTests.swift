// Encrypted stores: right, wrong and changed keys, and the contents of the file. They are built only with the trait
// `SQLCipher` (`make cipher`).

#if SQLCipher
import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct EncryptedStoreTests {
    static let secret = "a needle in the file"

    static func keys() throws -> [SQLiteStore.Key] {
        [
            try .bytes((0..<32).map { UInt8($0 &* 7) }), try .passphrase("it's a pass'phrase"),
            try .passphrase("x'00"), try .passphrase("a\0b'c"),
        ]
    }

    /// Fills a device with one row that the server has, and one that is pending.
    private static func filled(_ store: SQLiteStore) async throws {
        let device = try await Device(ScriptedTransport(), store: store)
        try await device.seed([localRow("a", 1, text: secret)])
        try await device.todos().insert(Todo(id: "b", text: secret))
        try await store.close()
    }

    /// Returns the contents of the store, and closes it.
    private static func contents(_ store: SQLiteStore) async throws -> [String] {
        let device = try await Device(ScriptedTransport(), store: store)
        let texts = try await device.todos().read().map { "\($0.id) \($0.text)" }
        let all = texts + (try await device.queue())
        #expect(try await store.check().isSound)
        try await store.close()
        return all
    }

    private static let expected = ["a \(secret)", "b \(secret)", "insert b"]

    /// Returns the bytes of all files in the folder of a store.
    static func bytes(_ path: String) throws -> Data {
        let folder = URL(filePath: path).deletingLastPathComponent()
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path())
        return try names.sorted().reduce(into: Data()) { bytes, name in
            bytes += try Data(contentsOf: folder.appending(path: name))
        }
    }

    @Test("Opening a file with a wrong key throws an error and does not change the file")
    func aWrongKeyDoesNotChangeTheFile() async throws {
        try await withTemporaryFile { path in
            let keys = try Self.keys()
            try await Self.filled(try SQLiteStore(path: path, key: keys[0]))
            let before = try Self.bytes(path)
            for key in keys.dropFirst() {
                #expect(await code { _ = try SQLiteStore(path: path, key: key) } == .wrongKey)
                #expect(
                    await code {
                        try SQLiteStore.changeKey(path: path, from: key, to: nil)
                    } == .wrongKey
                )
            }
            // Without a key the file is not a database.
            let rejection = #expect(throws: SyncError.self) { _ = try SQLiteStore(path: path) }
            #expect(rejection?.code == .storeFailure)
            #expect(rejection?.message.contains("or it is encrypted. Pass its key") == true)
            #expect(
                await code {
                    try SQLiteStore.changeKey(path: path, from: nil, to: keys[1])
                } == .wrongKey
            )
            #expect(try Self.bytes(path) == before)
            let whole = try await Self.contents(try SQLiteStore(path: path, key: keys[0]))
            #expect(whole == Self.expected)
        }
    }

    @Test("Opening a plain file with a key throws an error and does not change the file")
    func aPlainFileIsNotAnEncryptedOne() async throws {
        try await withTemporaryFile { path in
            let key = try Self.keys()[0]
            try await Self.filled(try SQLiteStore(path: path))
            let before = try Self.bytes(path)
            #expect(await code { _ = try SQLiteStore(path: path, key: key) } == .wrongKey)
            #expect(try Self.bytes(path) == before)
        }
    }

    @Test(
        "A change of the key preserves the rows and the queue",
        arguments: [
            (0, 1), (1, 2), (2, 0), (2, 3), (4, 0), (4, 1), (4, 3), (0, 4), (1, 4), (3, 4), (0, 0),
        ]
    )
    func keysChange(from: Int, to: Int) async throws {
        try await withTemporaryFile { path in
            let keys = try Self.keys()
            func store(_ number: Int) throws -> SQLiteStore {
                number == 4
                    ? try SQLiteStore(path: path) : try SQLiteStore(path: path, key: keys[number])
            }
            try await Self.filled(try store(from))
            try SQLiteStore.changeKey(
                path: path,
                from: from == 4 ? nil : keys[from],
                to: to == 4 ? nil : keys[to]
            )
            #expect(!FileManager.default.fileExists(atPath: path + "-rekeyed"))
            #expect(try Self.bytes(path).contains(Data(Self.secret.utf8)) == (to == 4))
            #expect(try await Self.contents(try store(to)) == Self.expected)
            if from != to {
                let rejection = await code { _ = try store(from) }
                #expect(rejection == (from == 4 ? .storeFailure : .wrongKey))
            }
        }
    }

    @Test("Pending operations are pushed after a change of the key")
    func theQueueIsPushed() async throws {
        try await withTemporaryFile { path in
            let (transport, key) = (ScriptedTransport(), try Self.keys()[0])
            let store = try SQLiteStore(path: path)
            let device = try await Device(transport, store: store)
            transport.add(
                .json(201, serverRow("a", 1, text: "first")),
                .json(200, serverRow("a", 2, text: "second"))
            )
            try await device.todos().insert(Todo(id: "a", text: "first"))
            try await device.context.push()
            try await device.todos().update(id: "a") { $0.text = "second" }
            try await store.close()
            try SQLiteStore.changeKey(path: path, from: nil, to: key)
            let encrypted = try SQLiteStore(path: path, key: key)
            let again = try await Device(transport, store: encrypted)
            #expect(try await again.push() == nil)
            let sent = transport.sent.map(\.description)
            #expect(sent.count == 2)
            #expect(sent.last == #"PATCH /tables/Todo/a "v1" {"text":"second"}"#)
            #expect(try await again.queue() == [])
            try await encrypted.close()
        }
    }

    @Test("The key of an open store cannot be changed") func anOpenStoreKeepsItsKey() async throws {
        try await withTemporaryFile { path in
            let keys = try Self.keys()
            try await Self.filled(try SQLiteStore(path: path, key: keys[0]))
            let open = try SQLiteStore(path: path, key: keys[0])
            let device = try await Device(ScriptedTransport(), store: open)
            #expect(
                await code {
                    try SQLiteStore.changeKey(path: path, from: keys[0], to: keys[1])
                } == .storeFailure
            )
            try await device.todos().insert(Todo(id: "c", text: "more"))
            #expect(try await device.todos().read().count == 3)
            try await open.close()
            #expect(!FileManager.default.fileExists(atPath: path + "-rekeyed"))
            let kept = try await Self.contents(try SQLiteStore(path: path, key: keys[0]))
            #expect(kept.count == 5)
        }
    }

    /// Debian 12's SQLCipher cannot read the JSON of an older file.
    @Test("A file of an older storage format is upgraded, or rejected and not changed")
    func aFileOfAnOlderFormatIsUpgradedOrNotChanged() async throws {
        try await withTemporaryFile { path in
            try FormatOne.make(path)
            do {
                let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
                #expect(try await device.queue().count == 10)
            } catch let error as SyncError {
                #expect(error.code == .storeFailure)
                #expect(error.message.contains("without the trait 'SQLCipher'"))
                let database = try Database(path: path)
                #expect(try database.integer("PRAGMA user_version") == 1)
                #expect(try database.integer("SELECT count(*) FROM MS_TableOperations") != 0)
            }
        }
    }

    /// Debian 12's SQLCipher has no FTS5.
    @Test(
        "A search index is encrypted and survives a change of the key",
        .enabled(if: (try? Database(path: ":memory:").hasFullTextSearch) == true)
    )
    func aSearchIndexIsEncrypted() async throws {
        try await withTemporaryFile { path in
            let keys = try Self.keys()
            func device(_ key: SQLiteStore.Key) async throws -> Device {
                let store = try SQLiteStore(path: path, key: key)
                return try await Device(ScriptedTransport(), store: store, tables: [Ticket.self])
            }
            let first = try await device(keys[0])
            try await SearchScene.tickets(first).insert(Ticket(id: "a", title: Self.secret))
            #expect(try await SearchScene.ids("need*", first) == ["a"])
            try await (first.store as? SQLiteStore)?.close()
            #expect(try !Self.bytes(path).contains(Data("needle".utf8)))

            try SQLiteStore.changeKey(path: path, from: keys[0], to: keys[1])
            let second = try await device(keys[1])
            #expect(try await SearchScene.ids("need*", second) == ["a"])
            try await SearchScene.tickets(second).insert(Ticket(id: "b", title: "a needle case"))
            #expect(try await SearchScene.ids("need*", second) == ["a", "b"])
            try await (second.store as? SQLiteStore)?.close()
            #expect(try !Self.bytes(path).contains(Data("needle".utf8)))
        }
    }

    @Test(
        "A store keeps the format of SQLCipher 3 until its key is changed",
        .enabled(if: cipherVersion >= 4),
        arguments: [0, 1]
    )
    func aStoreOfSQLCipher3IsOpenedAndUpgraded(number: Int) async throws {
        try await withTemporaryFile { path in
            let keys = try Self.keys()
            let (key, fileKey) = (keys[number], Self.fileKeys[number])
            try await Self.filled(try SQLiteStore(path: path))
            try Self.encryptAsSQLCipher3(path, fileKey)
            #expect(await code { _ = try SQLiteStore(path: path, key: keys[2]) } == .wrongKey)
            #expect(try await Self.contents(try SQLiteStore(path: path, key: key)) == Self.expected)

            let device = try await Device(
                ScriptedTransport(),
                store: SQLiteStore(path: path, key: key)
            )
            try await device.todos().insert(Todo(id: "c", text: "more"))
            try await (device.store as? SQLiteStore)?.close()
            #expect(try Database(path: path, key: fileKey).integer("PRAGMA page_size") == 1024)
            #expect(try !Self.bytes(path).contains(Data(Self.secret.utf8)))

            try SQLiteStore.changeKey(path: path, from: key, to: key)
            #expect(try Database(path: path, key: fileKey).integer("PRAGMA page_size") == 4096)
            let all = try await Self.contents(try SQLiteStore(path: path, key: key))
            #expect(Set(all) == Set(Self.expected + ["c more", "insert c"]))
        }
    }

    private static let cipherVersion: Int = {
        let version = try? Database(path: ":memory:").text("PRAGMA cipher_version")
        return version?.split(separator: ".").first.flatMap { Int($0) } ?? 0
    }()

    /// The first of `keys()` for connections of the tests.
    private static let fileKeys = [
        DatabaseKey(bytes: (0..<32).map { UInt8($0 &* 7) }),
        DatabaseKey(passphrase: "it's a pass'phrase"),
    ]

    /// Encrypts a plain store in the format of SQLCipher 3.
    private static func encryptAsSQLCipher3(_ path: String, _ key: DatabaseKey) throws {
        let old = path + "-3"
        let database = try Database(path: path)
        let version = try database.integer("PRAGMA user_version") ?? 0
        let application = try database.integer("PRAGMA application_id") ?? 0
        try database.prepareOnce("ATTACH DATABASE ?1 AS old KEY ?2")
            .run([.text(old), key.sqlValue])
        try database.execute("PRAGMA old.cipher_compatibility = 3")
        try database.execute("SELECT sqlcipher_export('old')")
        try database.execute("PRAGMA old.user_version = \(version)")
        try database.execute("PRAGMA old.application_id = \(application)")
        try database.execute("DETACH DATABASE old")
        database.close()
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
        }
        try FileManager.default.moveItem(atPath: old, toPath: path)
    }

    @Test("Two encrypted stores share one file") func twoStoresShareOneFile() async throws {
        try await withTemporaryFile { path in
            let key = try Self.keys()[0]
            let (first, second) = (
                try SQLiteStore(path: path, key: key), try SQLiteStore(path: path, key: key)
            )
            let one = try await Device(ScriptedTransport(), store: first)
            let other = try await Device(ScriptedTransport(), store: second)
            try await one.todos().insert(Todo(id: "a", text: "one"))
            try await other.todos().update(id: "a") { $0.text = "other" }
            #expect(try await one.todos().read().map(\.text) == ["other"])
            try await first.close()
            try await second.close()
        }
    }

    @Test("An empty passphrase, a short key and a missing file are rejected")
    func invalidKeysAreRejected() async throws {
        #expect(await code { _ = try SQLiteStore.Key.passphrase("") } == .wrongKey)
        #expect(await code { _ = try SQLiteStore.Key.bytes([1, 2, 3]) } == .wrongKey)
        try await withTemporaryFile { path in
            let key = try Self.keys()[0]
            let rejection = await code { try SQLiteStore.changeKey(path: path, from: nil, to: key) }
            #expect(rejection == .storeFailure)
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test(
        "SQL is rejected if SQLite does not report all tables of a statement",
        .enabled(if: !Database.reportsAllTables, "This SQLCipher is newer than Debian 12's.")
    )
    func sqlIsRejectedIfSQLiteDoesNotReportAllTables() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path, key: Self.keys()[0])
            let device = try await Device(ScriptedTransport(), store: store)
            let code = await code {
                try await device.context.read {
                    _ = try $0.sql("SELECT count(*) FROM MS_TableOperations")
                }
            }
            #expect(code == .unsupportedQuery)
        }
    }

    @Test("An encrypted store passes each conformance check", arguments: LocalStoreConformance.all)
    func theStoreConforms(check: LocalStoreConformance.Check) async throws {
        try await withTemporaryFile { path in
            let key = try Self.keys()[0]
            try await check.run { try SQLiteStore(path: path + "-" + $0, key: key) }
        }
    }
}
#endif
