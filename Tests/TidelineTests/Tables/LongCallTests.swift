// Long calls report their progress; if they are cancelled in the middle, nothing is changed, and a repeated call does
// all of the work.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct LongCallTests {
    private struct Whole: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = 0
    }

    /// Cancels a task at the first log entry with certain words; the client writes the entry in the middle of its work.
    private final class CancellingLog: SyncLog {
        private struct State {
            var words: String?
            var task: Task<Void, any Error>?
        }

        private let state = Mutex(State())

        func log(level: SyncLogLevel, message: StaticString, metadata: [String: String]) {
            state.withLock { state in
                guard let words = state.words, "\(message)" == words else { return }
                state.task?.cancel()
            }
        }

        /// Returns the code of the error of a call that is cancelled this way.
        func cancelled(
            at words: String,
            _ body: @escaping @Sendable () async throws -> Void
        ) async -> SyncError.Code? {
            let (begun, begin) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                for await _ in begun { break }
                try await body()
            }
            state.withLock { $0 = State(words: words, task: task) }
            begin.finish()
            let result = await task.result
            state.withLock { $0 = State() }
            guard case .failure(let error) = result else { return nil }
            return (error as? SyncError)?.code
        }
    }

    private let log = CancellingLog()

    private func client(
        _ transport: any Transport = ScriptedTransport(),
        _ store: any LocalStore,
        _ tables: [any SyncRecord.Type] = [Todo.self, Note.self]
    ) async throws -> SyncClient {
        let client = client(transport)
        try await client.syncContext.initialize(store: store, tables: tables)
        return client
    }

    private func client(_ transport: any Transport) -> SyncClient {
        SyncClient(
            endpoint: Device.endpoint,
            transport: transport,
            log: log,
            environment: Waits().environment
        )
    }

    private func reportedEvents(
        _ client: SyncClient,
        _ kind: SyncEvent.Kind,
        _ body: () async throws -> Void
    ) async throws -> [SyncEvent] {
        let events = client.syncContext.events
        try await body()
        // Marks the end of the events.
        try await client.syncTable(Todo.self).purge(where: { $0.id == "none" })
        var seen: [SyncEvent] = []
        for await event in events {
            if event == .purgeFinished(table: "Todo", removed: 0) { break }
            if event.kind == kind { seen.append(event) }
        }
        return seen
    }

    private static let many = 1200

    private static func list() -> [Todo] { (0..<many).map { Todo(id: "t\($0)", text: "old") } }

    @Test("A list is changed completely or not at all", arguments: [false, true])
    func listsAreChangedCompletelyOrNotAtAll(hasIDs: Bool) async throws {
        try await withTemporaryFile { path in
            let client = try await client(ScriptedTransport(), SQLiteStore(path: path))
            let todos = try client.syncTable(Todo.self)
            let list = hasIDs ? Self.list() : Self.list().map { Todo(text: $0.text) }
            let steps: [SyncEvent] = [500, 1000].map { .rowsChanged(table: "Todo", applied: $0) }
            let words = "Rows were changed."
            #expect(await log.cancelled(at: words) { try await todos.insert(list) } == .cancelled)
            #expect(try await todos.count() == 0)
            #expect(try await client.syncContext.pendingOperationCount == 0)
            #expect(
                try await reportedEvents(client, .rowsChanged) { try await todos.insert(list) }
                    == steps
            )
            let stored = try await todos.read()
            #expect(stored.count == Self.many)
            let edited = stored.map { todo in
                var todo = todo
                todo.text = "mine"
                return todo
            }
            #expect(await log.cancelled(at: words) { try await todos.update(edited) } == .cancelled)
            #expect(try await todos.count(where: { $0.text == "old" }) == Self.many)
            #expect(
                try await reportedEvents(client, .rowsChanged) { try await todos.update(edited) }
                    == steps
            )
            #expect(try await todos.count(where: { $0.text == "mine" }) == Self.many)
            let ids = stored.map(\.id)
            #expect(
                await log.cancelled(at: words) { try await todos.delete(ids: ids) } == .cancelled
            )
            #expect(try await todos.count() == Self.many)
            #expect(
                try await reportedEvents(client, .rowsChanged) { try await todos.delete(ids: ids) }
                    == steps
            )
            #expect(try await client.syncContext.pendingOperationCount == 0)
        }
    }

    @Test("A purge is complete or has no effect")
    func aPurgeIsCompleteOrHasNoEffect() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let client = try await client(ScriptedTransport(), store)
            let todos = try client.syncTable(Todo.self)
            let rows = (0..<Self.many).map { localRow("r\($0)", 1, rank: 1) }
            try await store.write { try $0.put(rows, in: "Todo") }
            try await todos.update(id: "r7") { $0.text = "mine" }
            let words = "Rows were removed."
            #expect(
                await log.cancelled(at: words) { try await todos.purge(force: true) } == .cancelled
            )
            #expect(try await todos.count() == Self.many)
            #expect(try await client.syncContext.pendingOperations().map(\.itemID) == ["r7"])
            #expect(
                await log.cancelled(at: words) {
                    try await todos.purge(where: { $0.rank == 1 }, force: true)
                } == .cancelled
            )
            #expect(try await todos.read(id: "r7")?.text == "mine")
            let steps = try await reportedEvents(client, .rowsRemoved) {
                try await todos.purge(force: true)
            }
            #expect(steps == [500, 1000].map { .rowsRemoved(table: "Todo", removed: $0) })
            #expect(try await todos.count() == 0)
            #expect(try await client.syncContext.pendingOperationCount == 0)
        }
    }

    /// Rows that are also in another account's queries are checked and stay.
    @Test("A purge of an account is complete or has no effect")
    func aPurgeOfAnAccountIsCompleteOrHasNoEffect() async throws {
        try await withTemporaryFile { path in
            let (transport, signIn) = (ScriptedTransport(), SignIn("anna"))
            let client = SyncClient(
                endpoint: Device.endpoint,
                generation: .datasync,
                transport: transport,
                authentication: signIn,
                log: log,
                environment: Waits().environment
            )
            try await client.syncContext.initialize(
                store: SQLiteStore(path: path),
                tables: [Todo.self]
            )
            let todos = try client.syncTable(Todo.self)
            let shared = (0..<700).map { serverRow("a\($0)", 1) }
            transport.add(page(shared))
            try await todos.pull(queryID: "all")
            signIn.change(to: "ben")
            transport.add(page(shared + (0..<Self.many).map { serverRow("b\($0)", 1) }))
            try await todos.pull(queryID: "all")
            signIn.change(to: "anna")
            let purge: @Sendable () async throws -> Void = {
                try await client.syncContext.purge(account: "ben")
            }
            #expect(await log.cancelled(at: "Rows were removed.", purge) == .cancelled)
            #expect(try await todos.count() == 1900)
            let steps = try await reportedEvents(client, .rowsRemoved, purge)
            #expect(steps == [.rowsRemoved(table: "Todo", removed: 800)])
            #expect(try await todos.count() == 700)
        }
    }

    @Test("Deletes of missing rows are not reported as changes")
    func missingRowsAreNotReportedAsChanged() async throws {
        let client = try await client(ScriptedTransport(), MemoryStore())
        let todos = try client.syncTable(Todo.self)
        let ids = (0..<Self.many).map { "none\($0)" }
        #expect(
            try await reportedEvents(client, .rowsChanged) { try await todos.delete(ids: ids) }
                == []
        )
    }

    @Test("A cancelled verification can be restarted")
    func aCancelledVerificationIsRestarted() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let client = try await client(server.transport, SQLiteStore(path: path))
            let todos = try client.syncTable(Todo.self)
            let remote = client.table(Todo.self)
            for id in ["a", "b"] { try await remote.insert(Todo(id: id)) }
            try await todos.pull(queryID: "all")
            try await remote.insert(Todo(id: "c"))
            let verify: @Sendable () async throws -> Void = {
                try await todos.verify(queryID: "all", repair: true)
            }
            #expect(await log.cancelled(at: "A verification began.", verify) == .cancelled)
            #expect(try await todos.read().map(\.id) == ["a", "b"])
            // The differences that were found are all repaired.
            #expect(await log.cancelled(at: "Rows were compared.", verify) == .cancelled)
            #expect(try await todos.read().map(\.id) == ["a", "b", "c"])
            #expect(try await todos.verify(queryID: "all").isEqual)
            try await todos.update(id: "c") { $0.text = "mine" }
            try await client.syncContext.push()
            #expect(try await remote.read(id: "c")?.text == "mine")
        }
    }

    /// The former model can still read the rows.
    @Test("The columns of another model are added completely or not at all")
    func theColumnsOfAnotherModelAreAddedCompletelyOrNotAtAll() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let former = try await client(ScriptedTransport(), store, [Whole.self])
            let wholes = (0..<Self.many).map { Whole(id: "w\(10_000 + $0)", text: $0) }
            try await former.syncTable(Whole.self).insert(wholes)
            let later = client(ScriptedTransport())
            let initialize: @Sendable () async throws -> Void = {
                try await later.syncContext.initialize(store: store, tables: [Todo.self])
            }
            #expect(await log.cancelled(at: "Rows were moved.", initialize) == .cancelled)
            #expect(await !later.syncContext.isInitialized)
            #expect(try await former.syncTable(Whole.self).read() == wholes)
            #expect(try await store.check().isSound)
            let events = later.syncContext.events
            try await initialize()
            let todos = try later.syncTable(Todo.self)
            #expect(try await todos.read().map(\.text) == wholes.map { "\($0.text)" })
            #expect(try await later.syncContext.pendingOperationCount == Self.many)
            try await todos.purge(where: { $0.id == "none" })
            var seen: [SyncEvent] = []
            for await event in events {
                if event.kind == .purgeFinished { break }
                seen.append(event)
            }
            #expect(seen == [500, 1000].map { .rowsMoved(table: "Todo", applied: $0) })
        }
    }

    private struct Searched: SyncRecord {
        static let tableName = "Todo"
        static let search = SearchIndex(\Searched.text)
        var id = ""
        var text = ""
    }

    /// The former model can still read and write in a file whose search index was not completed.
    @Test("A search index is built completely or not at all")
    func aSearchIndexIsBuiltCompletelyOrNotAtAll() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let former = try await client(ScriptedTransport(), store)
            let todos = try former.syncTable(Todo.self)
            try await todos.insert((0..<4100).map { Todo(id: "t\($0)", text: "lamp \($0)") })
            let later = client(ScriptedTransport())
            let initialize: @Sendable () async throws -> Void = {
                try await later.syncContext.initialize(store: store, tables: [Searched.self])
            }
            #expect(await log.cancelled(at: "Rows were moved.", initialize) == .cancelled)
            #expect(await !later.syncContext.isInitialized)
            try await todos.insert(Todo(id: "new", text: "lamp"))
            #expect(try await store.check().isSound)
            let events = later.syncContext.events
            try await initialize()
            let searched = try later.syncTable(Searched.self)
            #expect(try await searched.count(where: { $0.matching("lamp") }) == 4101)
            try await searched.purge(where: { $0.id == "none" })
            var seen: [SyncEvent] = []
            for await event in events {
                if event.kind == .purgeFinished { break }
                seen.append(event)
            }
            #expect(seen == [2000, 4000].map { .rowsMoved(table: "Todo", applied: $0) })
        }
    }
}
