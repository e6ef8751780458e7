// Seeded worlds: several devices, one server, a bad network.

import Foundation
import Testing
import TidelineTestKit

@Suite struct WorldTests {
    /// The seeds of a run: one of them alone where TIDELINE_SEED names it.
    static let seeds: [UInt64] = {
        if let text = ProcessInfo.processInfo.environment["TIDELINE_SEED"], let seed = UInt64(text) {
            return [seed]
        }
        return Array(0..<500)
    }()

    @Test(arguments: seeds)
    func guaranteesHold(seed: UInt64) throws {
        _ = try World(WorldPlan(seed: seed)).run()
    }

    @Test(arguments: UInt64(0)..<10)
    func aSeedRepeatsItsHistory(seed: UInt64) throws {
        let first = try World(WorldPlan(seed: seed)).run()
        let second = try World(WorldPlan(seed: seed)).run()
        #expect(first == second)
    }
}
