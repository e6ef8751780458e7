// The pulls of a sync: how many run at a time, and in which order.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct PullOrderTests {
    /// Counts the running requests, and records the order of the tables.
    private final class CountingTransport: Transport {
        struct State: Sendable {
            var running = 0
            var runningMax = 0
            var tables: [String] = []
        }

        private let state = Mutex(State())

        var now: State { state.withLock { $0 } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            state.withLock { state in
                state.running += 1
                state.runningMax = max(state.runningMax, state.running)
                state.tables.append(request.url.lastPathComponent)
            }
            for _ in 0..<20 { await Task.yield() }
            state.withLock { $0.running -= 1 }
            return TransportResponse(
                status: 200,
                headers: ["Content-Type": "application/json"],
                body: Array(#"{"items":[]}"#.utf8)
            )
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            throw TransportError(.unsupported, "None.", outcomeIsUnknown: false)
        }
    }

    private static let tables = (0..<40).map { String(format: "t%02d", $0) }

    private func device(_ transport: CountingTransport) async throws -> Device {
        try await Device(
            transport,
            tables: [],
            schemas: Self.tables.map { TableSchema(name: $0, columns: []) },
            generation: .datasync,
            environment: .live
        )
    }

    private func policy(_ tables: [String]) -> SyncPolicy {
        var policy = SyncPolicy()
        for table in tables { policy.pull(table: table, queryID: "all") }
        policy.isLive = false
        policy.interval = nil
        return policy
    }

    @Test("A single sync pulls three tables at a time, in the order of the policy")
    func oneSyncPullsThreeTablesAtATime() async throws {
        let transport = CountingTransport()
        let device = try await device(transport)
        let wanted = Array(Self.tables.reversed())
        #expect(try await device.client.syncOnce(deadline: .seconds(300), policy(wanted)))
        check(transport.now, wanted)
    }

    @Test("Automatic sync pulls three tables at a time, in the order of the policy")
    func automaticSyncPullsThreeTablesAtATime() async throws {
        let transport = CountingTransport()
        let device = try await device(transport)
        let wanted = Array(Self.tables.reversed())
        try device.client.startSyncing(policy(wanted))
        defer { device.client.stopSyncing() }
        for await status in device.client.syncStatus
        where status == .idle && transport.now.tables.count >= wanted.count { break }
        #expect(transport.now.tables.count == wanted.count)
        check(transport.now, wanted)
    }

    private func check(_ state: CountingTransport.State, _ wanted: [String]) {
        #expect(state.runningMax <= 3)
        #expect(Set(state.tables) == Set(wanted))
        // Three pulls run at a time, so each starts near its own position. On a busy machine one may be delayed.
        for (index, table) in state.tables.enumerated() {
            let position = wanted.firstIndex(of: table) ?? -1
            #expect(abs(position - index) < wanted.count / 2, "\(table) was number \(index)")
        }
    }

    @Test("Pulls that an app starts at the same time run three at a time, too")
    func pullsOfAnAppRunThreeAtATime() async throws {
        let transport = CountingTransport()
        let device = try await device(transport)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for table in Self.tables {
                group.addTask {
                    try await device.client.syncTable(named: table).pull(queryID: "all")
                }
            }
            try await group.waitForAll()
        }
        #expect(transport.now.runningMax <= 3)
        #expect(transport.now.tables.count == Self.tables.count)
    }

    @Test("A pull in excess of the limit waits, and a later push does not overtake it")
    func aPushIsNotOvertaken() {
        var turns = SyncTurns(pullsMax: 2)
        let one = turns.ask(.pull(table: "a"))
        let two = turns.ask(.pull(table: "b"))
        let three = turns.ask(.pull(table: "c"))
        let push = turns.ask(.push)
        let four = turns.ask(.pull(table: "d"))
        #expect([one, two, three, push, four].map(\.starts) == [true, true, false, false, false])
        #expect(turns.end(one.id) == [three.id])
        #expect(turns.end(two.id).isEmpty)
        #expect(turns.end(three.id) == [push.id])
        #expect(turns.end(push.id) == [four.id])
    }
}
