// update(where:), delete(where:) and upsert: one operation for each row, in one transaction.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct BulkChangeTests {
    private struct Odd: Error, Equatable {}

    private func withDevice(
        _ kind: StoreKind,
        _ body: (Device, SyncTable<Todo>) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: kind.stores(in: path)("one"))
            try await device.seed([
                localRow("a", 1, rank: 1), localRow("b", 2, rank: 2), localRow("c", 3, rank: 3),
            ])
            try await body(device, device.todos())
        }
    }

    @Test("An update of matching records queues one operation each", arguments: StoreKind.allCases)
    func updates(kind: StoreKind) async throws {
        try await withDevice(kind) { device, todos in
            let count = try await todos.update(where: { $0.rank >= 2 }) { $0.complete = true }
            #expect(count == 2)
            #expect(try await device.queue() == ["update b", "update c"])
            #expect(try await todos.read(where: { $0.complete }).map(\.id) == ["b", "c"])
            let query = try Query<Todo>().sorted(by: .descending(\.rank)).limited(to: 1)
            #expect(try await todos.update(query) { $0.text = "last" } == 1)
            #expect(try await todos.read(id: "c")?.text == "last")
            #expect(try await todos.update(where: { $0.rank == 9 }) { $0.text = "" } == 0)
        }
    }

    @Test("The records are those that match before the first change")
    func matching() async throws {
        try await withDevice(.file) { _, todos in
            let count = try await todos.update(where: { $0.rank < 3 }) {
                $0.rank = ($0.rank ?? 0) + 1
            }
            #expect(count == 2)
            #expect(try await todos.read().map(\.rank) == [2, 3, 3])
        }
    }

    @Test("An error in a bulk change leaves all records unchanged", arguments: StoreKind.allCases)
    func failures(kind: StoreKind) async throws {
        try await withDevice(kind) { device, todos in
            await #expect(throws: Odd()) {
                try await todos.update(Query()) { todo in
                    if todo.id == "c" { throw Odd() }
                    todo.text = "changed"
                }
            }
            let renamed = await code {
                try await todos.update(Query()) { $0.id = "z" }
            }
            #expect(renamed == .invalidID)
            let queue = try await device.queue()
            #expect(queue.isEmpty)
            #expect(try await todos.count(where: { $0.text == "changed" }) == 0)
            let unknown = await code { try await todos.delete(where: { $0["nowhere"] == 1 }) }
            #expect(unknown == .unsupportedQuery)
        }
    }

    @Test("A delete of matching records queues one operation each", arguments: StoreKind.allCases)
    func deletes(kind: StoreKind) async throws {
        try await withDevice(kind) { device, todos in
            try await todos.insert(Todo(id: "d", rank: 4))
            #expect(try await todos.delete(where: { $0.rank != 2 }) == 3)
            // The insert was never sent.
            #expect(try await device.queue() == ["delete a", "delete c"])
            #expect(try await todos.read().map(\.id) == ["b"])
            #expect(try await todos.delete(Query()) == 1)
            #expect(try await todos.count() == 0)
        }
    }

    @Test("In a transaction, the changes are part of its group", arguments: StoreKind.allCases)
    func inTransactions(kind: StoreKind) async throws {
        try await withDevice(kind) { device, todos in
            try await device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                let count = try todos.update(where: { $0.rank < 3 }) { todo in
                    todo.complete = true
                    // The closure removes the next record.
                    if todo.id == "a" { try todos.delete(id: "b") }
                }
                #expect(count == 1)
                #expect(try todos.delete(where: { $0.rank == 3 }) == 1)
                try todos.upsert([Todo(id: "a", text: "again"), Todo(id: "n", text: "new")])
                #expect(try todos.read().map(\.text) == ["again", "new"])
            }
            let queue = try await device.queue()
            #expect(queue.sorted() == ["delete b", "delete c", "insert n", "update a"])
        }
    }

    @Test("A transaction with too many operations is rejected")
    func limits() async throws {
        var limits = SyncLimits()
        limits.transactionRowsMax = 2
        let device = try await Device(ScriptedTransport(), limits: limits)
        let todos = try device.todos()
        try await device.seed((1...4).map { localRow("\($0)", $0) })
        let found = await code {
            try await device.context.transaction {
                _ = try $0.table(Todo.self).update(Query()) { $0.text = "all" }
            }
        }
        #expect(found == .transactionTooLarge)
        #expect(try await todos.update(Query()) { $0.text = "all" } == 4)
    }

    @Test(
        "An upsert inserts the record or replaces the values of its row",
        arguments: StoreKind.allCases
    )
    func upserts(kind: StoreKind) async throws {
        try await withDevice(kind) { device, todos in
            let new = try await todos.upsert(Todo(text: "without an id"))
            #expect(!new.id.isEmpty)
            try await todos.upsert(Todo(id: "d", text: "new", rank: 4))
            // The record has no version: it replaces the values of the row as it is now.
            let replaced = try await todos.upsert(Todo(id: "a", text: "import"))
            #expect(replaced.text == "import" && replaced.rank == nil && replaced.version == "v1")
            let rows = try await device.rows()
            #expect(rows.first { $0.id == "a" }?["createdAt"]?.isNull == false)
            var read = try #require(try await todos.read(id: "b"))
            read.text = "edited"
            #expect(try await todos.upsert([read])[0].text == "edited")
            #expect(
                try await device.queue() == [
                    "insert \(new.id)", "insert d", "update a", "update b",
                ]
            )
        }
    }

    @Test("A type without a version can be upserted")
    func withoutVersions() async throws {
        let device = try await Device(ScriptedTransport())
        let notes = try device.client.syncTable(Note.self)
        try await notes.upsert(Note(id: "n", body: "one"))
        try await notes.upsert(Note(id: "n", body: "two"))
        #expect(try await notes.read(id: "n")?.body == "two")
        #expect(try await device.queue() == ["insert n"])
        try await notes.delete(id: "n")
        try await notes.upsert(Note(id: "n", body: "three"))
        #expect(try await notes.read(id: "n")?.body == "three")
    }

    @Test("An upsert does not overwrite columns that were not read")
    func partialRecords() async throws {
        let device = try await Device(ScriptedTransport(), tables: [Plain.self])
        let todos = try device.client.syncTable(Plain.self)
        try await todos.insert(Plain(id: "a", text: "long", rank: 3))
        let partial = try await todos.read(Query<Plain>().selecting(\.text)).items[0]
        #expect(await code { try await todos.upsert(partial) } == .partialRecord)
        #expect(try await todos.read(id: "a")?.rank == 3)
    }
}
