// observe and events: the published values, the values that are not published, and the end of a sequence.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct ObserveTests {
    private let transport = ScriptedTransport()

    @Test("An observer gets the current result and then each change", arguments: StoreKind.allCases)
    func observersGetTheResultAndEachChange(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(transport, store: try await kind.stores(in: path)("one"))
            let todos = try device.todos()
            try await todos.insert(Todo(id: "a", text: "one"))
            var open = todos.observe(where: { !$0.complete }).makeAsyncIterator()
            #expect(try await open.next()?.map(\.id) == ["a"])
            try await todos.insert(Todo(id: "b", text: "two"))
            #expect(try await open.next()?.map(\.id) == ["a", "b"])
            try await todos.update(id: "a") { $0.complete = true }
            #expect(try await open.next()?.map(\.id) == ["b"])
            transport.add(page([serverRow("c", 1)]))
            try await todos.purge(force: true)
            #expect(try await open.next()?.isEmpty == true)
            try await todos.pull(queryID: nil)
            #expect(try await open.next()?.map(\.id) == ["c"])
        }
    }

    /// The first change is published at once.
    @Test("Changes are gathered while an observer rests, and its query runs once for them")
    func changesGatherWhileAnObserverRests() async throws {
        let (rests, store) = (Rests(), CountingStore())
        defer { rests.end(forAll: true) }
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: transport,
            environment: rests.environment
        )
        try await client.syncContext.initialize(store: store, tables: [Todo.self])
        let todos = try client.syncTable(Todo.self)
        var lists = todos.observe().makeAsyncIterator()
        #expect(try await lists.next()?.count == 0)
        try await todos.insert(Todo(id: "first"))
        #expect(try await lists.next()?.count == 1)
        try await until { rests.count >= 1 }
        for round in 1...3 {
            let before = store.reads
            for number in 0..<50 { try await todos.insert(Todo(id: "\(round) \(number)")) }
            #expect(store.reads == before)
            rests.end()
            #expect(try await lists.next()?.count == 1 + round * 50)
            #expect(store.reads == before + 1)
            try await until { rests.count >= 1 + round }
        }
    }

    @Test("An unchanged result is not published")
    func anUnchangedResultIsNotPublished() async throws {
        let device = try await Device(transport, tables: [Plain.self, Note.self])
        let todos = try device.client.syncTable(Plain.self)
        let notes = try device.client.syncTable(Note.self)
        var open = todos.observe(where: { !$0.complete }).makeAsyncIterator()
        #expect(try await open.next()?.isEmpty == true)
        try await notes.insert(Note(id: "n"))
        try await todos.insert(Plain(id: "x", complete: true))
        try await todos.insert(Plain(id: "a", text: "one"))
        #expect(try await open.next()?.map(\.id) == ["a"])
        // The push gives the row a version, which the record does not contain.
        transport.add(
            .json(201, #"{"id":"n","body":"","version":"v1"}"#),
            .json(201, serverRow("x", 1).replacing("false,\"rank", with: "true,\"rank")),
            .json(201, serverRow("a", 2, text: "one"))
        )
        #expect(try await device.push() == nil)
        try await todos.insert(Plain(id: "b", text: "two"))
        #expect(try await open.next()?.map(\.id) == ["a", "b"])
    }

    @Test("One record, a count and a query are observed")
    func oneRecordAndCountsAreObserved() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        var one = todos.observe(id: "a").makeAsyncIterator()
        var open = todos.observeCount(where: { !$0.complete }).makeAsyncIterator()
        var all = todos.observeCount().makeAsyncIterator()
        #expect(try await one.next() == .some(nil))
        #expect(try await open.next() == 0)
        #expect(try await all.next() == 0)
        try await todos.insert(Todo(id: "a", text: "one"))
        #expect(try await one.next()??.text == "one")
        #expect(try await open.next() == 1)
        #expect(try await all.next() == 1)
        try await todos.insert(Todo(id: "b", complete: true))
        #expect(try await all.next() == 2)
        try await todos.update(id: "a") { $0.complete = true }
        #expect(try await one.next()??.complete == true)
        #expect(try await open.next() == 0)
        try await todos.delete(id: "a")
        #expect(try await one.next() == .some(nil))
        #expect(try await all.next() == 1)
        var query = try Query<Todo>(where: { $0.complete })
        var those = todos.observe(query).makeAsyncIterator()
        #expect(try await those.next()?.map(\.id) == ["b"])
        query.limit = 1
        await #expect(throws: SyncError.self) { try await todos.purge(query, force: true) }
        query.limit = nil
        try await todos.purge(query, force: true)
        #expect(try await those.next()?.isEmpty == true)
    }

    @Test("An observed query applies its order and limit")
    func ordersAndLimitsApply() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        var top = todos.observe(sortedBy: [.descending(\.rank)], limit: 2).makeAsyncIterator()
        #expect(try await top.next()?.isEmpty == true)
        for rank in [1, 5] { try await todos.insert(Todo(id: "\(rank)", rank: rank)) }
        var last: [String] = []
        while last.count < 2, let next = try await top.next() { last = next.map(\.id) }
        #expect(last == ["5", "1"])
        try await todos.insert(Todo(id: "9", rank: 9))
        #expect(try await top.next()?.map(\.id) == ["9", "5"])
    }

    @Test("Each iteration of an observed sequence starts with the current result")
    func eachIterationStartsWithTheCurrentResult() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        let (lists, counts) = (todos.observe(), todos.observeCount())
        let one = todos.observe(id: "b")
        for id in ["a", "b", "c"] {
            try await todos.insert(Todo(id: id))
            for try await list in lists {
                #expect(list.last?.id == id)
                break
            }
            for try await count in counts {
                #expect(count == (id == "a" ? 1 : id == "b" ? 2 : 3))
                break
            }
            for try await item in one {
                #expect((item == nil) == (id == "a"))
                break
            }
        }
        // Nested iterations: each receives all values independently.
        var seen: [Int] = []
        for try await list in lists {
            seen.append(list.count)
            if seen.count == 2 { break }
            try await todos.insert(Todo(id: "d"))
            for try await inner in lists {
                #expect(inner.count == 4)
                break
            }
        }
        #expect(seen == [3, 4])
    }

    @Test("A query does not run again after its last iterator is released")
    func aReleasedIteratorReadsNothing() async throws {
        let store = RecordingStore(MemoryStore())
        let device = try await Device(transport, store: store)
        let todos = try device.todos()
        let before = store.listeners
        let lists = todos.observe()
        for try await _ in lists { break }
        for try await _ in lists { break }
        // A query that does not listen for changes cannot run again.
        try await until { store.listeners == before }
        store.forget()
        for number in 0..<20 { try await todos.insert(Todo(id: "\(number)")) }
        #expect(store.readCount(of: "Todo") == 0)
    }

    @Test("An observed sequence ends when its task is cancelled")
    func itEndsWhenTheTaskIsCancelled() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        let task = Task {
            var count = 0
            for try await _ in todos.observe(where: { !$0.complete }) {
                count += 1
                withUnsafeCurrentTask { $0?.cancel() }
            }
            return count
        }
        #expect(try await task.value == 1)
    }

    /// A file keeps the letter case with which a table was created.
    @Test("Changes of a table in another letter case are observed")
    func changesOfATableInAnotherCaseAreReported() async throws {
        try await withTemporaryFile { path in
            let former = TableSchema(name: "todo", columns: [ColumnDefinition("text", .string)])
            let store = try SQLiteStore(path: path)
            _ = try await Device(transport, store: store, tables: [], schemas: [former])
            try await store.close()
            let device = try await Device(transport, store: SQLiteStore(path: path))
            var open = try device.todos().observe(where: { !$0.complete }).makeAsyncIterator()
            #expect(try await open.next()?.isEmpty == true)
            try await device.todos().insert(Todo(id: "a"))
            #expect(try await open.next()?.map(\.id) == ["a"])
        }
    }

    @Test("An observed sequence throws the error of its query")
    func anErrorOfTheQueryIsThrown() async throws {
        let device = try await Device(transport)
        let rows = try device.client.syncTable(named: "Todo")
        var stream = rows.observe(where: { $0["nowhere"] == 1 }).makeAsyncIterator()
        let error = await #expect(throws: SyncError.self) { try await stream.next() }
        #expect(error?.code == .unsupportedQuery)
    }

    @Test("Events report the progress of a push and a pull")
    func eventsReportTheProgress() async throws {
        let device = try await Device(transport)
        let events = device.context.events
        try await device.todos().insert(Todo(id: "a"))
        try await device.todos().insert(Todo(id: "b"))
        transport.add(
            .status(400),
            .json(201, serverRow("b", 1)),
            page([serverRow("b", 1), serverRow("c", 2)], next: "x"),
            page([serverRow("c", 2), serverRow("b", 3, deleted: true)])
        )
        try await device.todos().pull(queryID: "all")
        let wanted: [SyncEvent] = [
            .pushStarted(pending: 2),
            .operationParked(table: "Todo", itemID: "a", kind: .insert),
            .operationCompleted(table: "Todo", itemID: "b", kind: .insert),
            .pushFinished(completed: 1, parked: 1),
            .pullStarted(table: "Todo"),
            .pageApplied(table: "Todo", applied: 2, removed: 0),
            .pageApplied(table: "Todo", applied: 0, removed: 1),
            .pullFinished(table: "Todo", applied: 2, removed: 1),
        ]
        var seen: [SyncEvent] = []
        for await event in events {
            seen.append(event)
            if seen.count == wanted.count { break }
        }
        #expect(seen == wanted)
    }
}
