// Lookups that need only ids read nothing else: a table of large rows is not loaded for them.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct NarrowReadTests {
    private let transport = ScriptedTransport()

    private func device(_ store: NotingStore) async throws -> Device {
        let device = try await Device(transport, store: store)
        try await device.seed([localRow("a", 1, rank: 1), localRow("b", 1, rank: 2)])
        return device
    }

    @Test("A purge reads only the IDs of its rows", arguments: [false, true])
    func aPurgeLooksUpIDsOnly(force: Bool) async throws {
        let store = NotingStore()
        let device = try await device(store)
        if force { try await device.todos().update(id: "a") { $0.text = "mine" } }
        store.forget()
        try await device.todos().purge(where: { $0.rank > 0 }, force: force)
        #expect(store.lookups.filter { $0.table == "Todo" }.map(\.columns) == [["id"]])
        #expect(try await device.rows().isEmpty)
        #expect(try await device.queue().isEmpty)
    }

    @Test("A pending operation prevents a purge only if its row would be removed")
    func aPurgeOfOtherRowsKeepsPendingOperations() async throws {
        let device = try await device(NotingStore())
        let todos = try device.todos()
        try await todos.update(id: "a") { $0.text = "mine" }
        try await todos.purge(where: { $0.rank == 2 })
        #expect(try await todos.read().map(\.text) == ["mine"])
        #expect(try await device.queue() == ["update a"])
        #expect(await code { try await todos.purge(where: { $0.rank == 1 }) } == .pendingOperations)
        #expect(await code { try await todos.purge() } == .pendingOperations)
        #expect(try await device.queue() == ["update a"])
    }

    @Test("A live query reads its query once when it is created")
    func aLiveQueryReadsOnlyTheRowsThatItShows() async throws {
        let store = NotingStore()
        let device = try await device(store)
        store.forget()
        let todos = try device.todos()
        for _ in 0..<20 {
            let live = await LiveQuery(todos, where: { $0.rank == 2 })
            try await until { await !live.isLoading }
            #expect(await live.items.map(\.id) == ["b"])
        }
        let live = await LiveQuery(todos, where: #Predicate { $0.rank == 2 })
        try await until { await !live.isLoading }
        #expect(store.lookups.count == 21)
    }

    /// A page without such rows reads no operation of the queue.
    @Test("A pull reads the IDs of pending operations, not the operations")
    func aPullLooksUpPendingIDsOnly() async throws {
        let store = NotingStore()
        let device = try await device(store)
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(
            .run { _ in
                store.forget()
                return .json(200, serverRow("a", 2, text: "mine", rank: 1))
            },
            .run { _ in
                // From here on, the lookups for storing the page are recorded.
                try await device.todos().update(id: "a") { $0.text = "again" }
                store.forget()
                return page([serverRow("c", 3)])
            }
        )
        try await device.todos().pull(queryID: nil, where: { $0.rank == 7 })
        let queue = store.lookups.filter { $0.table == "MS_TableOperations" }
        #expect(queue.contains { $0.columns == ["itemId"] })
        #expect(queue.allSatisfy { $0.columns != nil })
        #expect(try await device.todos().read(id: "c") != nil)
    }
}

/// Records the columns of each lookup of several rows, and passes it on.
private final class NotingStore: ForwardingStore {
    struct Lookup: Sendable {
        var table: String
        /// Nil for whole rows.
        var columns: [String]?
    }

    let inner: any LocalStore = MemoryStore()
    private let state = Mutex<[Lookup]>([])

    var lookups: [Lookup] { state.withLock { $0 } }

    func forget() { state.withLock { $0 = [] } }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try await inner.read { [self] in try body(Reader(inner: $0, note: note)) }
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        try await inner.write { [self] in try body(Writer(inner: $0, note: note)) }
    }

    @Sendable private func note(_ query: TableQuery, _ table: String) {
        state.withLock { $0.append(Lookup(table: table, columns: query.select)) }
    }

    private struct Reader: ForwardingReader {
        let inner: any LocalStoreReader
        let note: @Sendable (TableQuery, String) -> Void

        func rows(_ query: TableQuery, in table: String) throws -> [Row] {
            note(query, table)
            return try inner.rows(query, in: table)
        }
    }

    private struct Writer: LocalStoreWriter {
        let inner: any LocalStoreWriter
        let note: @Sendable (TableQuery, String) -> Void

        func rows(_ query: TableQuery, in table: String) throws -> [Row] {
            note(query, table)
            return try inner.rows(query, in: table)
        }

        func row(id: Value, in table: String) throws -> Row? { try inner.row(id: id, in: table) }

        func count(_ filter: Filter?, in table: String) throws -> Int {
            try inner.count(filter, in: table)
        }

        func put(_ rows: [Row], in table: String) throws { try inner.put(rows, in: table) }

        func append(_ row: Row, in table: String) throws -> Int64 {
            try inner.append(row, in: table)
        }

        func delete(ids: [Value], in table: String) throws -> Int {
            try inner.delete(ids: ids, in: table)
        }
    }
}
