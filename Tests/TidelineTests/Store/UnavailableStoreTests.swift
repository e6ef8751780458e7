// A store that cannot be read for a while, as on a locked phone: nothing is lost, and observers and sync resume by
// themselves.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

/// A store that can be locked.
private final class LockableStore: ForwardingStore {
    let inner: any LocalStore
    private let fault = Mutex<(any Error)?>(nil)

    init(_ inner: any LocalStore = MemoryStore()) { self.inner = inner }

    func lock(_ error: any Error) { fault.withLock { $0 = error } }

    func unlock() { fault.withLock { $0 = nil } }

    private func check() throws { if let error = fault.withLock({ $0 }) { throw error } }

    func open(tables: [TableSchema]) async throws {
        try check()
        try await inner.open(tables: tables)
    }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try check()
        return try await inner.read(body)
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        try check()
        return try await inner.write(body)
    }
}

@Suite(.timeLimit(.minutes(10))) struct UnavailableStoreTests {
    static let faults: [any Error] = [
        SQLiteError(code: 10 | (1 << 8), message: "disk I/O error"),
        SQLiteError(code: 14, message: "unable to open database file"),
        SQLiteError(code: 23, message: "authorization denied"),
        SQLiteError(code: 3, message: "access permission denied"),
        POSIXError(.EPERM), CocoaError(.fileReadNoPermission),
        NSError(domain: NSPOSIXErrorDomain, code: 1),
    ]

    @Test("Errors of a file that is temporarily unavailable are not failures")
    func codes() async throws {
        for fault in Self.faults {
            let store = LockableStore()
            let device = try await Device(ScriptedTransport(), store: store)
            try await device.todos().insert(Todo(id: "a"))
            store.lock(fault)
            #expect(await code { _ = try await device.todos().read() } == .storeUnavailable)
            #expect(
                await code { try await device.todos().insert(Todo(id: "b")) } == .storeUnavailable
            )
            let error = try #require(
                await { () -> PushError? in
                    do {
                        try await device.context.push()
                        return nil
                    } catch { return error as? PushError }
                }()
            )
            #expect(error.status == .storeFailure)
            #expect((error.cause as? SyncError)?.code == .storeUnavailable)
            store.unlock()
            #expect(try await device.todos().read().map(\.id) == ["a"])
        }
        for fault: any Error in [
            SQLiteError(code: 13, message: "full"), SQLiteError(code: 11, message: "malformed"),
            TroubledStore.Full(),
        ] {
            let store = LockableStore()
            let device = try await Device(ScriptedTransport(), store: store)
            store.lock(fault)
            #expect(await code { _ = try await device.todos().read() } == .storeFailure)
        }
    }

    @Test("A store that cannot be opened at the start reports it, and opens later")
    func atTheStart() async throws {
        let store = LockableStore()
        store.lock(POSIXError(.EPERM))
        let client = SyncClient(endpoint: Device.endpoint, transport: ScriptedTransport())
        let open = { try await client.syncContext.initialize(store: store, tables: [Todo.self]) }
        #expect(await code { try await open() } == .storeUnavailable)
        store.unlock()
        try await open()
        #expect(try await client.syncTable(Todo.self).read().isEmpty)
    }

    @Test("Observers resume by themselves, and miss no change")
    func observers() async throws {
        for fault in Self.faults {
            let store = LockableStore()
            let rests = Rests()
            let device = try await Device(
                ScriptedTransport(),
                store: store,
                environment: rests.environment
            )
            let todos = try device.todos()
            store.lock(fault)
            let first = Task {
                for try await rows in todos.observe() { return rows.count }
                return -1
            }
            try await until { rests.count != 0 }
            store.unlock()
            rests.end(forAll: true)
            #expect(try await first.value == 0)
            var seen = todos.observe().makeAsyncIterator()
            #expect(try await seen.next()?.isEmpty == true)
            try await todos.insert(Todo(id: "a"))
            store.lock(fault)
            let next = Task { [seen] in
                var seen = seen
                return try await seen.next()?.count
            }
            for _ in 0..<50 { await Task.yield() }
            store.unlock()
            #expect(try await next.value == 1)
        }
    }

    @Test("Automatic sync resumes by itself with backoff")
    func automaticSync() async throws {
        let store = LockableStore()
        let server = try await makeServer()
        var environment = Waits().environment
        let waits = Mutex<[Duration]>([])
        environment.sleep = { duration in
            waits.withLock { $0.append(duration) }
            try await Task.sleep(for: duration <= .seconds(60) ? .milliseconds(1) : .seconds(3600))
        }
        let device = try await Device(server.transport, store: store, environment: environment)
        try await device.todos().insert(Todo(id: "a"))
        store.lock(SQLiteError(code: 14, message: "unable to open database file"))
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        try device.client.startSyncing(policy)
        defer { device.client.stopSyncing() }
        for await status in device.client.syncStatus {
            if case .blocked(by: .failure(.storeUnavailable, _)) = status { break }
        }
        #expect(device.client.lastSyncError?.code == .storeUnavailable)
        try await until { waits.withLock({ $0.count }) >= 3 }
        store.unlock()
        for await status in device.client.syncStatus where status == .idle { break }
        #expect(try await device.context.pendingOperationCount == 0)
        #expect(try await device.client.table(Todo.self).read().count == 1)
    }

    /// The folder of the file is moved away, so that no connection can be opened.
    @Test("A file that was moved back is read again")
    func aMovedFileIsReadAgain() async throws {
        try await withTemporaryFile { path in
            let folder = URL(filePath: path).deletingLastPathComponent().appending(path: "inner")
            let away = folder.deletingLastPathComponent().appending(path: "away")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let file = folder.appending(path: "store.sqlite").path()
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: file))
            let todos = try device.todos()
            try await todos.insert(Todo(id: "a"))
            // No connection is open yet.
            await device.store.suspend()
            try FileManager.default.moveItem(at: folder, to: away)
            #expect(await code { _ = try await todos.read() } == .storeUnavailable)
            #expect(await code { try await todos.insert(Todo(id: "b")) } == .storeUnavailable)
            let opening = await code { _ = try SQLiteStore(path: file) }
            #expect(opening == .storeFailure)
            try FileManager.default.moveItem(at: away, to: folder)
            #expect(try await todos.read().map(\.id) == ["a"])
            device.store.resume()
            try await todos.insert(Todo(id: "b"))
            #expect(try await todos.read().count == 2)
        }
    }
}
