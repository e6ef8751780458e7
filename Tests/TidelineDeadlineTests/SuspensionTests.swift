// Suspension: all work ends within 200 ms, no file lock remains, and all work resumes afterwards.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.slow, .timeLimit(.minutes(10)), .serialized) struct SuspensionTests {
    /// A transport whose calls never end, whatever happens to their tasks.
    private final class DeafTransport: Transport {
        private let count = Mutex(0)
        private let inner: any Transport
        private let isDeaf = Mutex(true)
        /// The number of the first call that never ends.
        private let first: Int

        init(_ inner: any Transport, from first: Int = 1) {
            self.inner = inner
            self.first = first
        }

        func heal() { isDeaf.withLock { $0 = false } }

        func reached(_ number: Int = 1) async throws {
            try await until { count.withLock({ $0 }) >= number }
        }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number >= first, isDeaf.withLock({ $0 }) {
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            }
            return try await inner.send(request)
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    /// Returns the locks of this process on the files of a store, as listed by the system.
    private func locks(on path: String) throws -> [String] {
        var inodes: Set<String> = []
        for end in ["", "-wal", "-shm", "-sync"] {
            var status = stat()
            guard stat(path + end, &status) == 0 else { continue }
            inodes.insert(String(status.st_ino))
        }
        let list = try String(contentsOfFile: "/proc/locks", encoding: .utf8)
        return list.split(separator: "\n").map(String.init).filter { line in
            let fields = line.split(separator: " ")
            guard let file = fields.first(where: { $0.filter { $0 == ":" }.count == 2 }) else {
                return false
            }
            return inodes.contains(String(file.split(separator: ":").last ?? ""))
        }
    }

    private func suspend(_ client: SyncClient) async {
        let clock = ContinuousClock()
        let time = await clock.measure { await client.suspend() }
        #expect(time < .milliseconds(250), "suspending took \(time)")
    }

    @Test(
        "A suspension ends a push that waits for its transport, and the push is sent later"
    )
    func aDeafTransport() async throws {
        try await withTemporaryFile { path in
            let transport = DeafTransport(try await makeServer().transport)
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            let push = Task { try await device.push() }
            try await transport.reached()
            await suspend(device.client)
            let error = try #require(try await push.value)
            #expect(error.status == .cancelled)
            #expect((error.cause as? SyncError)?.code == .suspended)
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            // Nothing is sent while the client is suspended.
            #expect(try await device.push()?.status == .cancelled)
            #expect(await code { try await device.todos().pull(queryID: nil) } == .suspended)
            #expect(
                await code { _ = try await device.client.table(Todo.self).read() } == .suspended
            )
            transport.heal()
            device.client.resume()
            #expect(try await device.push() == nil)
            #expect(try await device.todos().read(id: "a")?.version != nil)
        }
    }

    @Test(
        "A suspension ends a pull that waits for its transport, and keeps the stored pages"
    )
    func aDeafTransportInAPull() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let direct = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            for number in 0..<30 {
                _ = try await direct.table(Todo.self).insert(Todo(id: "\(number)", text: "theirs"))
            }
            var limits = SyncLimits()
            limits.pageRowsFirst = 10
            limits.pageRowsMax = 10
            let transport = DeafTransport(server.transport, from: 2)
            let store = try SQLiteStore(path: path)
            let device = try await Device(transport, store: store, limits: limits)
            let todos = try device.todos()
            let pull = Task { await code { try await todos.pull(queryID: "all") } }
            try await transport.reached(2)
            await suspend(device.client)
            #expect(await pull.value == .suspended)
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            #expect(try await todos.count() == 10)
            transport.heal()
            device.client.resume()
            #expect(try await todos.pull(queryID: "all").applied == 20)
            #expect(try await todos.count() == 30)
        }
    }

    @Test("A token call that does not return does not prevent the suspension of the client")
    func aDeafToken() async throws {
        struct Deaf: Authentication {
            let reached: @Sendable () -> Void
            var accountID: String? { "anna" }
            func token(refreshing: Bool) async throws -> String {
                reached()
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
                return ""
            }
        }
        let hasReached = Mutex(false)
        let device = try await Device(
            ScriptedTransport(),
            authentication: Deaf { hasReached.withLock { $0 = true } }
        )
        let read = Task { try await device.client.table(Todo.self).read() }
        try await until { hasReached.withLock({ $0 }) }
        await suspend(device.client)
        let error = await #expect(throws: SyncError.self) { try await read.value }
        #expect(error?.code == .suspended)
    }

    @Test("Local reads and changes work while the client is suspended, and hold no lock")
    func localWork() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let device = try await Device(server.transport, store: SQLiteStore(path: path))
            let todos = try device.todos()
            try await todos.insert(Todo(id: "a", text: "before"))
            await suspend(device.client)
            try await todos.update(id: "a") { $0.text = "meanwhile" }
            try await todos.insert(Todo(id: "b", text: "meanwhile"))
            #expect(try await todos.read().count == 2)
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            await suspend(device.client)
            device.client.resume()
            #expect(try await device.context.push().completed == 2)
            #expect(try await todos.read(id: "a")?.text == "meanwhile")
        }
    }

    @Test("A client that is initialized while it is suspended holds no lock, and resumes")
    func initializedMeanwhile() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let client = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            await suspend(client)
            let store = try SQLiteStore(path: path)
            try await client.syncContext.initialize(store: store, tables: [Todo.self])
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            let todos = try client.syncTable(Todo.self)
            try await todos.insert(Todo(id: "a", text: "meanwhile"))
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            await #expect(throws: PushError.self) { try await client.syncContext.push() }
            client.resume()
            #expect(try await client.syncContext.push().completed == 1)
            #expect(try await todos.read(id: "a")?.version != nil)
        }
    }

    @Test("A suspension rolls a long change back, and the app can make the change again")
    func aLongChange() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let todos = try device.todos()
            let (begun, begin) = AsyncStream.makeStream(of: Void.self)
            let change = Task {
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    for number in 0..<1_000_000 {
                        try todos.insert(Todo(id: "row-\(number % 900)-\(number)", text: "x"))
                        try todos.delete(id: "row-\(number % 900)-\(number)")
                        if number == 10 { begin.yield() }
                    }
                }
            }
            for await _ in begun { break }
            await suspend(device.client)
            let error = await #expect(throws: SyncError.self) { try await change.value }
            #expect(error?.code == .suspended)
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            try await todos.insert(Todo(id: "a"))
            device.client.resume()
            #expect(try await todos.read().map(\.id) == ["a"])
        }
    }

    @Test("Automatic sync pauses while the client is suspended, and resumes")
    func automaticSync() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let device = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                environment: .live
            )
            try device.client.startSyncing()
            defer { device.client.stopSyncing() }
            let todos = try device.todos()
            try await todos.insert(Todo(id: "a"))
            for try await rows in todos.observe() where rows.first?.version != nil { break }
            await suspend(device.client)
            try await todos.insert(Todo(id: "b"))
            #if os(Linux)
            #expect(try locks(on: path).isEmpty)
            #endif
            #expect(try await device.context.pendingOperationCount == 1)
            device.client.resume()
            for try await rows in todos.observe()
            where rows.count == 2 && rows.allSatisfy({ $0.version != nil }) { break }
        }
    }

    @Test("An observer survives a suspension")
    func anObserver() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let todos = try device.todos()
            var seen = todos.observe().makeAsyncIterator()
            #expect(try await seen.next()?.isEmpty == true)
            await suspend(device.client)
            try await todos.insert(Todo(id: "a"))
            #expect(try await seen.next()?.map(\.id) == ["a"])
            device.client.resume()
            try await todos.insert(Todo(id: "b"))
            #expect(try await seen.next()?.count == 2)
        }
    }

    @Test("An observer sees what another process changed during a suspension")
    func anObserverOfAnotherProcess() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let todos = try device.todos()
            var seen = todos.observe().makeAsyncIterator()
            #expect(try await seen.next()?.isEmpty == true)
            for id in ["a", "b"] {
                await suspend(device.client)
                let store = try SQLiteStore(path: path)
                let widget = try await Device(ScriptedTransport(), store: store)
                try await widget.todos().insert(Todo(id: id))
                try await store.close()
                device.client.resume()
                #expect(try await seen.next()?.map(\.id).last == id)
            }
        }
    }
}
