// Rows that do not decode: lists show the other rows, report the failures, and recover.

import Foundation
import Observation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite(.timeLimit(.minutes(5))) @MainActor struct DecodingFailureTests {
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

    /// Three rows, of which `b` does not decode.
    private nonisolated func device() async throws -> Device {
        let device = try await Device(ScriptedTransport())
        try await device.seed([
            localRow("a", 1), ["id": "b", "text": "two", "complete": "perhaps"], localRow("c", 1),
        ])
        return device
    }

    @Test(
        "A list reports a row that does not decode, and shows it when it decodes again"
    )
    func lists() async throws {
        let device = try await device()
        let live = LiveQuery(try device.todos(), sortedBy: [.ascending(\.id)])
        await until { live.items.map(\.id) == ["a", "c"] }
        #expect(live.error == nil && !live.isLoading)
        #expect(live.decodingFailures.map(\.itemID) == ["b"])
        #expect(live.decodingFailures.map(\.column) == ["complete"])
        #expect(live.decodingFailures.first?.message.contains("perhaps") == false)
        let rows = try device.client.syncTable(named: "Todo")
        try await rows.update(id: "b") { $0["complete"] = true }
        await until { live.items.map(\.id) == ["a", "b", "c"] }
        #expect(live.decodingFailures.isEmpty)
    }

    @Test("A strict list has an error until the row that does not decode is deleted")
    func strictLists() async throws {
        let device = try await device()
        let todos = try device.todos()
        let live = LiveQuery(todos, sortedBy: [.ascending(\.id)], onDecodingFailure: .throw)
        await until { live.error != nil }
        #expect(live.error?.code == .rowDoesNotFit && live.items.isEmpty && !live.isLoading)
        try await todos.delete(id: "b")
        await until { live.error == nil && live.items.map(\.id) == ["a", "c"] }
        #expect(live.decodingFailures.isEmpty)
    }

    @Test("Observers continue after a decoding failure, and publish no unchanged value")
    nonisolated func observers() async throws {
        let device = try await device()
        let todos = try device.todos()
        var lists = todos.observe(sortedBy: [.ascending(\.id)]).makeAsyncIterator()
        #expect(try await lists.next()?.map(\.id) == ["a", "c"])
        var one = todos.observe(id: "b").makeAsyncIterator()
        #expect(try await one.next() == .some(nil))
        let rows = try device.client.syncTable(named: "Todo")
        try await rows.update(id: "b") { $0["complete"] = false }
        #expect(try await lists.next()?.map(\.id) == ["a", "b", "c"])
        #expect(try await one.next()??.text == "two")
    }
}
