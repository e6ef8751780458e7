// observe of SyncContext: which changes run a closure again, and how an observation ends.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct ContextObserveTests {
    private struct Odd: Error, Equatable {}

    /// The titles of the todos, and how many notes each has.
    private struct Overview: Equatable, Sendable {
        var texts: [String]
        var notes: Int

        init(_ reader: SyncReader) throws {
            texts = try reader.table(Todo.self).read(sortedBy: [.ascending(\.text)]).map(\.text)
            notes = try reader.table(Note.self).count()
        }

        init(_ texts: [String], _ notes: Int) { (self.texts, self.notes) = (texts, notes) }
    }

    @Test(
        "An observation shows the result, and each change of a table that it read",
        arguments: StoreKind.allCases
    )
    func changes(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: kind.stores(in: path)("one"))
            let (todos, notes) = (try device.todos(), try device.client.syncTable(Note.self))
            var seen = device.context.observe(Overview.init).makeAsyncIterator()
            #expect(try await seen.next() == Overview([], 0))
            try await todos.insert(Todo(id: "a", text: "one"))
            #expect(try await seen.next() == Overview(["one"], 0))
            try await notes.insert(Note(id: "n"))
            #expect(try await seen.next() == Overview(["one"], 1))
            try await device.context.transaction { transaction in
                try transaction.table(Todo.self).insert(Todo(id: "b", text: "two"))
                try transaction.table(Note.self).delete(id: "n")
            }
            #expect(try await seen.next() == Overview(["one", "two"], 0))
        }
    }

    /// Counts how often a closure runs.
    private final class Runs: Sendable {
        private let state = Mutex(0)

        var count: Int { state.withLock { $0 } }

        func add() { state.withLock { $0 += 1 } }
    }

    @Test("A change of other rows does not run the closure")
    func otherChanges() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let device = try await Device(ScriptedTransport(), store: store)
            let (todos, notes) = (try device.todos(), try device.client.syncTable(Note.self))
            try await todos.insert([
                Todo(id: "a", text: "one"), Todo(id: "b", text: "other"),
                Todo(id: "c", text: "third", rank: 3),
            ])
            let runs = Runs()
            var seen = device.context.observe { reader in
                runs.add()
                let todos = try reader.table(Todo.self)
                let one = try todos.read(id: "a")?.text ?? ""
                let ranked = try todos.read(where: { $0.rank > 2 }).map(\.text)
                return [one] + ranked + [String(try todos.count(where: { $0.complete }))]
            }.makeAsyncIterator()
            #expect(try await seen.next() == ["one", "third", "0"])
            try await notes.insert(Note(id: "n"))
            try await todos.update(id: "b") { $0.text = "changed" }
            try await todos.insert(Todo(id: "d", rank: 1))
            try await todos.update(id: "a") { $0.text = "two" }
            #expect(try await seen.next() == ["two", "third", "0"])
            #expect(runs.count == 2)
            try await todos.update(id: "b") { $0.rank = 4 }
            #expect(try await seen.next() == ["two", "changed", "third", "0"])
            try await todos.update(id: "d") { $0.complete = true }
            #expect(try await seen.next() == ["two", "changed", "third", "1"])
            #expect(runs.count == 4)
        }
    }

    @Test("An observed total count includes rows beyond the limit of its query")
    func totalCounts() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let device = try await Device(ScriptedTransport(), store: store)
            let todos = try device.todos()
            try await todos.insert([Todo(id: "a"), Todo(id: "b"), Todo(id: "c")])
            var seen = device.context.observe { reader in
                var query = try Query<Todo>(where: { !$0.complete }).limited(to: 1)
                query.includesTotalCount = true
                return try reader.table(Todo.self).read(query).totalCount
            }.makeAsyncIterator()
            #expect(try await seen.next() == 3)
            try await todos.update(id: "c") { $0.complete = true }
            #expect(try await seen.next() == 2)
        }
    }

    @Test("An equal result is published once, and a result that is not Equatable each time")
    func equalResults() async throws {
        struct Opaque: Sendable { var count: Int }
        let device = try await Device(ScriptedTransport())
        let todos = try device.todos()
        var equal = device.context.observe {
            try $0.table(Todo.self).read().map(\.complete)
        }.makeAsyncIterator()
        var opaque = device.context.observe {
            Opaque(count: try $0.table(Todo.self).read().count)
        }.makeAsyncIterator()
        #expect(try await equal.next() == [])
        #expect(try await opaque.next()?.count == 0)
        try await todos.insert(Todo(id: "a"))
        #expect(try await equal.next() == [false])
        #expect(try await opaque.next()?.count == 1)
        try await todos.update(id: "a") { $0.text = "x" }
        #expect(try await opaque.next()?.count == 1)
        try await todos.update(id: "a") { $0.complete = true }
        #expect(try await equal.next() == [true])
    }

    @Test("An error of the closure ends the iteration, and a new iteration starts from the store")
    func errors() async throws {
        let device = try await Device(ScriptedTransport())
        let todos = try device.todos()
        let sequence = device.context.observe { reader in
            let texts = try reader.table(Todo.self).read().map(\.text)
            if texts.contains("bad") { throw Odd() }
            return texts
        }
        var seen = sequence.makeAsyncIterator()
        #expect(try await seen.next() == [])
        try await todos.insert(Todo(id: "a", text: "bad"))
        await #expect(throws: Odd()) { try await seen.next() }
        try await todos.update(id: "a") { $0.text = "good" }
        var again = sequence.makeAsyncIterator()
        #expect(try await again.next() == ["good"])
    }

    @Test("An observation ends when its task is cancelled")
    func cancellation() async throws {
        let device = try await Device(ScriptedTransport())
        let (started, start) = AsyncStream.makeStream(of: Int.self)
        let context = device.context
        let task = Task {
            for try await count in context.observe({ try $0.table(Todo.self).count() }) {
                start.yield(count)
            }
        }
        for await count in started {
            #expect(count == 0)
            break
        }
        task.cancel()
        try await task.value
    }

    /// A store that runs a closure before or after one of its reads, and can fail.
    private final class HookedStore: ForwardingStore {
        let inner: any LocalStore
        private let hooks = Mutex<[Int: @Sendable () async throws -> Void]>([:])
        private let number = Mutex(0)
        private let fault = Mutex<(any Error)?>(nil)

        init(_ inner: any LocalStore) { self.inner = inner }

        /// Runs `body` before the read with an even number, or after the one with an odd number.
        func hook(_ number: Int, _ body: @escaping @Sendable () async throws -> Void) {
            hooks.withLock { $0[number] = body }
        }

        func beginNumbers() { number.withLock { $0 = 0 } }

        func fail(with error: (any Error)?) { fault.withLock { $0 = error } }

        private func runHook() async throws {
            let number = number.withLock { number in
                defer { number += 1 }
                return number
            }
            try await hooks.withLock { $0[number] }?()
        }

        func read<Result: Sendable>(
            _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
        ) async throws -> Result {
            try await runHook()
            if let error = fault.withLock({ $0 }) { throw error }
            let result = try await inner.read(body)
            try await runHook()
            return result
        }

        func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable {
            inner.rowChanges()
        }
    }

    @Test("A commit just before or after a read is not missed", arguments: [0, 1, 2, 3])
    func commitsAroundReads(number: Int) async throws {
        try await withTemporaryFile { path in
            let store = HookedStore(try SQLiteStore(path: path))
            let device = try await Device(ScriptedTransport(), store: store)
            let todos = try device.todos()
            try await todos.insert(Todo(id: "a"))
            store.hook(number) {
                try await device.context.transaction { transaction in
                    try transaction.table(Todo.self).update(id: "a") { $0.text = "changed" }
                    try transaction.table(Note.self).insert(Note(id: "n"))
                }
            }
            store.beginNumbers()
            var seen = device.context.observe(Overview.init).makeAsyncIterator()
            let first = try #require(try await seen.next())
            if number < 2 {
                // The change happens around the first read.
                let last = first.notes == 1 ? first : try #require(try await seen.next())
                #expect(first == (number == 0 ? last : Overview([""], 0)))
                #expect(last == Overview(["changed"], 1))
            } else {
                #expect(first == Overview([""], 0))
                try await todos.insert(Todo(id: "b", text: "z"))
                var last = try #require(try await seen.next())
                while last.notes == 0 { last = try #require(try await seen.next()) }
                #expect(last == Overview(["changed", "z"], 1))
            }
        }
    }

    @Test("An observation waits while the store cannot be read")
    func unavailableStore() async throws {
        let store = HookedStore(MemoryStore())
        let device = try await Device(ScriptedTransport(), store: store)
        let todos = try device.todos()
        store.fail(with: SQLiteError(code: 14, message: "unable to open database file"))
        let (values, value) = AsyncStream.makeStream(of: Int.self)
        let context = device.context
        let task = Task {
            for try await count in context.observe({ try $0.table(Todo.self).count() }) {
                value.yield(count)
            }
        }
        try await until { device.waits.all.count > 2 }
        try await todos.insert(Todo(id: "a"))
        store.fail(with: nil)
        for await count in values where count == 1 { break }
        task.cancel()
        try await task.value
    }

    @Test("A change of any row reaches an observation with many queries of its table")
    func manyQueries() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let device = try await Device(ScriptedTransport(), store: store)
            let todos = try device.todos()
            var seen = device.context.observe { reader in
                let todos = try reader.table(Todo.self)
                return try (0..<150).reduce(0) { sum, rank in
                    sum + (try todos.count(where: { $0.rank == rank }))
                }
            }.makeAsyncIterator()
            #expect(try await seen.next() == 0)
            try await todos.insert(Todo(id: "a", rank: 149))
            #expect(try await seen.next() == 1)
        }
    }
}
