// LiveQuery, LiveStatus and previews: the values that views show, on the main actor.

import Foundation
import Observation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) @MainActor struct LiveQueryTests {
    /// Waits until a condition on an observed value is true.
    private func until(_ condition: @MainActor () -> Bool) async {
        while !condition() {
            await withCheckedContinuation { (next: CheckedContinuation<Void, Never>) in
                withObservationTracking {
                    if condition() { next.resume() }
                } onChange: {
                    next.resume()
                }
            }
        }
    }

    @Test("A live query shows its records and each change")
    func itShowsTheRecordsAndEachChange() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "b"), Todo(id: "a", rank: 1)])
        let todos = try client.syncTable(Todo.self)
        let live = LiveQuery(todos, where: { !$0.complete }, sortedBy: [.ascending(\.id)])
        #expect(live.isLoading && live.items.isEmpty)
        await until { live.items.map(\.id) == ["a", "b"] }
        #expect(!live.isLoading && live.error == nil)
        try await todos.update(id: "a") { $0.complete = true }
        await until { live.items.map(\.id) == ["b"] }
        live.update(where: { $0.complete })
        #expect(live.isLoading && live.items.map(\.id) == ["b"])
        await until { live.items.map(\.id) == ["a"] }
        live.update(where: { $0.rank == 1 }, sortedBy: [SortDescriptor(\.text)])
        await until { !live.isLoading }
        #expect(live.items.map(\.id) == ["a"])
        live.update(where: #Predicate { $0.id == "b" })
        await until { live.items.map(\.id) == ["b"] }
        live.update(Query())
        await until { live.items.count == 2 }
    }

    @Test("A live query shows an error and then runs the next query")
    func anErrorIsShownAndTheNextQueryRuns() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a")])
        let live = LiveQuery(try client.syncTable(Todo.self))
        await until { live.items.count == 1 }
        var query = Query<Todo>()
        query.limit = -1
        live.update(query)
        await until { live.error != nil }
        #expect(live.error?.code == .unsupportedQuery)
        #expect(live.items.count == 1 && !live.isLoading)
        live.update(Query())
        await until { live.error == nil }
    }

    @Test("A live query is released with its owner") func itEndsWithItsOwner() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a")])
        var live: LiveQuery<Todo>? = LiveQuery(try client.syncTable(Todo.self))
        await until { live?.items.count == 1 }
        weak let gone = live
        live = nil
        #expect(gone == nil)
    }

    /// A record that reports whether it is decoded on the main thread.
    private struct Watched: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var text = ""

        init(id: String, text: String) { (self.id, self.text) = (id, text) }

        init(from decoder: any Decoder) throws {
            let values = try decoder.container(keyedBy: CodingKeys.self)
            id = try values.decode(String.self, forKey: .id)
            text = try values.decode(String.self, forKey: .text)
            if !text.isEmpty, Thread.isMainThread { text = "decoded on the main thread" }
        }

        enum CodingKeys: CodingKey { case id, text }
    }

    @Test("A live query decodes nothing on the main actor")
    func nothingIsDecodedOnTheMainActor() async throws {
        let client = try await SyncClient.preview(seed: [Watched(id: "a", text: "one")])
        let table = try client.syncTable(Watched.self)
        let live = LiveQuery(table)
        await until { !live.isLoading }
        #expect(live.items.first?.text == "one")
        try await table.update(id: "a") { $0.text = "two" }
        await until { live.items.first?.text != "one" }
        #expect(live.items.first?.text == "two")
    }

    @Test("A preview has only its seed and no network")
    func aPreviewIsEmptyAndHasNoNetwork() async throws {
        let first = try await SyncClient.preview(
            seed: [Todo(id: "", text: "one")],
            tables: [Note.self]
        )
        let todos = try first.syncTable(Todo.self)
        #expect(try await todos.read().map(\.text) == ["one"])
        #expect(try await first.syncContext.pendingOperationCount == 0)
        try await first.syncTable(Note.self).insert(Note(id: "n"))
        let status = try LiveStatus(first)
        await until { status.pendingCount == 1 }
        #expect(status.status == .idle && status.errors.isEmpty)
        let error = await #expect(throws: PushError.self) { try await first.syncContext.push() }
        #expect(error?.status == .networkFailure)
        try await first.syncTable(Note.self).delete(id: "n")
        let second = try await SyncClient.preview(tables: [Todo.self])
        #expect(try await second.syncTable(Todo.self).count() == 0)
    }

    @Test("The live status follows the queue and its errors")
    func theStatusFollowsTheQueue() async throws {
        let transport = ScriptedTransport([.json(400, #"{"error":"no"}"#)])
        let device = try await Device(transport)
        let status = try LiveStatus(device.client)
        try await device.todos().insert(Todo(id: "a"))
        await until { status.pendingCount == 1 }
        #expect(status.errors.isEmpty)
        _ = try await device.push()
        await until { status.errors.map(\.itemID) == ["a"] }
        try await status.errors[0].cancelOperationAndDiscardItem()
        await until { status.pendingCount == 0 }
        #expect(status.errors.isEmpty)
    }
}
