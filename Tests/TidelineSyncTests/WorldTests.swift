// Seeded worlds: several devices, one server, a bad network.

import Foundation
import Testing
import TidelineTestKit

@Suite(.serialized) struct WorldTests {
    /// The seeds of a run: one of them alone where TIDELINE_SEED names it.
    static let seeds: [UInt64] = {
        if let text = ProcessInfo.processInfo.environment["TIDELINE_SEED"], let seed = UInt64(text)
        {
            return [seed]
        }
        return Array(0..<500)
    }()

    @Test(arguments: seeds)
    func guaranteesHold(seed: UInt64) async throws {
        _ = try await play(seed)
    }

    @Test(arguments: UInt64(0)..<10)
    func aSeedRepeatsItsHistory(seed: UInt64) async throws {
        let first = try await play(seed)
        let second = try await play(seed)
        #expect(first == second)
    }

    @Test func aBrokenWorldIsMadeSmall() {
        var plan = WorldPlan(seed: 3)
        plan.faults = .bad
        plan.steps = 20
        let (smallest, _) = World.shrunk(plan) { $0.steps >= 3 && $0.faults.late > 0 }
        #expect(smallest.steps == 3)
        #expect(smallest.devices == 1 && smallest.policies.count == 1)
        #expect(smallest.rows == 1)
        var faults = NetworkFaults()
        faults.late = NetworkFaults.bad.late
        #expect(smallest.faults == faults)
    }

    /// Runs a world on a thread of its own: it would keep a thread of Swift's pool busy, and the
    /// pool has as many as the machine has cores.
    private func play(_ seed: UInt64) async throws -> WorldReport {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result { try World(WorldPlan(seed: seed)).runShrinking() }
                )
            }
        }
    }
}
