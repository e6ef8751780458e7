// insert of many records: one transaction, with the rules of single inserts.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct InsertManyTests {
    private let transport = ScriptedTransport()

    private func device(_ file: Bool) async throws -> Device {
        guard file else { return try await Device(transport) }
        return try await Device(transport, store: try SQLiteStore(path: ":memory:"))
    }

    @Test("A list of records is stored and queued in order", arguments: [false, true])
    func allAreStoredAndQueuedInOrder(file: Bool) async throws {
        let device = try await device(file)
        let given = (0..<1200).map { Todo(id: $0 % 3 == 0 ? "" : "id \($0)", text: "\($0)") }
        let stored = try await device.todos().insert(given)
        #expect(stored.map(\.text) == given.map(\.text))
        #expect(Set(stored.map(\.id)).count == 1200)
        #expect(stored[1].id == "id 1")
        #expect(try await device.queue() == stored.map { "insert \($0.id)" })
        #expect(try await device.todos().count() == 1200)
        #expect(try await device.todos().read(id: stored[600].id) == stored[600])
        #expect(try await device.todos().insert([]) == [])
    }

    @Test("An inserted record does not store its system columns", arguments: [false, true])
    func systemColumnsAreLeftOut(file: Bool) async throws {
        let device = try await device(file)
        let stored = try await device.todos().insert([
            Todo(text: "x", version: "v7", updatedAt: .init(timeIntervalSince1970: 7))
        ])
        #expect(stored[0].version == nil)
        #expect(stored[0].updatedAt == nil)
    }

    @Test(
        "A record that cannot be stored prevents all inserts of its list",
        arguments: [
            ["new", "here", "other"], ["new", "other", "new"], ["new", "other", "a/b"],
        ]
    )
    func aRecordThatCannotBeStoredPreventsAllInserts(ids: [String]) async throws {
        for file in [false, true] {
            let device = try await device(file)
            try await device.todos().insert(Todo(id: "here", text: "first"))
            let expected = ids.contains("a/b") ? SyncError.Code.invalidID : .alreadyExists
            #expect(
                await code { try await device.todos().insert(ids.map { Todo(id: $0) }) } == expected
            )
            #expect(try await device.queue() == ["insert here"])
            #expect(try await device.todos().read().map(\.id) == ["here"])
        }
    }

    @Test("A list that inserts a deleted row again replaces it", arguments: [false, true])
    func aDeleteInTheQueueBecomesAReplacement(file: Bool) async throws {
        let device = try await device(file)
        try await device.seed([localRow("a", 1, text: "server", rank: 1)])
        try await device.todos().delete(id: "a")
        try await device.todos().insert([Todo(id: "b"), Todo(id: "a", text: "back")])
        #expect(try await device.queue() == ["update a", "insert b"])
        #expect(try await device.todos().read(id: "a")?.text == "back")
    }

    /// A row of a list has no version yet.
    @Test("An older copy of a row that a list inserted does not overwrite later values")
    func aListWithOneNewRowIsRemembered() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "a", rank: 1)])
        try await device.todos().insert([Todo(id: "b", text: "mine", rank: 1)])
        var copy = try #require(try await device.todos().read().last)
        #expect(copy.version == nil)
        transport.add(.json(201, serverRow("b", 1, text: "mine", rank: 1)))
        #expect(try await device.push() == nil)
        try await device.seed([localRow("b", 2, text: "theirs", rank: 1)])
        copy.text = "edited"
        try await device.todos().update(copy)
        transport.add(.json(412, serverRow("b", 2, text: "theirs", rank: 1)))
        #expect(try await device.push()?.errors.first?.itemID == "b")
    }
}
