// LiveValue: the result of a closure that views show, on the main actor.

import Foundation
import Observation
import Testing
import Tideline
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) @MainActor struct LiveValueTests {
    private struct Odd: Error {}

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

    @Test("A live value shows the result, each change, and the result of another closure")
    func changes() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "b"), Todo(id: "a", rank: 1)])
        let live = LiveValue(client.syncContext) { try $0.table(Todo.self).read().map(\.id) }
        #expect(live.isLoading && live.value == nil)
        await until { live.value == ["a", "b"] }
        #expect(!live.isLoading && live.error == nil)
        try await client.syncTable(Todo.self).delete(id: "a")
        await until { live.value == ["b"] }
        live.update { _ in ["other"] }
        #expect(live.isLoading && live.value == ["b"])
        await until { live.value == ["other"] }
    }

    @Test("A live value shows the records of a query with their related records")
    func related() async throws {
        let client = try await SyncClient.preview(
            seed: [Firm.Customer(id: "a"), Firm.Job(id: "1", customerID: "a")],
            tables: Firm.models
        )
        let query = try Query<Firm.Customer>().including(Query<Firm.Job>())
        let live = LiveValue(client.syncContext, query)
        await until { live.value?.map { $0.related.map(\.id) } == [["1"]] }
        try await client.syncTable(Firm.Job.self).insert(Firm.Job(id: "2", customerID: "a"))
        await until { live.value?.map { $0.related.map(\.id) } == [["1", "2"]] }
        #expect(live.error == nil)
    }

    @Test("A live value keeps its value after an error, and continues with another closure")
    func errors() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a")])
        let live = LiveValue(client.syncContext) { try $0.table(Todo.self).count() }
        await until { live.value == 1 }
        live.update { _ in throw Odd() }
        await until { live.error != nil }
        #expect(live.error is Odd)
        #expect(live.value == 1 && !live.isLoading)
        live.update { try $0.table(Todo.self).count() + 1 }
        await until { live.error == nil }
        #expect(live.value == 2)
    }

    @Test("A live value ends with its owner")
    func end() async throws {
        let client = try await SyncClient.preview(seed: [Todo(id: "a")])
        var live: LiveValue<Int>? = LiveValue(client.syncContext) {
            try $0.table(Todo.self).count()
        }
        await until { live?.value == 1 }
        weak let gone = live
        live = nil
        #expect(gone == nil)
    }
}
