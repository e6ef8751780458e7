// AutomaticSyncTests: automatic sync, its status, its deadline, and overlapping pushes.

import Foundation
import Synchronization
import Testing
import Tideline

struct AutomaticSyncTests {
    private static var policy: SyncPolicy {
        var policy = SyncPolicy()
        policy.debounce = .milliseconds(10)
        policy.interval = .milliseconds(200)
        policy.retryFirst = .milliseconds(20)
        policy.retryMax = .milliseconds(100)
        return policy
    }

    @Test(
        "Two devices with automatic sync receive each other's changes",
        arguments: BackendKind.allCases
    )
    func changesArriveAutomatically(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            try one.client.startSyncing(Self.policy)
            try two.client.startSyncing(Self.policy)
            try await one.notes.insert(Note(id: "a", text: "from one"))
            _ = try await eventually("the row of the other device", within: .seconds(120)) {
                try await two.text("a")
            }
            try await two.notes.update(id: "a") { $0.text = "from two" }
            _ = try await eventually("the edit of the other device", within: .seconds(120)) {
                try await one.text("a") == "from two" ? true : nil
            }
            one.client.stopSyncing()
            two.client.stopSyncing()
            #expect(one.client.currentSyncStatus == .idle)
            try await one.sync()
            try await two.sync()
            try await expectAgreement(one, two)
        }
    }

    @Test("Automatic sync reports the offline status and sends the queue when the network returns")
    func showsThatItIsOffline() async throws {
        try await withBackend(.inProcess) { backend in
            let network = SwitchedTransport(backend.transport)
            network.isOn = false
            let device = try await backend.device(through: network)
            try device.client.startSyncing(Self.policy)
            try await device.notes.insert(Note(id: "a"))
            _ = try await eventually("the status offline", within: .seconds(120)) {
                if case .offline = device.client.currentSyncStatus { true } else { nil }
            }
            network.isOn = true
            _ = try await eventually("everything sent", within: .seconds(120)) {
                try await device.context.pendingOperationCount == 0 ? true : nil
            }
            for await status in device.client.syncStatus where status == .idle { break }
            device.client.stopSyncing()
            #expect(try await device.client.table(Note.self).read(id: "a") != nil)
        }
    }

    @Test("A sync with a deadline ends in time and is completed by the next sync")
    func endsAtItsDeadline() async throws {
        try await withBackend(.inProcess) { backend in
            let network = SwitchedTransport(backend.transport)
            let device = try await backend.device(through: network)
            try await device.notes.insert(Note(id: "a"))
            network.hangs = true
            let cut = try await device.client.syncOnce(deadline: .milliseconds(50))
            #expect(!cut)
            #expect(try await device.context.pendingOperationCount == 1)
            network.hangs = false
            let whole = try await device.client.syncOnce(deadline: .seconds(60))
            #expect(whole)
            #expect(try await device.context.pendingOperationCount == 0)
            try await expectAgreement(device)
        }
    }

    @Test("Pushes that overlap a batch send the later operations in one more batch")
    func overlappingPushesAreOne() async throws {
        try await withBackend(.inProcess) { backend in
            let network = SwitchedTransport(backend.transport)
            let device = try await backend.device(through: network)
            for number in 0..<5 { try await device.notes.insert(Note(id: "n\(number)")) }
            network.isHeld = true
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 { group.addTask { _ = try await device.context.push() } }
                _ = try await eventually("the first batch", within: .seconds(120)) {
                    network.writes > 0 ? true : nil
                }
                try await device.notes.insert(Note(id: "late"))
                for _ in 0..<4 { group.addTask { _ = try await device.context.push() } }
                network.isHeld = false
                try await group.waitForAll()
            }
            #expect(try await device.context.pendingOperationCount == 0)
            #expect(network.writes == 2)
        }
    }

    @Test("A cancelled push does not cancel the push that waits for it")
    func aCancelledPushCancelsNoOther() async throws {
        try await withBackend(.inProcess) { backend in
            let network = SwitchedTransport(backend.transport)
            let device = try await backend.device(through: network)
            try await device.notes.insert(Note(id: "a"))
            network.hangs = true
            let first = Task { try await device.context.push() }
            _ = try await eventually("a request", within: .seconds(120)) {
                network.writes > 0 ? true : nil
            }
            let second = Task { try await device.context.push() }
            network.hangs = false
            first.cancel()
            await #expect(throws: PushError.self) { try await first.value }
            _ = try await second.value
            #expect(try await device.context.pendingOperationCount == 0)
        }
    }
}

/// A network that can be switched off, or never responds.
private final class SwitchedTransport: Transport {
    private struct State {
        var isOn = true
        var hangs = false
        var isHeld = false
        var writes = 0
    }

    private let inner: any Transport
    private let state = Mutex(State())

    init(_ inner: any Transport) { self.inner = inner }

    var isOn: Bool {
        get { state.withLock { $0.isOn } }
        set { state.withLock { $0.isOn = newValue } }
    }

    var hangs: Bool {
        get { state.withLock { $0.hangs } }
        set { state.withLock { $0.hangs = newValue } }
    }

    /// Whether requests wait until this is false.
    var isHeld: Bool {
        get { state.withLock { $0.isHeld } }
        set { state.withLock { $0.isHeld = newValue } }
    }

    /// How many writes were sent.
    var writes: Int { state.withLock { $0.writes } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let (isOn, hangs) = state.withLock { state in
            if request.method != "GET" { state.writes += 1 }
            return (state.isOn, state.hangs)
        }
        guard isOn else {
            throw TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false)
        }
        if hangs { try await Task.sleep(for: .seconds(3600)) }
        _ = try await eventually("the end of the wait", within: .seconds(300)) {
            self.isHeld ? nil : true
        }
        return try await inner.send(request)
    }
}
