// Defaults: a row without a value reads as the value after `=`, or the store does not open.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

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

    /// A model whose properties all have defaults.
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

    /// A model with a property that has no default, and that declares its defaults.
    private struct Partial: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = UUID().uuidString.lowercased()
        var name: String
        var isActive = true
        var level = Level.high
        var address = Address()

        static let defaults = Partial(name: "")
    }

    /// The same model without declared defaults.
    private struct Undeclared: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = UUID().uuidString.lowercased()
        var name: String
        var isActive = true
    }

    /// A model with a property that used to be optional.
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

    /// Runs a test with a store in which version 1 of the model has stored a row.
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

    @Test("A row without a value reads as the default of its property", arguments: Kind.allCases)
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

    @Test("A model declares its defaults", arguments: Kind.allCases)
    func declaredDefaults(kind: Kind) async throws {
        try await withRow(kind) { store in
            let table = try await open(Partial.self, try store()).client.syncTable(Partial.self)
            #expect(try await table.read(id: "a") == Partial(id: "a", name: "Ann"))
        }
    }

    @Test(
        "A model without declared defaults cannot open a store with rows",
        arguments: Kind.allCases
    )
    func unknownDefaults(kind: Kind) async throws {
        try await withRow(kind) { store in
            for (type, property) in [(Undeclared.self, "isActive"), (Ranked.self, "rank")]
                as [(any SyncRecord.Type, String)]
            {
                let error = await #expect(throws: SyncError.self) {
                    _ = try await open(type, try store())
                }
                #expect(error?.code == .defaultRequired)
                #expect(error?.message.contains("'\(property)'") == true)
            }
            // The declared schema has the default, too; an update of the app that removes the property helps as well.
            let declared = TableSchema(
                name: "Item",
                columns: [ColumnDefinition("isActive", .boolean, nullable: false, default: true)]
            )
            let table = try await open(Undeclared.self, try store(), schemas: [declared]).client
                .syncTable(Undeclared.self)
            #expect(try await table.read(id: "a")?.isActive == true)
            let first = try await open(First.self, try store()).client.syncTable(First.self)
            #expect(try await first.read(id: "a") == First(id: "a", name: "Ann"))
        }
    }

    /// Models whose default is the current time.
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

    private struct Declared: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name: String
        var start = Date()

        static let defaults = Declared(name: "")
    }

    /// A model whose date is the same each time.
    private struct Fixed: SyncRecord, Hashable {
        static let tableName = "Item"
        var id = ""
        var name = ""
        var start = Date(timeIntervalSince1970: 1_000_000)
        var end = Date(timeIntervalSince1970: 4_000_000_000)
    }

    @Test(
        "A default that is the current time does not count as a default",
        arguments: Kind.allCases
    )
    func currentTimesAreNotDefaults(kind: Kind) async throws {
        try await withRow(kind) { store in
            for (type, property) in [
                (Stamped.self, "start"), (Due.self, "due"), (Noted.self, "note"),
                (Declared.self, "start"),
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

    @Test(
        "A model without declared defaults opens a new store, and its own store again",
        arguments: Kind.allCases
    )
    func otherStoresOpen(kind: Kind) async throws {
        try await withTemporaryFile { path in
            let memory = MemoryStore()
            for _ in 0..<2 {
                var store: any LocalStore = memory
                if kind == .file { store = try SQLiteStore(path: path) }
                let device = try await open(Undeclared.self, store)
                try await device.client.syncTable(Undeclared.self).insert(Undeclared(name: "Ann"))
            }
        }
    }

    @Test("An older store file, which stores no properties, is rejected as well")
    func olderFilesAreRejected() async throws {
        try await withRow(.file) { store in
            let before = try await open(First.self, try store())
            try await before.store.write { writer in
                _ = try writer.delete(ids: ["required|item"], in: "MS_TableConfig")
            }
            let error = await #expect(throws: SyncError.self) {
                _ = try await open(Undeclared.self, try store())
            }
            #expect(error?.code == .defaultRequired)
        }
    }

    @Test(
        "A nested value with a missing or null member reads it from the default",
        arguments: [#"{"city":"Genf"}"#, #"{"city":"Genf","country":null}"#]
    )
    func missingMembers(text: String) throws {
        let row: Row = ["id": "a", "address": .json(try JSON(text))]
        #expect(try row.decode(Whole.self).address == Address(city: "Genf", country: "CH"))
    }

    @Test("The server's null reads as the default of its property")
    func serverNullReadsAsTheDefault() throws {
        let row: Row = ["id": "a", "isActive": nil, "level": nil, "address": nil, "rank": nil]
        #expect(try row.decode(Partial.self).isActive)
        #expect(try row.decode(Whole.self) == Whole(id: "a"))
    }
}
