// Transactions of an app: several changes that succeed or fail together on the device.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct TransactionTests {
    private let transport = ScriptedTransport()

    private struct Odd: Error {}

    @Test("A transaction changes several tables", arguments: StoreKind.allCases)
    func aTransactionChangesSeveralTables(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(transport, store: kind.stores(in: path)("one"))
            let text = try await device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                let notes = try transaction.table(named: "note")
                let todo = try todos.insert(Todo(id: "a", text: "todo"))
                try notes.insert(["id": "n", "body": .string(todo.text)])
                try todos.update(id: "a") { $0.rank = 4 }
                #expect(try todos.read(where: { $0.rank == 4 }).map(\.id) == ["a"])
                #expect(try todos.count() == 1)
                #expect(try todos.count(where: { $0.complete }) == 0)
                #expect(try notes.read(id: "n")?["body"] == "todo")
                #expect(try notes.count(where: { $0["body"] == "other" }) == 0)
                return todo.text
            }
            #expect(text == "todo")
            #expect(try await device.queue() == ["insert a", "insert n"])
            #expect(try await device.todos().read(id: "a")?.rank == 4)
        }
    }

    @Test(
        "A failed transaction rethrows the app's error and changes nothing",
        arguments: StoreKind.allCases
    )
    func aFailedTransactionChangesNothing(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(transport, store: kind.stores(in: path)("one"))
            try await device.todos().insert(Todo(id: "b", text: "here"))
            await #expect(throws: Odd.self) {
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    try todos.insert(Todo(id: "a", text: "never"))
                    try todos.update(id: "b") { $0.text = "never" }
                    try todos.delete(id: "b")
                    throw Odd()
                }
            }
            let exists = await code {
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    try todos.insert(Todo(id: "a", text: "never"))
                    try todos.insert(Todo(id: "b", text: "never"))
                }
            }
            #expect(exists == .alreadyExists)
            #expect(try await device.todos().read().map(\.text) == ["here"])
            #expect(try await device.queue() == ["insert b"])
        }
    }

    @Test("A table of an ended transaction throws an error")
    func anEndedTransactionThrows() async throws {
        let device = try await Device(transport)
        // Assigned once, by the closure that is awaited.
        nonisolated(unsafe) var kept: TransactionTable<Todo>?
        try await device.context.transaction { kept = try $0.table(Todo.self) }
        let table = try #require(kept)
        #expect(await code { _ = try table.insert(Todo(id: "a")) } == .transactionEnded)
        #expect(await code { _ = try table.read(id: "a") } == .transactionEnded)
        #expect(try await device.queue() == [])
    }

    @Test("A transaction with an unknown table or an uninitialized store throws an error")
    func unknownTablesAreNamed() async throws {
        let device = try await Device(transport, tables: [Note.self])
        let unknown = await code {
            try await device.context.transaction { _ = try $0.table(Todo.self) }
        }
        #expect(unknown == .unknownTable)
        let client = SyncClient(endpoint: Device.endpoint, transport: transport)
        let closed = await code { try await client.syncContext.transaction { _ in } }
        #expect(closed == .storeNotInitialized)
    }

    @Test("Observers see a complete transaction as one change")
    func observersSeeTheCompleteTransaction() async throws {
        let device = try await Device(transport)
        var lists = try device.todos().observe(sortedBy: [.ascending(\.id)]).makeAsyncIterator()
        #expect(try await lists.next()?.count == 0)
        try await device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            for id in ["a", "b", "c"] { try todos.insert(Todo(id: id)) }
            try todos.delete(id: "b")
        }
        #expect(try await lists.next()?.map(\.id) == ["a", "c"])
    }

    @Test("An outdated record of a transaction does not overwrite newer values")
    func aRecordOfATransactionOverwritesNothing() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        var screen = try await device.context.transaction { transaction in
            try transaction.table(Todo.self).read()[0]
        }
        transport.add(page([serverRow("a", 2, text: "new", rank: 2)]))
        try await device.todos().pull(queryID: nil)
        screen.complete = true
        let changed = screen
        try await device.context.transaction { transaction in
            try transaction.table(Todo.self).update(changed)
        }
        transport.add(.json(412, serverRow("a", 2, text: "new", rank: 2)))
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.last?.ifMatch == "\"v1\"")
    }

    @Test("A change of an array is one transaction") func arraysAreOneTransaction() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        var items = try await todos.insert((1...4).map { Todo(id: "\($0)", text: "one") })
        for index in items.indices { items[index].text = "two" }
        #expect(try await todos.update(items).map(\.text) == ["two", "two", "two", "two"])
        items.append(Todo(id: "missing"))
        for index in items.indices { items[index].text = "three" }
        let changed = items
        #expect(await code { try await todos.update(changed) } == .notFound)
        #expect(try await todos.read(where: { $0.text == "two" }).count == 4)
        try await todos.delete(Array(changed.prefix(2)))
        try await todos.delete(ids: ["3", "missing"])
        #expect(try await todos.read().map(\.id) == ["4"])
        #expect(try await device.queue() == ["insert 4"])
        try await todos.delete([])
        #expect(try await todos.insert([]).isEmpty)
    }

    @Test(
        "An update within the closure of another update is not lost",
        arguments: StoreKind.allCases
    )
    func anUpdateWithinAnUpdateIsKept(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(transport, store: kind.stores(in: path)("one"))
            try await device.seed([localRow("a", 1, rank: 1)])
            try await device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                try todos.update(id: "a") { todo in
                    todo.text = "mine"
                    try todos.update(id: "a") { $0.rank = 2 }
                }
            }
            let row = try #require(try await device.todos().read(id: "a"))
            #expect(row.text == "mine" && row.rank == 2)
            let gone = await code {
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    try todos.insert(Todo(id: "new", text: "mine"))
                    try todos.update(id: "new") { todo in
                        todo.rank = 3
                        try todos.delete(id: "new")
                    }
                }
            }
            #expect(gone == .notFound)
            #expect(try await device.queue() == ["update a"])
        }
    }

    @Test("Operations of all tables are pushed in order")
    func operationsOfAllTablesArePushedInOrder() async throws {
        let device = try await Device(transport)
        try await device.context.transaction { transaction in
            try transaction.table(Note.self).insert(Note(id: "n"))
            try transaction.table(Todo.self).insert(Todo(id: "a"))
        }
        transport.add(
            page([]),
            .json(201, #"{"id":"n","body":"","version":"v1"}"#),
            .json(201, serverRow("a", 1, text: ""))
        )
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.map(\.target) == ["/tables/Note?$top=1", "/tables/Note", "/tables/Todo"]
        )
    }
}
