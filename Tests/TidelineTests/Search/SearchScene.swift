// Models with a search index, and what the tests of searches share.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

struct Ticket: SyncRecord, Hashable {
    var id = ""
    var title = ""
    var notes: String?
    var isOpen = true
    var updatedAt: Date?

    static let search = SearchIndex(\Ticket.title, \Ticket.notes)
}

enum SearchScene {
    /// Opens a store with tickets on a file.
    static func device(
        _ path: String,
        _ transport: any Transport = ScriptedTransport(),
        _ table: any SyncRecord.Type = Ticket.self
    ) async throws -> Device {
        try await Device(transport, store: store(path), tables: [table])
    }

    // With the trait, the suites of searches run on encrypted files.
    #if SQLCipher
    private static let keyBytes = (0..<32).map { UInt8($0 &* 5) }

    /// Opens a store; it is encrypted if the package has the trait.
    static func store(_ path: String) throws -> SQLiteStore {
        try SQLiteStore(path: path, key: .bytes(keyBytes))
    }

    /// Opens a connection to the file of a store.
    static func database(_ path: String) throws -> Database {
        try Database(path: path, key: DatabaseKey(bytes: keyBytes))
    }
    #else
    /// Opens a store; it is encrypted if the package has the trait.
    static func store(_ path: String) throws -> SQLiteStore { try SQLiteStore(path: path) }

    /// Opens a connection to the file of a store.
    static func database(_ path: String) throws -> Database { try Database(path: path) }
    #endif

    static func tickets(_ device: Device) throws -> SyncTable<Ticket> {
        try device.client.syncTable(Ticket.self)
    }

    /// Returns the ids of the matching tickets, in order of their ids.
    static func ids(_ text: String, _ device: Device) async throws -> [String] {
        try await tickets(device).read(
            where: { $0.matching(text) },
            sortedBy: [.ascending(\.id)]
        ).map(\.id)
    }

    /// Checks that the index has exactly the words of the rows, by SQLite's own check.
    static func checkIndex(_ path: String, _ table: String = "Ticket") throws {
        let database = try database(path)
        let index = Identifier("tideline.\(table).search").quoted
        #expect(try database.integer("SELECT count(*) FROM \"tideline.\(table).searchlog\"") == 0)
        try database.execute("INSERT INTO \(index) (\(index), rank) VALUES ('integrity-check', 1)")
    }
}
