// How often the queries of observers run, counted by a store that records its reads.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct QueryRunTests {
    private let transport = ScriptedTransport()

    private func withStore(
        _ body: (RecordingStore, SyncTable<Todo>, Device) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            let store = RecordingStore(try SQLiteStore(path: path))
            let device = try await Device(transport, store: store)
            try await body(store, try device.todos(), device)
        }
    }

    private func counts(_ store: RecordingStore) -> Int {
        store.reads.count { $0.table == "Todo" && $0.isCount && $0.filter != nil }
    }

    /// The runs of a sorted list, which reads all rows or those that have changed.
    private func lists(_ store: RecordingStore) -> Int {
        store.reads.count {
            $0.table == "Todo" && ($0.order.count == 1 || ($0.hasKeys && $0.filter == nil))
        }
    }

    @Test("An observed count runs again only if a change may affect it")
    func aCountRunsAgainIfItMayChange() async throws {
        try await withStore { store, todos, _ in
            try await todos.insert(Todo(id: "in", rank: 7))
            var high = todos.observeCount(where: { $0.rank > 5 }).makeAsyncIterator()
            var all = todos.observeCount().makeAsyncIterator()
            #expect(try await high.next() == 1)
            #expect(try await all.next() == 1)
            store.forget()
            for number in 2...20 {
                try await todos.insert(Todo(id: "\(number)", rank: 1))
                var count = 0
                while count < number { count = try #require(try await all.next()) }
                // The row is in the count, and stays in it.
                try await todos.update(id: "in") { $0.rank = 10 + number }
            }
            // An observer gets the changes in their order: a run for one of these would be counted below.
            #expect(counts(store) == 0)
            try await todos.update(id: "2") { $0.rank = 6 }
            #expect(try await high.next() == 2)
            try await todos.update(id: "in") { $0.rank = nil }
            #expect(try await high.next() == 1)
            try await todos.delete(id: "2")
            #expect(try await high.next() == 0)
            #expect(counts(store) == 3)
        }
    }

    /// Changes over time are noticed with the next change of the table.
    @Test("A query that uses the current time follows every change of its table")
    func aQueryByTimeFollowsEveryChangeOfItsTable() async throws {
        let now = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
        var environment = Waits().environment
        environment.now = { now.withLock { $0 } }
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: transport,
            environment: environment
        )
        let column = ColumnDefinition("due", .dateTime)
        let schema = TableSchema(name: "event", columns: [column])
        try await client.syncContext.initialize(
            store: MemoryStore(),
            tables: [],
            schemas: [schema]
        )
        let events = try client.syncTable(named: "event")
        let soon = now.withLock { $0.addingTimeInterval(60) }
        let late = now.withLock { $0.addingTimeInterval(6000) }
        try await events.insert([
            ["id": "soon", "due": .date(soon)], ["id": "late", "due": .date(late)],
        ])
        let query = try Query<Row>(odata: "$filter=due lt now()")
        var lists = events.observe(query).makeAsyncIterator()
        #expect(try await lists.next()?.isEmpty == true)
        var counts = events.observeCount(query).makeAsyncIterator()
        #expect(try await counts.next() == 0)
        now.withLock { $0 = soon.addingTimeInterval(1) }
        try await events.delete(id: "late")
        #expect(try await lists.next()?.map(\.id) == ["soon"])
        #expect(try await counts.next() == 1)
    }

    /// More rows than the observer stores one by one.
    @Test("An observed count of many rows follows every change")
    func aCountOfManyFollowsEveryChange() async throws {
        try await withStore { store, todos, _ in
            try await todos.insert((0..<3000).map { Todo(id: "r\($0)", rank: 7) })
            var high = todos.observeCount(where: { $0.rank > 5 }).makeAsyncIterator()
            #expect(try await high.next() == 3000)
            try await todos.update(id: "r5") { $0.rank = 1 }
            #expect(try await high.next() == 2999)
            try await todos.delete(id: "r6")
            #expect(try await high.next() == 2998)
            try await todos.insert(Todo(id: "new", rank: 9))
            #expect(try await high.next() == 2999)
        }
    }

    @Test("A change of another table runs no query")
    func changesOfAnotherTableRunNoQuery() async throws {
        try await withStore { store, todos, device in
            let notes = try device.client.syncTable(Note.self)
            var list = todos.observe(sortedBy: [.descending(\.rank)]).makeAsyncIterator()
            var count = todos.observeCount(where: { $0.rank > 5 }).makeAsyncIterator()
            var one = todos.observe(id: "a").makeAsyncIterator()
            var others = notes.observeCount().makeAsyncIterator()
            #expect(try await list.next()?.isEmpty == true)
            #expect(try await count.next() == 0)
            #expect(try await one.next() == .some(nil))
            #expect(try await others.next() == 0)
            store.forget()
            for number in 1...20 {
                try await notes.insert(Note(id: "\(number)"))
                var seen = 0
                while seen < number { seen = try #require(try await others.next()) }
            }
            #expect(store.readCount(of: "Todo") == 0)
            try await todos.insert(Todo(id: "a", rank: 6))
            #expect(try await list.next()?.count == 1)
            #expect(try await count.next() == 1)
            #expect(try await one.next()??.rank == 6)
            #expect(lists(store) == 1)
            #expect(counts(store) == 1)
        }
    }

    /// A page is one change, with any number of rows.
    @Test("A pulled page runs each observed query once")
    func aPulledPageRunsEachQueryOnce() async throws {
        try await withStore { store, todos, _ in
            var list = todos.observe(sortedBy: [.descending(\.rank)]).makeAsyncIterator()
            var count = todos.observeCount(where: { $0.rank > 5 }).makeAsyncIterator()
            #expect(try await list.next()?.isEmpty == true)
            #expect(try await count.next() == 0)
            store.forget()
            transport.add(page((1...100).map { serverRow("r\($0)", $0, rank: 5 + $0) }))
            try await todos.pull(queryID: "all")
            #expect(try await list.next()?.count == 100)
            #expect(try await count.next() == 100)
            try await todos.insert(Todo(id: "behind", rank: 9))
            #expect(try await list.next()?.count == 101)
            #expect(try await count.next() == 101)
            #expect(lists(store) == 2)
            #expect(counts(store) == 2)
        }
    }

    @Test("Changes are compared by the order of enumeration members")
    func changesAreComparedByTheColumnsType() async throws {
        let schema = TableSchema(
            name: "Job",
            columns: [ColumnDefinition("state", .enumeration(["open", "done"]))]
        )
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let device = try await Device(transport, store: store, tables: [], schemas: [schema])
            let jobs = try device.client.syncTable(named: "Job")
            let query = try Query<Row>(odata: "$filter=STATE lt 'done'")
            var open = jobs.observe(query).makeAsyncIterator()
            var count = jobs.observeCount(query).makeAsyncIterator()
            #expect(try await open.next()?.isEmpty == true)
            #expect(try await count.next() == 0)
            try await jobs.insert(["id": "a", "state": "open"])
            #expect(try await open.next()?.map(\.id) == ["a"])
            #expect(try await count.next() == 1)
        }
    }

    @MainActor @Test("A released live query stops observing its table")
    func aReleasedLiveQueryStopsListening() async throws {
        try await withTemporaryFile { path in
            let store = RecordingStore(try SQLiteStore(path: path))
            let todos = try await Device(transport, store: store).todos()
            let before = store.listeners
            var live: LiveQuery<Todo>? = LiveQuery(todos, where: { $0.rank == 3 })
            try await until { live?.isLoading != true }
            #expect(store.listeners == before + 1)
            live?.update(where: { $0.rank == 4 })
            try await until { live?.isLoading != true }
            try await until { store.listeners == before + 1 }
            try await todos.insert(Todo(id: "a", rank: 4))
            try await until { live?.items.count != 0 }
            live = nil
            try await until { store.listeners == before }
            store.forget()
            for number in 0..<5 { try await todos.insert(Todo(id: "\(number)", rank: 4)) }
            #expect(store.readCount(of: "Todo") == 0)
        }
    }
}
