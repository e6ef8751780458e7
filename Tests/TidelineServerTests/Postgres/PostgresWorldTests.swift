// Seeded worlds in front of two servers on one PostgreSQL: devices, a bad network, apps that are killed.

import Foundation
import Synchronization
import Testing
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresWorldTests {
    static let seeds: Range<UInt64> = {
        let text = ProcessInfo.processInfo.environment["TIDELINE_SEEDS"] ?? ""
        return 0..<(UInt64(text) ?? 6)
    }()

    /// The stores of a world, which nobody else ends.
    private final class Stores: Sendable {
        private let all = Mutex<[PostgresTableStore]>([])

        func open(_ url: String, _ now: @escaping @Sendable () -> Int64) throws -> BlockingStore {
            var options = PostgresTableStore.Options()
            options.readers = 2
            options.now = now
            let store = try PostgresTableStore(url: url, options: options)
            all.withLock { $0.append(store) }
            return BlockingStore(store)
        }

        func stop() async { for store in all.withLock({ $0 }) { await store.stop() } }
    }

    @Test(arguments: seeds) func guaranteesHoldOnTwoServers(seed: UInt64) async throws {
        let url = try PostgresCluster.shared().database()
        let stores = Stores()
        let world = World(WorldPlan(seed: seed)) { now in
            AlternatingStore([try stores.open(url, now), try stores.open(url, now)])
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
