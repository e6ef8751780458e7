// LiveQuery of a closure and of a query with related records, on the main actor.

import Foundation
import Observation
import Testing
import Tideline
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) @MainActor struct LiveListTests {
    private struct Odd: Error {}

    /// A result that cannot be compared.
    private struct Line: Sendable { var text: String }

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

    @Test(
        "A list shows the array of a closure, and follows each table that the closure reads"
    )
    func closures() async throws {
        let client = try await SyncClient.preview(
            seed: [Todo(id: "b", text: "n"), Todo(id: "a"), Note(id: "n", body: "note")]
        )
        let live = LiveQuery(client.syncContext) { reader in
            let notes = try reader.table(Note.self)
            return try reader.table(Todo.self).read(sortedBy: [.ascending(\.id)]).map { todo in
                "\(todo.id) \(try notes.read(id: todo.text)?.body ?? "-")"
            }
        }
        #expect(live.isLoading && live.items.isEmpty)
        await until { live.items == ["a -", "b note"] }
        #expect(!live.isLoading && live.error == nil && live.decodingFailures.isEmpty)
        try await client.syncTable(Note.self).update(id: "n") { $0.body = "changed" }
        await until { live.items == ["a -", "b changed"] }
        try await client.syncTable(Todo.self).delete(id: "a")
        await until { live.items == ["b changed"] }
        live.update { _ in ["other"] }
        #expect(live.isLoading && live.items == ["b changed"])
        await until { live.items == ["other"] }
    }

    @Test("A list and a value show records with their related records, and follow changes")
    func related() async throws {
        let client = try await SyncClient.preview(
            seed: [Firm.Customer(id: "a"), Firm.Job(id: "1", customerID: "a")],
            tables: Firm.models
        )
        let query = try Query<Firm.Customer>().including(Query<Firm.Job>())
        let live = LiveQuery(client.syncContext, query)
        await until { live.items.map { $0.related.map(\.id) } == [["1"]] }
        try await client.syncTable(Firm.Job.self).insert(Firm.Job(id: "2", customerID: "a"))
        await until { live.items.map { $0.related.map(\.id) } == [["1", "2"]] }
        let value = LiveValue(client.syncContext) { try $0.read(query).filter { _ in false } }
        await until { value.value?.isEmpty == true }
        value.update(query)
        await until { value.value?.first?.related.count == 2 }
        try await client.syncTable(Firm.Job.self).delete(id: "1")
        await until { value.value?.first?.related.count == 1 && live.items[0].related.count == 1 }
    }

    @Test("An error of the closure ends a list, which keeps its items until the next closure")
    func errors() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a", text: "one")])
        let live = LiveQuery(client.syncContext) { reader in
            try reader.table(Todo.self).read().map { Line(text: $0.text) }
        }
        await until { live.items.map(\.text) == ["one"] }
        live.update { _ in throw Odd() }
        await until { live.error != nil }
        #expect(live.error?.cause is Odd)
        #expect(live.items.map(\.text) == ["one"] && !live.isLoading)
        live.update { _ in [Line(text: "two")] }
        await until { live.error == nil }
        #expect(live.items.map(\.text) == ["two"])
        let context = SyncClient(endpoint: Device.endpoint, transport: ScriptedTransport())
            .syncContext
        let early = LiveQuery(context) { try $0.table(Todo.self).read() }
        await until { early.error != nil }
        #expect(early.error?.code == .storeNotInitialized)
    }

    @Test(
        "A list of a table accepts a closure, and a list of a closure rejects a condition"
    )
    func both() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a"), Todo(id: "b")])
        let live = LiveQuery(try client.syncTable(Todo.self), where: { $0.id == "a" })
        await until { live.items.map(\.id) == ["a"] }
        live.update { try $0.table(Todo.self).read(where: { $0.id == "b" }) }
        await until { live.items.map(\.id) == ["b"] }
        live.update(where: { $0.id == "a" })
        await until { live.items.map(\.id) == ["a"] }
        let other = LiveQuery(client.syncContext) { try $0.table(Todo.self).read() }
        await until { other.items.count == 2 }
        other.update(where: { $0.id == "a" })
        await until { other.error != nil }
        #expect(other.error?.code == .unsupportedQuery && other.items.count == 2)
    }

    @Test("A list ends with its owner")
    func end() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a")])
        var live: LiveQuery<Todo>? = LiveQuery(client.syncContext) {
            try $0.table(Todo.self).read()
        }
        await until { live?.items.count == 1 }
        weak let gone = live
        live = nil
        #expect(gone == nil)
    }
}
