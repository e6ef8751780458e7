// Secrets that must not be found in the files, the log, or the errors of an app without the key.

#if SQLCipher
import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct EncryptedStoreSecretTests {
    private static let secret = EncryptedStoreTests.secret

    /// A key in each form, and no key.
    private static func key(_ number: Int) throws -> SQLiteStore.Key? {
        let keys = try EncryptedStoreTests.keys()
        return number < keys.count ? keys[number] : nil
    }

    private static func open(_ path: String, _ number: Int) throws -> SQLiteStore {
        guard let key = try key(number) else { return try SQLiteStore(path: path) }
        return try SQLiteStore(path: path, key: key)
    }

    private static func isReadable(_ word: String, _ path: String) throws -> Bool {
        try EncryptedStoreTests.bytes(path).contains(Data(word.utf8))
    }

    /// A plain file contains all of them, whether it is open or closed.
    @Test("Neither the encrypted file nor its WAL contains values", arguments: 0...4)
    func theFileAndItsLogContainNoValues(_ number: Int) async throws {
        let isPlain = try Self.key(number) == nil
        try await withTemporaryFile { path in
            let store = try Self.open(path, number)
            let device = try await Device(ScriptedTransport(), store: store)
            try await device.todos().insert(Todo(id: "b", text: Self.secret))
            let log = FileManager.default.contents(atPath: path + "-wal") ?? Data()
            #expect(log.contains(Data(Self.secret.utf8)) == isPlain)
            #expect(log.count > 4096)
            for word in [Self.secret, "MS_TableOperations", "SQLite format 3"] {
                #expect(try Self.isReadable(word, path) == isPlain, "\(word)")
            }
            try await store.close()
            #expect(try Self.isReadable(Self.secret, path) == isPlain)
            let again = try await Device(ScriptedTransport(), store: Self.open(path, number))
            #expect(try await again.todos().read().map(\.text) == [Self.secret])
            #expect(try await again.queue() == ["insert b"])
        }
    }

    /// The journal of a change of the file without a write-ahead log, such as that of `changeKey`.
    @Test(
        "The journal of an encrypted database contains no values",
        arguments: [nil, DatabaseKey(passphrase: "it's")]
    )
    func theJournalContainsNoValues(key: DatabaseKey?) async throws {
        try await withTemporaryFile { path in
            let database = try Database(path: path, key: key)
            try database.execute("PRAGMA journal_mode = DELETE")
            try database.execute("CREATE TABLE t (text); INSERT INTO t VALUES ('\(Self.secret)')")
            try database.execute("BEGIN; UPDATE t SET text = 'another'")
            let journal = FileManager.default.contents(atPath: path + "-journal") ?? Data()
            #expect(journal.count > 1024)
            #expect(journal.contains(Data(Self.secret.utf8)) == (key == nil))
            try database.execute("ROLLBACK")
            // Temporary files would not be encrypted.
            #expect(try database.text("PRAGMA temp_store") == (key == nil ? "0" : "2"))
        }
    }

    @Test("A changed byte is reported and never read as another value")
    func damageIsReported() async throws {
        try await withTemporaryFile { path in
            let store = try Self.open(path, 0)
            let device = try await Device(ScriptedTransport(), store: store)
            let todos = (0..<300).map { Todo(id: "\($0)", text: Self.secret) }
            try await device.todos().insert(todos)
            try await store.close()
            let whole = try Data(contentsOf: URL(filePath: path))
            let pages = whole.count / 1024
            for page in stride(from: 0, to: pages, by: max(1, pages / 12)) {
                var bytes = whole
                bytes[page * 1024 + 300] ^= 0x40
                try bytes.write(to: URL(filePath: path))
                do {
                    let store = try Self.open(path, 0)
                    let device = try await Device(ScriptedTransport(), store: store)
                    let isSound = try await store.check().isSound
                    #expect(!isSound, "page \(page)")
                    // A read fails, or returns all rows unchanged.
                    if let read = try? await device.todos().read() {
                        #expect(read.sorted { $0.id < $1.id } == todos.sorted { $0.id < $1.id })
                    }
                    try await store.close()
                } catch let error as SyncError {
                    #expect([.wrongKey, .storeFailure].contains(error.code), "\(error)")
                }
            }
        }
    }

    /// The texts that programs write when an error occurs.
    private static func texts(_ value: Any) -> [String] {
        var dumped = ""
        dump(value, to: &dumped)
        return ["\(value)", String(reflecting: value), dumped]
    }

    @Test("The key appears in no error, description or log message", arguments: 0..<4)
    func theKeyIsInNoMessage(_ number: Int) async throws {
        let key = try #require(try Self.key(number))
        try await withTemporaryFile { path in
            var texts = Self.texts(key) + Self.texts([key] as [SQLiteStore.Key?])
            func recordError(_ body: () throws -> Void) {
                do {
                    try body()
                    Issue.record("nothing was rejected")
                } catch {
                    texts += Self.texts(error)
                    if let cause = (error as? SyncError)?.cause { texts += Self.texts(cause) }
                }
            }
            let recorder = RecordingLog()
            let store = try SQLiteStore(path: path, key: key)
            let client = SyncClient(
                endpoint: Device.endpoint,
                transport: ScriptedTransport(),
                log: recorder
            )
            try await client.syncContext.initialize(store: store, tables: [Todo.self])
            try await client.syncTable(Todo.self).insert(Todo(id: "a", text: Self.secret))
            texts += Self.texts(store)
            _ = try? await client.syncContext.push()
            try await store.close()
            texts += recorder.entries.map { "\($0.message) \($0.metadata)" }
            #expect(!recorder.entries.isEmpty)

            let other = try #require(try Self.key(number == 0 ? 1 : 0))
            recordError { try SQLiteStore.changeKey(path: path, from: other, to: key) }
            recordError { try SQLiteStore.changeKey(path: path, from: nil, to: key) }
            recordError { try SQLiteStore.changeKey(path: path + "-none", from: nil, to: key) }
            let openStore = try SQLiteStore(path: path, key: key)
            recordError { try SQLiteStore.changeKey(path: path, from: key, to: other) }
            try await openStore.close()
            try FileManager.default.removeItem(atPath: path)
            let plain = try SQLiteStore(path: path)
            try await plain.close()
            recordError { _ = try SQLiteStore(path: path, key: key) }

            let all = texts.joined(separator: "\n").lowercased()
            for needle in Self.needles[number] {
                #expect(!all.contains(needle), "\(needle)")
            }
        }
    }

    /// Possible forms of each key: text, hexadecimal digits, and a list of bytes.
    private static let needles = [
        ["00070e15", "0, 7, 14, 21", "48, 48, 48, 55", "x'0007"],
        ["pass'phrase", "pass''phrase", "69742773", "105, 116, 39, 115"],
        ["x'00", "x''00", "78273030", "120, 39, 48, 48"],
        ["b'c", "b''c", "6100622763", "97, 0, 98, 39"],
    ]
}
#endif
