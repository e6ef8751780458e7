// Seeded simulations against two servers on one PostgreSQL, without and with a standby for pages: devices, an
// unreliable network, and apps that are killed.

import Foundation
import Synchronization
import Testing
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresSimulationTests {
    static let seeds: [UInt64] = {
        let text = ProcessInfo.processInfo.environment["TIDELINE_SEEDS"] ?? ""
        return UInt64(text).map { Array(0..<$0) } ?? TestScope.first(1, of: 0..<6)
    }()

    /// The stores of a simulation, which no other code stops.
    private final class Stores: Sendable {
        private let all = Mutex<[PostgresTableStore]>([])

        func open(
            _ url: String,
            _ replica: String?,
            _ now: @escaping @Sendable () -> Int64
        ) throws -> BlockingStore {
            var options = PostgresTableStore.Options()
            options.replica = replica
            options.replicaRest = .milliseconds(20)
            options.readers = 2
            options.now = now
            let store = try PostgresTableStore(url: url, options: options)
            all.withLock { $0.append(store) }
            return BlockingStore(store)
        }

        func stop() async { for store in all.withLock({ $0 }) { await store.stop() } }
    }

    @Test("The guarantees hold for two servers with one PostgreSQL database", arguments: seeds)
    func guaranteesHoldOnTwoServers(seed: UInt64) async throws {
        try await run(seed, on: PostgresCluster.shared().database(), nil)
    }

    @Test("The guarantees hold for two servers that read from a standby", arguments: seeds)
    func guaranteesHoldWithAStandby(seed: UInt64) async throws {
        let (primary, standby) = try PostgresCluster.sharedPair()
        let url = try primary.database()
        try await run(seed, on: url, standby.url(of: PostgresCluster.name(in: url)))
    }

    private func run(_ seed: UInt64, on url: String, _ replica: String?) async throws {
        let stores = Stores()
        let world = World(WorldPlan(seed: seed)) { now in
            AlternatingStore([
                try stores.open(url, replica, now), try stores.open(url, replica, now),
            ])
        }
        let result = await withCheckedContinuation { end in
            Thread.detachNewThread {
                end.resume(returning: Result { try world.run() }.map { _ in () })
            }
        }
        await stores.stop()
        try result.get()
    }
}
