// Tasks that are cancelled while they change many rows, and the events of long calls.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct CancelledChangeTests {
    private func device(_ file: Bool, _ path: String) async throws -> Device {
        let transport = ScriptedTransport()
        guard file else { return try await Device(transport) }
        return try await Device(transport, store: try SQLiteStore(path: path))
    }

    /// Runs a change in a task that is already cancelled, and returns the error.
    private func cancelled(
        _ body: @escaping @Sendable () async throws -> Void
    ) async -> SyncError? {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await body()
        }
        return await #expect(throws: SyncError.self) { try await task.value }
    }

    @Test("A list is not changed in a cancelled task", arguments: [false, true])
    func aListIsNotStoredInACancelledTask(file: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await device(file, path)
            let todos = try device.todos()
            try await todos.insert(Todo(id: "a", text: "first"))
            let stored = try #require(try await todos.read(id: "a"))
            for change: @Sendable () async throws -> Void in [
                { try await todos.insert((0..<20_000).map { Todo(id: "t\($0)") }) },
                { try await todos.insert((0..<20).map { _ in Todo(text: "x") }) },
                { try await todos.update([stored]) }, { try await todos.delete([stored]) },
                { try await todos.delete(ids: ["a"]) },
            ] {
                let error = await cancelled(change)
                #expect(error?.code == .cancelled)
                #expect(error?.message.contains("Nothing was changed") == true)
            }
            #expect(try await device.queue() == ["insert a"])
            #expect(try await todos.read().map(\.text) == ["first"])
        }
    }

    @Test(
        "A cancelled transaction ends between two rows and is rolled back",
        arguments: [false, true]
    )
    func aTransactionEndsBetweenTwoRows(file: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await device(file, path)
            let count = Mutex(0)
            let task = Mutex<Task<Void, any Error>?>(nil)
            let (begun, start) = AsyncStream.makeStream(of: Void.self)
            let transaction = Task {
                for await _ in begun { break }
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    for number in 0..<100 {
                        if number == 10 { task.withLock { $0?.cancel() } }
                        try todos.insert(Todo(id: "t\(number)"))
                        count.withLock { $0 += 1 }
                    }
                }
            }
            task.withLock { $0 = transaction }
            start.finish()
            let error = await #expect(throws: SyncError.self) { try await transaction.value }
            #expect(error?.code == .cancelled)
            #expect(count.withLock { $0 } == 10)
            #expect(try await device.queue() == [])
            #expect(try await device.todos().read() == [])
            // The device continues to work.
            try await device.todos().insert(Todo(id: "a"))
            #expect(try await device.queue() == ["insert a"])
        }
    }

    @Test("A CancellationError of the closure is rethrown unchanged")
    func anErrorOfTheClosureIsPassedOn() async throws {
        let device = try await device(false, "")
        await #expect(throws: CancellationError.self) {
            try await device.context.transaction { _ in throw CancellationError() }
        }
    }

    @Test("A cancelled sync throws a SyncError")
    func aCancelledSyncHasAnErrorOfTheSDK() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        let error = await cancelled { try await device.client.syncOnce(deadline: .seconds(20)) }
        #expect(error?.code == .cancelled)
    }

    @Test("Verify, purge and check report their progress as events")
    func verifyPurgeAndCheckReportTheirProgress() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let store = try SQLiteStore(path: path)
            let device = try await Device(server.transport, store: store)
            let todos = try device.todos()
            let remote = device.client.table(Todo.self)
            for id in ["a", "b"] { try await remote.insert(Todo(id: id)) }
            try await todos.pull(queryID: "all")
            try await remote.insert(Todo(id: "c"))
            let seen = Mutex<[SyncEvent]>([])
            let events = device.context.events
            let listening = Task {
                for await event in events {
                    seen.withLock { $0.append(event) }
                    if event.kind == .checkFailed { return }
                }
            }
            try await todos.verify(queryID: "all", repair: true)
            _ = await code { _ = try await todos.verify(queryID: "none") }
            try await todos.purge(where: { $0.id == "a" })
            #expect(try await store.check().isSound)
            let error = await cancelled { _ = try await store.check() }
            #expect(error?.code == .cancelled)
            await listening.value
            let found = VerifyResult(missing: 1, repaired: 1)
            let wanted: [SyncEvent] = [
                .verifyStarted(table: "Todo"), .rangeCompared(table: "Todo", found),
                .verifyFinished(table: "Todo", found), .verifyStarted(table: "Todo"),
                .verifyFailed(table: "Todo", code: .invalidQueryID),
                .purgeFinished(table: "Todo", removed: 1), .checkStarted,
                .tableChecked(table: "Note"), .tableChecked(table: "Todo"),
                .checkFinished(problems: 0), .checkStarted, .checkFailed(code: .cancelled),
            ]
            #expect(seen.withLock { $0 } == wanted)
        }
    }
}
