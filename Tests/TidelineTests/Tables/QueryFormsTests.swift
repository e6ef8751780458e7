// The overloads that take a complete Query or one id, and opening a client in one step.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct QueryFormsTests {
    private let transport = ScriptedTransport()

    private struct Measured: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var text = ""
        var isLong: Bool { text.count > 3 }
    }

    @Test("A query is observed with its filter, order and limit")
    func aQueryIsObserved() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        let query = try Query<Todo>(where: { $0.rank > 1 })
            .sorted(by: .descending(\.rank)).limited(to: 2)
        var lists = todos.observe(query).makeAsyncIterator()
        #expect(try await lists.next()?.isEmpty == true)
        try await todos.insert([1, 2, 3, 4].map { (rank: Int) in Todo(id: "\(rank)", rank: rank) })
        #expect(try await lists.next()?.map(\.id) == ["4", "3"])
    }

    @Test("An empty order has no effect") func anEmptyOrderIsOneForm() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a"))
        #expect(try await todos.read(sortedBy: []).count == 1)
        #expect(try await todos.read(where: { !$0.complete }, sortedBy: []).count == 1)
        let isThere = try await device.context.transaction { transaction in
            let table = try transaction.table(Todo.self)
            return try table.read(sortedBy: []).count
                + table.read(where: { !$0.complete }, sortedBy: []).count
        }
        #expect(isThere == 2)
        let list = await LiveQuery(todos)
        await list.update(sortedBy: [])
        await list.update(where: { !$0.complete }, sortedBy: [])
    }

    @Test("The order of a query is an array or single terms")
    func anOrderIsAnArrayOrSingleTerms() async throws {
        let query = Query<Todo>()
        let wanted = try query.sorted(by: .descending(\.rank), .ascending(\.text)).table
        #expect(try query.sorted(by: [.descending(\.rank), .ascending(\.text)]).table == wanted)
        let byText = SortDescriptor(\Todo.text)
        let byRank = SortDescriptor(\Todo.rank, order: .reverse)
        #expect(try query.sorted(by: byRank, byText).table == wanted)
        #expect(try query.sorted(by: [byRank, byText]).table == wanted)
        let one = try query.sorted(by: SortDescriptor(\.text)).table
        #expect(try query.sorted(by: .ascending(\.text)).table == one)
    }

    @Test("A transaction reads all rows of a table")
    func allRowsOfATableAreReadInATransaction() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        let ids = try await device.context.transaction { transaction in
            let all = try transaction.table(Todo.self).read()
            return all.map(\.id)
        }
        #expect(ids == ["a"])
    }

    @MainActor @Test("A live query runs again only if it follows another query")
    func aViewFollowsItsQuery() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await todos.insert([1, 2, 3].map { (rank: Int) in Todo(id: "\(rank)", rank: rank) })
        let low = try Query<Todo>(where: { $0.rank < 3 })
        let list = LiveQuery(todos, low)
        try await until { !list.isLoading }
        #expect(list.items.count == 2)
        list.follow(low)
        list.follow(low)
        #expect(!list.isLoading)
        // The view shows another query now: creating the view again does not revert that.
        list.update(where: { $0.rank == 3 })
        list.follow(low)
        try await until { !list.isLoading }
        #expect(list.items.map(\.id) == ["3"])
        list.follow(try Query(where: { $0.rank < 2 }))
        #expect(list.isLoading)
        try await until { !list.isLoading }
        #expect(list.items.map(\.id) == ["1"])
    }

    @Test("One record is observed from its insert to its delete")
    func oneRecordIsObserved() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        var states = todos.observe(id: "a").makeAsyncIterator()
        #expect(try await states.next() == .some(nil))
        try await todos.insert(Todo(id: "b"))
        try await todos.insert(Todo(id: "a", text: "one"))
        #expect(try await states.next()??.text == "one")
        try await todos.update(id: "b") { $0.text = "other" }
        try await todos.update(id: "a") { $0.text = "two" }
        #expect(try await states.next()??.text == "two")
        try await todos.delete(id: "a")
        #expect(try await states.next() == .some(nil))
    }

    @Test("The counts of a table and of its filters are observed")
    func countsAreObserved() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        let rows = try device.client.syncTable(named: "Todo")
        var all = todos.observeCount().makeAsyncIterator()
        var open = todos.observeCount(where: { !$0.complete }).makeAsyncIterator()
        var done = todos.observeCount(where: #Predicate { $0.complete }).makeAsyncIterator()
        var untyped = rows.observeCount(where: { $0["complete"] == true }).makeAsyncIterator()
        #expect(try await all.next() == 0)
        #expect(try await open.next() == 0)
        #expect(try await done.next() == 0)
        #expect(try await untyped.next() == 0)
        try await todos.insert([Todo(id: "a"), Todo(id: "b", complete: true)])
        try await todos.update(id: "a") { $0.text = "no other number" }
        try await todos.insert([Todo(id: "c"), Todo(id: "d")])
        var (last, lastOpen) = (0, 0)
        while last < 4, let next = try await all.next() {
            #expect(next > last)
            last = next
        }
        while lastOpen < 3, let next = try await open.next() { lastOpen = next }
        #expect(try await done.next() == 1)
        #expect(try await untyped.next() == 1)
    }

    @Test("An observed count throws an error if its filter cannot be built")
    func anInvalidCountThrows() async throws {
        let device = try await Device(transport, tables: [Measured.self])
        let table = try device.client.syncTable(Measured.self)
        var counts = table.observeCount(where: { $0.isLong }).makeAsyncIterator()
        await #expect(throws: SyncError.self) { try await counts.next() }
    }

    @Test("Sort descriptors order observed rows") func descriptorsOrderObservedRows() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await todos.insert([Todo(id: "a", text: "x"), Todo(id: "b", text: "y")])
        let order = [SortDescriptor(\Todo.text, order: .reverse)]
        var lists = todos.observe(sortedBy: order, limit: 1).makeAsyncIterator()
        #expect(try await lists.next()?.map(\.id) == ["b"])
    }

    @Test("Transactions and live queries accept each kind of order")
    func eachFormAcceptsEachOrder() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        let rows = try device.client.syncTable(named: "Todo")
        try await todos.insert([
            Todo(id: "a", text: "x", rank: 1), Todo(id: "b", text: "y", rank: 2),
            Todo(id: "c", text: "z", rank: 3),
        ])
        let read = try await device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            let rows = try transaction.table(named: "Todo")
            let down = [SortDescriptor(\Todo.text, order: .reverse)]
            return [
                try todos.read(sortedBy: [.descending(\.rank)], limit: 2).map(\.id),
                try todos.read(sortedBy: down, limit: 2).map(\.id),
                try todos.read(where: { $0.rank > 1 }, sortedBy: [.descending(\.rank)]).map(\.id),
                try todos.read(where: { $0.rank > 1 }, sortedBy: down).map(\.id),
                try todos.read(where: #Predicate { $0.id != "a" }, sortedBy: down).map(\.id),
                try todos.read(sortedBy: down, limit: 2).map(\.id),
                try rows.read(sortedBy: [.descending("rank")], limit: 2).map(\.id),
            ]
        }
        #expect(read.allSatisfy { $0 == ["c", "b"] }, "\(read)")
        try await expectShown(todos, rows)
    }

    @MainActor
    private func expectShown(_ todos: SyncTable<Todo>, _ rows: SyncTable<Row>) async throws {
        func expect<Record>(_ live: LiveQuery<Record>, _ id: (Record) -> String) async throws {
            try await until { !live.isLoading }
            #expect(live.items.map(id) == ["c", "b"])
        }
        let down = [SortDescriptor(\Todo.text, order: .reverse)]
        try await expect(LiveQuery(todos, sortedBy: [.descending(\.rank)], limit: 2), \.id)
        try await expect(LiveQuery(todos, sortedBy: down, limit: 2), \.id)
        try await expect(LiveQuery(todos, where: { $0.rank > 1 }, sortedBy: down), \.id)
        try await expect(LiveQuery(todos, where: #Predicate { $0.id != "a" }, sortedBy: down), \.id)
        let order: [SortTerm<Row>] = [.descending("rank")]
        try await expect(LiveQuery(rows, where: { $0["rank"] > 1 }, sortedBy: order), \.id)
        let live = LiveQuery(todos)
        live.update(sortedBy: down, limit: 2)
        try await expect(live, \.id)
        live.update(where: #Predicate { $0.id != "a" }, sortedBy: down)
        try await expect(live, \.id)
        let untyped = LiveQuery(rows)
        untyped.update(where: { $0["rank"] > 1 }, sortedBy: order)
        try await expect(untyped, \.id)
    }

    @Test("A purge of a query removes its rows and rejects an order or a limit")
    func aQueryIsPurged() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await device.seed([localRow("a", 1, rank: 1), localRow("b", 1, rank: 2)])
        let low = try Query<Todo>(where: { $0.rank == 1 })
        for query in [low.limited(to: 1), try low.sorted(by: .ascending(\.text))] {
            #expect(await code { try await todos.purge(query) } == .unsupportedQuery)
        }
        try await todos.purge(low)
        #expect(try await todos.read().map(\.id) == ["b"])
    }

    @Test("A sync accepts the closure of an untyped table and a predicate")
    func syncAcceptsEachForm() async throws {
        let device = try await Device(transport)
        let rows = try device.client.syncTable(named: "Todo")
        transport.add(page([serverRow("a", 1)]), page([]))
        try await rows.sync(queryID: nil, where: { $0["complete"] == false })
        try await device.todos().sync(queryID: nil, where: #Predicate { $0.complete })
        #expect(transport.sent[0].query.contains("complete eq false"))
        #expect(transport.sent[1].query.contains("complete"))
    }

    @Test("A client is opened with its store in one step") func openNeedsOneStep() async throws {
        let client = try await SyncClient.open(
            endpoint: Device.endpoint,
            store: MemoryStore(),
            tables: [Todo.self],
            transport: transport
        )
        try await client.syncTable(Todo.self).insert(Todo(id: "a"))
        #expect(try await client.syncContext.pendingOperationCount == 1)
        let broken = await code {
            _ = try await SyncClient.open(
                endpoint: Device.endpoint,
                store: MemoryStore(),
                tables: [Todo.self],
                tableConflicts: ["missing": .serverWins]
            )
        }
        #expect(broken == .unknownTable)
    }
}
