// CopiedStoreTests: a store file that was copied, and restored later or used together with the original.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct CopiedStoreTests {
    /// Copies a closed store.
    private static func copy(_ file: String, to copy: String) throws {
        for end in ["", "-wal"] {
            try? FileManager.default.removeItem(atPath: copy + end)
            guard FileManager.default.fileExists(atPath: file + end) else { continue }
            try FileManager.default.copyItem(atPath: file + end, toPath: copy + end)
        }
    }

    /// Opens a store for as long as `body` runs.
    private static func with<Result>(
        _ file: String,
        _ transport: any Transport,
        conflicts: ConflictPolicy = .fail,
        installations: Installations? = nil,
        _ body: (Device) async throws -> Result
    ) async throws -> Result {
        let store = try SQLiteStore(path: file)
        var environment = Waits().environment
        if let installations { environment.makeInstallationID = { installations.next() } }
        let device = try await Device(
            transport,
            store: store,
            conflicts: conflicts,
            environment: environment
        )
        let result = try await body(device)
        try await store.close()
        return result
    }

    private final class Installations: Sendable {
        private let count = Mutex(0)

        func next() -> String {
            count.withLock { count in
                count += 1
                return "installation-\(count)"
            }
        }
    }

    /// A transport to a server with an empty idempotency ledger: no request has an id, also in a batch.
    private struct WithoutLedger: Transport {
        let inner: any Transport

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            var request = request
            request.headers["Repeatability-Request-ID"] = nil
            request.headers["Repeatability-First-Sent"] = nil
            request.body = request.body.map { body in
                let text = String(decoding: body, as: UTF8.self)
                    .replacing(#/"Repeatability-[A-Za-z-]+":"[^"]*",?/#, with: "")
                    .replacing(",}", with: "}")
                return Array(text.utf8)
            }
            return try await inner.send(request)
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    @Test(
        "A store that is restored from before a push does not insert a deleted row again",
        arguments: [true, false]
    )
    func restored(hasLedger: Bool) async throws {
        try await withTemporaryFile { file in
            let server = try await makeServer()
            let transport: any Transport =
                hasLedger ? server.transport : WithoutLedger(inner: server.transport)
            try await Self.with(file, transport) { device in
                try await device.todos().pull(queryID: "all")
                try await device.todos().insert(Todo(id: "a", text: "mine"))
            }
            try Self.copy(file, to: file + ".copy")
            try await Self.with(file, transport) { _ = try await $0.context.push() }
            let other = try await Device(server.transport)
            try await other.client.table(Todo.self).delete(id: "a")
            try Self.copy(file + ".copy", to: file)
            try await Self.with(file, transport) { device in
                #expect(try await device.queue() == ["insert a"])
                try await device.todos().pull(queryID: "all")
                #expect(try await device.queue().isEmpty)
                #expect(try await device.rows().isEmpty)
            }
            #expect(try await other.client.table(Todo.self).read(id: "a") == nil)
        }
    }

    @Test("A row that the app deleted and inserts again is restored, even if it is equal")
    func reinserted() async throws {
        let server = try await makeServer()
        let device = try await Device(server.transport)
        for _ in 0..<3 {
            try await device.todos().insert(Todo(id: "favorite", text: "same"))
            try await device.context.push()
            #expect(try await device.client.table(Todo.self).read(id: "favorite") != nil)
            try await device.todos().delete(id: "favorite")
            try await device.context.push()
            #expect(try await device.client.table(Todo.self).read(id: "favorite") == nil)
        }
    }

    @Test("An operation gets its request ID with the change, and an edit replaces the ID")
    func requestIDs() async throws {
        let script = ScriptedTransport(otherwise: .lost)
        let store = MemoryStore()
        func id() async throws -> String? {
            try await store.read {
                try $0.rows(TableQuery(), in: "MS_TableOperations").first?["requestId"]?.text
            }
        }
        let device = try await Device(script, store: store)
        try await device.todos().insert(Todo(id: "a", text: "1"))
        let first = try #require(try await id())
        try await device.todos().update(id: "a") { $0.text = "2" }
        let second = try #require(try await id())
        #expect(first != second)
        _ = try await device.push()
        #expect(try await id() == second)
        #expect(script.sent.first?.requestID == second)
    }

    @Test("A copy that is used together with the original gets a separate installation ID")
    func installations() async throws {
        try await withTemporaryFile { file in
            let script = ScriptedTransport(otherwise: page([]))
            let made = Installations()
            func installation(_ file: String) async throws -> String? {
                try await Self.with(file, script, installations: made) { device in
                    try await device.todos().pull(queryID: nil)
                    return script.sent.last?.installation
                }
            }
            #expect(try await installation(file) == "installation-1")
            #expect(try await installation(file) == "installation-1")
            try Self.copy(file, to: file + ".copy")
            #expect(try await installation(file + ".copy") == "installation-2")
            #expect(try await installation(file + ".copy") == "installation-2")
            #expect(try await installation(file) == "installation-1")
            // A renamed file is the same store.
            try FileManager.default.moveItem(atPath: file, toPath: file + ".moved")
            #expect(try await installation(file + ".moved") == "installation-1")
        }
    }

    @Test("Unsent edits of a copy are conflicts if the original's edits were accepted before")
    func usedWithTheOriginal() async throws {
        try await withTemporaryFile { file in
            let server = try await makeServer()
            try await Self.with(file, server.transport, conflicts: .clientWins) { device in
                try await device.todos().insert([
                    Todo(id: "a", text: "1"), Todo(id: "b", text: "1"),
                ])
                try await device.context.push()
                try await device.todos().update(id: "a") { $0.text = "2" }
                try await device.todos().update(id: "b") { $0.text = "2" }
            }
            try Self.copy(file, to: file + ".copy")
            try await Self.with(file, server.transport, conflicts: .clientWins) { device in
                try await device.todos().update(id: "a") { $0.text = "3" }
                try await device.context.push()
            }
            try await Self.with(file + ".copy", server.transport, conflicts: .clientWins) {
                device in
                // The operation of `b` is the same request, which was completed; that of `a` differs from the
                // original's.
                let error = try #require(try await device.push())
                #expect(error.errors.map(\.itemID) == ["a"])
                #expect(error.completed == 1)
                let there = try await device.client.table(Todo.self).read()
                #expect(Set(there.map { "\($0.id) \($0.text)" }) == ["a 3", "b 2"])
                // The app may decide differently.
                try await error.errors[0].updateOperationAndRetry(with: Row(["text": "4"]))
                try await device.context.push()
                #expect(try await device.client.table(Todo.self).read(id: "a")?.text == "4")
            }
        }
    }

    @Test("An operation that both copies attempted is executed once")
    func attemptedInBoth() async throws {
        try await withTemporaryFile { file in
            let server = try await makeServer()
            let cut = ScriptedTransport(otherwise: .lost)
            try await Self.with(file, cut) { device in
                try await device.todos().insert(Todo(id: "a", text: "mine"))
                _ = try await device.push()
                #expect(try await device.queue() == ["insert a attempted"])
            }
            try Self.copy(file, to: file + ".copy")
            for file in [file, file + ".copy"] {
                try await Self.with(file, server.transport) { device in
                    try await device.context.push()
                    #expect(try await device.todos().read(id: "a")?.text == "mine")
                }
            }
            let device = try await Device(server.transport)
            #expect(try await device.client.table(Todo.self).count() == 1)
        }
    }

    @Test(
        "A request ID that was sent with another body leads to a follow-up read"
    )
    func anotherBody() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(
            .json(400, #"{"error":"Another request.","code":"repeatabilityMismatch"}"#),
            .json(200, serverRow("a", 2, text: "mine"))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == ["POST", "GET"])
        #expect(try await device.todos().read(id: "a")?.version == "v2")
    }

    /// Found by the simulation, seed 18.
    @Test(
        "An unsent transaction of a copy does not overwrite later values of the original",
        arguments: [true, false]
    )
    func transactionsUsedWithTheOriginal(deletes: Bool) async throws {
        try await withTemporaryFile { file in
            let server = try await makeServer()
            let other = try await Device(server.transport)
            try await other.client.table(Todo.self).insert(Todo(id: "a", text: "first"))
            try await Self.with(file, server.transport, conflicts: .serverWins) { device in
                try await device.todos().pull(queryID: "all")
                // Two visits, each of which is a transaction.
                try await device.context.transaction { transaction in
                    try transaction.table(Todo.self).update(id: "a") { $0.rank = 1 }
                    try transaction.table(Note.self).insert(Note(id: "v1", body: "visit"))
                }
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    if deletes {
                        try todos.delete(id: "a")
                    } else {
                        try todos.update(id: "a") { $0.text = "older" }
                    }
                    try transaction.table(Note.self).insert(Note(id: "v2", body: "visit"))
                }
            }
            try Self.copy(file, to: file + ".copy")
            // The original made other changes, and has sent all of them.
            try await Self.with(file, server.transport, conflicts: .serverWins) {
                (device) async throws -> Void in
                if deletes { try await device.todos().insert(Todo(id: "a", text: "newer")) }
                try await device.todos().update(id: "a") { row in
                    row.text = "newer"
                    row.complete = true
                }
                #expect(try await device.push() == nil)
            }
            // The ledger may have been emptied in the meantime.
            let transport = WithoutLedger(inner: server.transport)
            try await Self.with(file + ".copy", transport, conflicts: .serverWins) {
                (device) async throws -> Void in
                #expect(try await device.push() == nil)
                #expect(try await device.queue().isEmpty)
                #expect(try await device.todos().read(id: "a")?.text == "newer")
            }
            let row = try #require(try await other.client.table(Todo.self).read(id: "a"))
            #expect(row.text == "newer" && row.complete)
            #expect(try await other.client.table(Note.self).count() == 2)
        }
    }

    @Test(
        "An edit of a copy after a discarded edit is a conflict without the discarded values"
    )
    func discardedInTheCopy() async throws {
        try await withTemporaryFile { file in
            let server = try await makeServer()
            let other = try await Device(server.transport)
            try await other.client.table(Todo.self).insert(Todo(id: "a", text: "first"))
            try await Self.with(file, server.transport) { device in
                try await device.todos().pull(queryID: "all")
                try await device.context.transaction { transaction in
                    try transaction.table(Todo.self).update(id: "a") { $0.rank = 1 }
                    try transaction.table(Note.self).insert(Note(id: "v1", body: "visit"))
                }
                try await device.context.transaction { transaction in
                    try transaction.table(Todo.self).update(id: "a") { $0.text = "older" }
                    try transaction.table(Note.self).insert(Note(id: "v2", body: "visit"))
                }
            }
            try Self.copy(file, to: file + ".copy")
            try await Self.with(file, server.transport) { device in
                try await device.context.push()
                try await device.todos().update(id: "a") { row in
                    row.text = "newer"
                    row.rank = 5
                }
                try await device.context.push()
            }
            let transport = WithoutLedger(inner: server.transport)
            try await Self.with(file + ".copy", transport) { device in
                let first = try #require(try await device.push())
                #expect(first.errors.map(\.itemID) == ["a", "v1"])
                for error in first.errors { try await error.cancelOperationAndDiscardItem() }
                let second = try #require(try await device.push())
                let conflict = try #require(second.errors.first { $0.itemID == "a" })
                let item = try #require(conflict.item)
                #expect(item["text"] == "older" && (item["rank"] ?? .null).isNull)
                #expect(conflict.serverItem?["text"] == "newer")
            }
            let row = try #require(try await other.client.table(Todo.self).read(id: "a"))
            #expect(row.text == "newer" && row.rank == 5)
        }
    }

    @Test(
        "An operation that a copy sent with another body is not resent under any policy",
        arguments: [ConflictPolicy.serverWins, .fail, .clientWins, .merge]
    )
    func sentWithAnotherBody(policy: ConflictPolicy) async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, conflicts: policy)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(
            .json(400, #"{"error":"Another request.","code":"repeatabilityMismatch"}"#),
            .json(200, serverRow("a", 1))
        )
        let error = try await device.push()
        #expect(transport.sent.map(\.method) == ["PATCH", "GET"])
        if policy == .serverWins {
            #expect(error == nil)
            #expect(try await device.todos().read(id: "a")?.text == "server")
        } else {
            #expect(error?.errors.map(\.itemID) == ["a"])
            #expect(try await device.todos().read(id: "a")?.text == "mine")
        }
    }
}
