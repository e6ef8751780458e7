// SyncReader: several reads of one committed state, with the errors and the end of its tables.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestSupport

@Suite struct SyncReaderTests {
    private struct Odd: Error, Equatable {}

    @Test(
        "A reader has typed and untyped tables with the reads of a transaction",
        arguments: StoreKind.allCases
    )
    func tables(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: kind.stores(in: path)("one"))
            try await device.todos().insert([Todo(id: "a", rank: 1), Todo(id: "b", rank: 2)])
            try await device.client.syncTable(Note.self).insert(Note(id: "n", body: "b"))
            let found = try await device.context.read { reader in
                let todos = try reader.table(Todo.self)
                let notes = try reader.table(named: "note")
                let note = try notes.read(id: "n")
                let todo = try todos.read(id: note?["body"]?.text ?? "")
                #expect(try todos.read().map(\.id) == ["a", "b"])
                #expect(try todos.read(where: { $0.rank > 1 }).map(\.id) == ["b"])
                #expect(try todos.read(where: #Predicate { $0.rank == 1 }).map(\.id) == ["a"])
                #expect(
                    try todos.read(sortedBy: [SortDescriptor(\.rank, order: .reverse)]).map(\.id)
                        == ["b", "a"]
                )
                #expect(try todos.count() == 2)
                #expect(try todos.count(where: { $0.id == "a" }) == 1)
                #expect(try todos.count(where: #Predicate { $0.id == "c" }) == 0)
                var query = Query<Todo>().limited(to: 1)
                query.includesTotalCount = true
                #expect(try todos.read(query).totalCount == 2)
                return todo
            }
            #expect(found?.rank == 2)
        }
    }

    @Test("A reader does not see a commit between two of its reads")
    func oneState() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let device = try await Device(ScriptedTransport(), store: store)
            try await device.todos().insert(Todo(id: "a", text: "old"))
            let (first, second) = try await device.context.read { reader in
                let first = try reader.table(Todo.self).read(id: "a")?.text
                let other = try Database(path: path, mode: .existing)
                try other.execute(#"UPDATE "Todo" SET "text" = 'new'"#)
                try other.execute(#"INSERT INTO "Note" ("id", "body") VALUES ('n', 'new')"#)
                let notes = try reader.table(Note.self).count()
                let second = try reader.table(Todo.self).read(id: "a")?.text
                #expect(notes == 0)
                return (first, second)
            }
            #expect(first == "old")
            #expect(second == "old")
            #expect(try await device.todos().read(id: "a")?.text == "new")
        }
    }

    /// A function over the reads of a table, wherever it comes from.
    private static func ranks(of todos: some RecordReading<Todo>) throws -> [Int?] {
        try todos.read(where: { $0.text == "ranked" }).map(\.rank)
    }

    private static func noteCount(_ reader: SyncReader) throws -> Int {
        try reader.table(Note.self).count()
    }

    @Test(
        "A function can read from a reader and from a transaction with its changes",
        arguments: StoreKind.allCases
    )
    func inTransactions(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: kind.stores(in: path)("one"))
            try await device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                try todos.insert(Todo(id: "a", text: "ranked", rank: 5))
                try transaction.table(Note.self).insert(Note(id: "n"))
                #expect(try Self.ranks(of: todos) == [5])
                #expect(try Self.ranks(of: transaction.reader.table(Todo.self)) == [5])
                #expect(try Self.noteCount(transaction.reader) == 1)
            }
            let ranks = try await device.context.read { reader in
                #expect(try Self.noteCount(reader) == 1)
                return try Self.ranks(of: reader.table(Todo.self))
            }
            #expect(ranks == [5])
        }
    }

    @Test("An error of the closure is rethrown unchanged", arguments: StoreKind.allCases)
    func errors(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: kind.stores(in: path)("one"))
            await #expect(throws: Odd()) {
                try await device.context.read { _ in throw Odd() }
            }
            await #expect(throws: CancellationError.self) {
                try await device.context.read { _ in throw CancellationError() }
            }
            let unknown = await code {
                _ = try await device.context.read { try $0.table(named: "Nowhere").count() }
            }
            #expect(unknown == .unknownTable)
            let unsupported = await code {
                _ = try await device.context.read {
                    try $0.table(named: "Todo").count(where: { $0["nowhere"] == 1 })
                }
            }
            #expect(unsupported == .unsupportedQuery)
        }
    }

    @Test("A reader and its tables throw after the end of the closure")
    func afterTheEnd() async throws {
        let device = try await Device(ScriptedTransport())
        // Kept beyond the closure on purpose; only this test uses it.
        nonisolated(unsafe) var kept: (SyncReader, ReaderTable<Todo>)?
        try await device.context.read { kept = ($0, try $0.table(Todo.self)) }
        let (reader, table) = try #require(kept)
        #expect(await code { _ = try table.read() } == .transactionEnded)
        #expect(await code { _ = try table.read(id: "a") } == .transactionEnded)
        #expect(await code { _ = try table.count() } == .transactionEnded)
        #expect(await code { _ = try reader.table(Note.self).count() } == .transactionEnded)
        try await device.context.transaction { kept = ($0.reader, try $0.reader.table(Todo.self)) }
        let (_, inTransaction) = try #require(kept)
        #expect(await code { _ = try inTransaction.read() } == .transactionEnded)
    }

    @Test("A cancelled task does not continue to read")
    func cancellation() async throws {
        let device = try await Device(ScriptedTransport())
        let context = device.context
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await context.read { _ = try $0.table(Todo.self).read() }
        }
        #expect(await code { try await task.value } == .cancelled)
    }

    @Test("A read of a client without a store throws an error")
    func withoutAStore() async throws {
        let client = SyncClient(endpoint: Device.endpoint, transport: ScriptedTransport())
        let read = await code { try await client.syncContext.read { _ in } }
        #expect(read == .storeNotInitialized)
        let observed = await code {
            for try await _ in client.syncContext.observe({ _ in 1 }) {}
        }
        #expect(observed == .storeNotInitialized)
    }

    @Test("The closure does not run on the caller's actor")
    @MainActor func isolation() async throws {
        let device = try await Device(ScriptedTransport())
        let isMain = try await device.context.read { _ in Thread.isMainThread }
        #expect(!isMain)
    }
}
