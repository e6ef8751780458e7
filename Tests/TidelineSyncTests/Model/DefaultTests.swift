// Defaults: a row without a value reads the value behind `=`, or the store does not open.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite struct DefaultTests {
    private struct First: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name: String
        var rank: Int?
    }

    private enum Level: String, Codable { case low, high }

    private struct Address: Codable, Hashable {
        var city = "Bern"
        var country = "CH"
    }

    /// All properties have defaults.
    private struct Whole: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = UUID().uuidString.lowercased()
        var name = ""
        var isActive = true
        var level = Level.high
        var address = Address()
        var tags = ["new"]
        var rank = 7
        var price = Decimal(5)
        var note: String?
    }

    /// One has none, and the model says so.
    private struct Partial: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = UUID().uuidString.lowercased()
        var name: String
        var isActive = true
        var level = Level.high
        var address = Address()

        static let defaults = Partial(name: "")
    }

    /// The same without saying so.
    private struct Silent: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = UUID().uuidString.lowercased()
        var name: String
        var isActive = true
    }

    /// One that may be nil no more.
    private struct Ranked: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = UUID().uuidString.lowercased()
        var name: String
        var rank: Int
    }

    enum Kind: String, CaseIterable, Sendable { case file, memory }

    private func open(
        _ type: any SyncRecord.Type,
        _ store: any LocalStore,
        schemas: [TableSchema] = []
    ) async throws -> Device {
        try await Device(ScriptedTransport(), store: store, tables: [type], schemas: schemas)
    }

    /// Runs a test with a store that version 1 has put a row into.
    private func withRow(
        _ kind: Kind,
        _ body: (_ store: () throws -> any LocalStore) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            let memory = MemoryStore()
            let store: () throws -> any LocalStore = {
                if kind == .file { return try SQLiteStore(path: path) }
                return memory
            }
            let device = try await open(First.self, try store())
            try await device.client.syncTable(First.self).insert(First(id: "a", name: "Ann"))
            try await body(store)
        }
    }

    @Test("an older row reads the value behind =", arguments: Kind.allCases)
    func wholeModels(kind: Kind) async throws {
        try await withRow(kind) { store in
            let table = try await open(Whole.self, try store()).client.syncTable(Whole.self)
            #expect(try await table.read(id: "a") == Whole(id: "a", name: "Ann"))
            #expect(try await table.count(where: { $0.isActive && $0.rank == 7 }) == 1)
            #expect(try await table.count(where: { $0.level == .high }) == 1)
            #expect(try await table.count(where: { !$0.isActive }) == 0)
            try await table.update(id: "a") { $0.address.city = "Genf" }
            #expect(try await table.read(id: "a")?.address == Address(city: "Genf"))
        }
    }

    @Test("a model tells its defaults", arguments: Kind.allCases)
    func toldDefaults(kind: Kind) async throws {
        try await withRow(kind) { store in
            let table = try await open(Partial.self, try store()).client.syncTable(Partial.self)
            #expect(try await table.read(id: "a") == Partial(id: "a", name: "Ann"))
        }
    }

    @Test("a model that tells none cannot open a store with rows", arguments: Kind.allCases)
    func unknownDefaults(kind: Kind) async throws {
        try await withRow(kind) { store in
            for (type, property) in [(Silent.self, "isActive"), (Ranked.self, "rank")]
                as [(any SyncRecord.Type, String)]
            {
                let error = await #expect(throws: SyncError.self) {
                    _ = try await open(type, try store())
                }
                #expect(error?.code == .defaultRequired)
                #expect(error?.message.contains("'\(property)'") == true)
            }
            // The declared schema tells it, too; so does an update of the app that removes the property again.
            let declared = TableSchema(
                name: "Item",
                columns: [ColumnDefinition("isActive", .boolean, nullable: false, default: true)]
            )
            let table = try await open(Silent.self, try store(), schemas: [declared]).client
                .syncTable(Silent.self)
            #expect(try await table.read(id: "a")?.isActive == true)
            let first = try await open(First.self, try store()).client.syncTable(First.self)
            #expect(try await first.read(id: "a") == First(id: "a", name: "Ann"))
        }
    }

    /// Models whose default is the moment at which it is asked for.
    private struct Stamped: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name = ""
        var start = Date()
    }

    private struct Due: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name = ""
        var due = Date().addingTimeInterval(86_400)
    }

    private struct Noted: SyncRecord, Hashable {
        static let tableName = "Item"
        struct Note: Codable, Hashable { var at = Date() }
        var id = ""
        var name = ""
        var note = Note()
    }

    private struct Told: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name: String
        var start = Date()

        static let defaults = Told(name: "")
    }

    /// One whose date is the same each time.
    private struct Fixed: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name = ""
        var start = Date(timeIntervalSince1970: 1_000_000)
        var end = Date(timeIntervalSince1970: 4_000_000_000)
    }

    @Test("a default that is the present moment is none", arguments: Kind.allCases)
    func momentsAreNoDefaults(kind: Kind) async throws {
        try await withRow(kind) { store in
            for (type, property) in [
                (Stamped.self, "start"), (Due.self, "due"), (Noted.self, "note"),
                (Told.self, "start"),
            ] as [(any SyncRecord.Type, String)] {
                let error = await #expect(throws: SyncError.self, "\(type)") {
                    _ = try await open(type, try store())
                }
                #expect(error?.code == .defaultRequired)
                #expect(error?.message.contains("'\(property)'") == true)
            }
            let table = try await open(Fixed.self, try store()).client.syncTable(Fixed.self)
            #expect(try await table.read(id: "a") == Fixed(id: "a", name: "Ann"))
        }
    }

    @Test("a fresh store, the same model, and rows that have values open", arguments: Kind.allCases)
    func nothingToRefuse(kind: Kind) async throws {
        try await withTemporaryFile { path in
            let memory = MemoryStore()
            for _ in 0..<2 {
                var store: any LocalStore = memory
                if kind == .file { store = try SQLiteStore(path: path) }
                let device = try await open(Silent.self, store)
                try await device.client.syncTable(Silent.self).insert(Silent(name: "Ann"))
            }
        }
    }

    @Test("an older store file, which remembers no properties, is refused as well")
    func filesOfBefore() async throws {
        try await withRow(.file) { store in
            let before = try await open(First.self, try store())
            try await before.store.write { writer in
                _ = try writer.delete(ids: ["required|item"], in: "MS_TableConfig")
            }
            let error = await #expect(throws: SyncError.self) {
                _ = try await open(Silent.self, try store())
            }
            #expect(error?.code == .defaultRequired)
        }
    }

    @Test(
        "a nested value without a member, or with null in it, reads it from the default",
        arguments: [#"{"city":"Genf"}"#, #"{"city":"Genf","country":null}"#]
    )
    func missingMembers(text: String) throws {
        let row: Row = ["id": "a", "address": .json(try JSON(text))]
        #expect(try row.decode(Whole.self).address == Address(city: "Genf", country: "CH"))
    }

    @Test("the server's null is the default, and is not written back")
    func nullOfTheServer() throws {
        let row: Row = ["id": "a", "isActive": nil, "level": nil, "address": nil, "rank": nil]
        #expect(try row.decode(Partial.self).isActive)
        #expect(try row.decode(Whole.self) == Whole(id: "a"))
    }
}
