// The sync turn of several processes on one store: a lease that needs no lock.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct SyncTurnTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let lease = Duration.seconds(10)

    @Test("A lease is read as it was written, and any other text is rejected")
    func leaseText() {
        for lease in [
            SyncLease(owner: "4711-1-1", process: 4711, expires: 1_800_000_010_000),
            SyncLease(owner: "", process: 1, expires: 0),
        ] {
            #expect(SyncLease(lease.text) == lease)
            #expect(lease.text.utf8.count == SyncLease.length)
            for count in 0..<(lease.text.count - 80) {
                // A line is complete as soon as it has the first dot, which follows the last space.
                let part = String(lease.text.prefix(count))
                #expect(SyncLease(part) == (part.hasSuffix(".") ? lease : nil), "\(part)")
            }
        }
        for text in ["", "\0\0\0", "tideline-turn a b c .", "other 1 2 3 ."] {
            #expect(SyncLease(text) == nil)
        }
    }

    @Test("A lease is free when it ended, when its process ended, and when the clock was set back")
    func freeLease() {
        func isFree(_ expires: Int64, owner: String = "a", isAlive: Bool = true) -> Bool {
            SyncLease(owner: owner, process: 7, expires: expires)
                .isFree(at: 100_000, lease: 10_000) { _ in isAlive }
        }
        #expect(!isFree(105_000))
        #expect(isFree(100_000))
        #expect(isFree(105_000, isAlive: false))
        #expect(isFree(105_000, owner: ""))
        #expect(isFree(1_000_000_000))
    }

    @Test("Only one store at a time has the sync turn, and its file is not locked")
    func oneHasTheTurn() async throws {
        try await withTemporaryFile { path in
            let (one, two) = (try SQLiteStore(path: path), try SQLiteStore(path: path))
            let first = try #require(
                one.acquireSyncLease(at: now, duration: lease, isForced: false)
            )
            #expect(two.acquireSyncLease(at: now, duration: lease, isForced: false) == nil)
            // The same store may take the turn again.
            let again = try #require(
                one.acquireSyncLease(at: now, duration: lease, isForced: false)
            )
            #expect(again == first)
            let descriptor = open(path + "-sync", O_RDWR)
            #expect(descriptor >= 0)
            #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
            close(descriptor)
            one.releaseSyncLease(again)
            #expect(two.acquireSyncLease(at: now, duration: lease, isForced: false) == nil)
            one.releaseSyncLease(first)
            #expect(two.acquireSyncLease(at: now, duration: lease, isForced: false) != nil)
        }
    }

    @Test("A turn that is not renewed is lost after the lease, and its former store notices")
    func aLostTurn() async throws {
        try await withTemporaryFile { path in
            let (one, two) = (try SQLiteStore(path: path), try SQLiteStore(path: path))
            let first = try #require(
                one.acquireSyncLease(at: now, duration: lease, isForced: false)
            )
            let later = now.addingTimeInterval(5)
            #expect(one.renewSyncLease(first, at: later, duration: lease))
            let late = now.addingTimeInterval(14)
            // The lease was renewed.
            #expect(two.acquireSyncLease(at: late, duration: lease, isForced: false) == nil)
            let end = now.addingTimeInterval(16)
            let second = try #require(
                two.acquireSyncLease(at: end, duration: lease, isForced: false)
            )
            #expect(!one.renewSyncLease(first, at: end, duration: lease))
            one.releaseSyncLease(first)
            #expect(two.renewSyncLease(second, at: end, duration: lease))
            // A new turn of the same store does not revive the lost one.
            let third = try #require(one.acquireSyncLease(at: end, duration: lease, isForced: true))
            #expect(one.renewSyncLease(third, at: end, duration: lease))
            #expect(!one.renewSyncLease(first, at: end, duration: lease))
        }
    }

    /// The answer to the first request of `one` is delivered when the test says so.
    private struct Scene {
        let one: Device
        let two: Device
        let gate: GatedTransport
        let server: InProcessServer

        init(_ path: String) async throws {
            server = try await makeServer()
            gate = GatedTransport(server.transport)
            one = try await Device(gate, store: SQLiteStore(path: path))
            two = try await Device(server.transport, store: SQLiteStore(path: path))
        }

        func serverTexts() async throws -> [String] {
            let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            return try await remote.table(Todo.self).read(sortedBy: [.ascending(\.id)])
                .map { "\($0.id) \($0.text)" }
        }
    }

    @Test("Another process can push while a push waits for its answer")
    func anotherProcessContinues() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(path)
            try await scene.one.todos().insert(Todo(id: "a", text: "first"))
            let push = Task { try await scene.one.context.push() }
            try await scene.gate.reached()
            // The waits of `two` take no time, so it takes the turn by force in the end.
            #expect(try await scene.two.context.push().completed == 1)
            try await scene.two.todos().update(id: "a") { $0.text = "second" }
            #expect(try await scene.two.context.push().completed == 1)
            scene.gate.open()
            _ = try await push.value
            #expect(try await scene.one.context.pendingOperationCount == 0)
            #expect(try await scene.serverTexts() == ["a second"])
            // The late answer to the first state did not replace the second one.
            #expect(try await scene.one.todos().read(id: "a")?.text == "second")
            #expect(
                try await scene.two.todos().read(id: "a")?.version
                    == scene.one.todos().read(id: "a")?.version
            )
        }
    }

    @Test("A page that arrives after another process got the turn does not replace newer rows")
    func aLatePage() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(path)
            let remote = SyncClient(
                endpoint: Device.endpoint,
                transport: scene.server.transport
            ).table(Todo.self)
            try await remote.insert(Todo(id: "a", text: "old"))
            scene.gate.answersBeforeGate()
            let pull = Task { try await scene.one.todos().pull(queryID: nil) }
            try await scene.gate.reached()
            try await scene.two.todos().pull(queryID: nil)
            try await scene.two.todos().insert(Todo(id: "b", text: "new"))
            try await scene.two.todos().update(id: "a") { $0.text = "new" }
            #expect(try await scene.two.context.push().completed == 2)
            scene.gate.open()
            _ = try await pull.value
            // A complete page without 'b' would have removed that row.
            let texts = try await scene.one.todos().read(sortedBy: [.ascending(\.id)])
                .map { "\($0.id) \($0.text)" }
            #expect(texts == ["a new", "b new"])
        }
    }
}

/// Passes requests on; the first one except a GET of the events waits in the middle.
final class GatedTransport: Transport {
    private let inner: any Transport
    private let hasReached = Mutex(false)
    private let isOpen = Mutex(false)
    private let answersFirst = Mutex(false)

    init(_ inner: any Transport) { self.inner = inner }

    /// Makes the server answer before the wait, not after it.
    func answersBeforeGate() { answersFirst.withLock { $0 = true } }

    func reached() async throws { try await until { hasReached.withLock({ $0 }) } }

    func open() { isOpen.withLock { $0 = true } }

    private func wait() async throws {
        hasReached.withLock { $0 = true }
        try await until { isOpen.withLock({ $0 }) }
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let isFirst = answersFirst.withLock { $0 }
        if !isFirst { try await wait() }
        let answer = try await inner.send(request)
        if isFirst { try await wait() }
        return answer
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        try await inner.stream(request)
    }
}
