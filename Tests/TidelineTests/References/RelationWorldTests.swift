// Devices that insert, move and delete related rows while the network fails, apps are killed between transactions of
// their stores, and tables are purged.

import Foundation
import Testing
import TidelineTestKit
import TidelineTestSupport

@Suite struct RelationWorldTests {
    /// The seeds that broke a guarantee once.
    private static let found: [UInt64] = [6797, 15194, 20600, 27122, 27677, 28571]

    /// The seeds of a run: those from `TIDELINE_SEED` on, `TIDELINE_SEEDS` of them, or a few.
    private static var seeds: [UInt64] {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["TIDELINE_SEED"].flatMap(UInt64.init)
        let count = environment["TIDELINE_SEEDS"].flatMap(UInt64.init)
        if first == nil, count == nil { return found + Array(1...60) }
        return Array((first ?? 1)..<((first ?? 1) + (count ?? 1)))
    }

    @Test("Related rows survive faults, kills and purges, and no device has an orphan")
    func relations() {
        for seed in Self.seeds {
            do {
                try RelationWorld(seed: seed).run()
            } catch {
                Issue.record("\(error)")
            }
        }
    }

    /// The seeds that broke a guarantee with rules once.
    private static let foundWithRules: [UInt64] = [73, 1098, 1356, 1500, 1996]

    @Test("No operation on related rows is parked for a rule that the device can check")
    func rules() {
        for seed in Self.foundWithRules + Self.seeds {
            do {
                try RelationWorld(seed: seed, hasRules: true).run()
            } catch {
                Issue.record("\(error)")
            }
        }
    }
}
