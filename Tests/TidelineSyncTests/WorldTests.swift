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
        return allSeeds
    }()

    private static let allSeeds = Array(UInt64(0)..<500)

    @Test(arguments: seeds)
    func guaranteesHold(seed: UInt64) async throws {
        _ = try await play(WorldPlan(seed: seed))
    }

    /// Each found a mistake: docs/FOUND.md.
    @Test(arguments: [90, 130, 137] as [UInt64])
    func whatWasFoundStaysMended(seed: UInt64) async throws {
        _ = try await play(WorldPlan(seed: seed))
    }

    @Test(arguments: UInt64(0)..<10)
    func aSeedRepeatsItsHistory(seed: UInt64) async throws {
        let first = try await play(WorldPlan(seed: seed))
        let second = try await play(WorldPlan(seed: seed))
        #expect(first == second)
    }

    /// Nobody presses a button to sync, in front of servers of every generation.
    @Test(arguments: WorldPlan.Server.allCases, UInt64(0)..<10)
    func devicesThatSyncThemselvesAgree(server: WorldPlan.Server, seed: UInt64) async throws {
        var plan = WorldPlan(seed: seed)
        plan.server = server
        plan.faults = .bad
        plan.syncsItself = plan.syncsItself.map { _ in true }
        _ = try await play(plan)
    }

    @Test func theSeedsDrawEveryKind() {
        let plans = Self.allSeeds.map(WorldPlan.init)
        for server in WorldPlan.Server.allCases {
            #expect(plans.filter { $0.server == server }.count >= 20)
        }
        for syncsItself in [true, false] {
            #expect(plans.filter { $0.syncsItself.contains(syncsItself) }.count >= 50)
        }
    }

    @Test func aBrokenWorldIsMadeSmall() {
        var plan = WorldPlan(seed: 3)
        plan.server = .node
        plan.faults = .bad
        plan.steps = 20
        let (smallest, _) = World.shrunk(plan) { $0.steps >= 3 && $0.faults.late > 0 }
        #expect(smallest.steps == 3)
        #expect(smallest.devices == 1 && smallest.policies.count == 1)
        #expect(smallest.rows == 1)
        #expect(smallest.server == .tideline && smallest.syncsItself == [false])
        var faults = NetworkFaults()
        faults.late = NetworkFaults.bad.late
        #expect(smallest.faults == faults)
    }

    /// Runs a world on a thread of its own: it would keep a thread of Swift's pool busy, and the
    /// pool has as many as the machine has cores.
    private func play(_ plan: WorldPlan) async throws -> WorldReport {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result { try World(plan).runShrinking() }
                )
            }
        }
    }
}
