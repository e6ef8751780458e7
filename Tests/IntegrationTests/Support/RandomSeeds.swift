// RandomSeeds: the seeds of the tests that kill processes or cut connections at random.

import Foundation

/// The arguments of tests whose random choices come from a `SeededGenerator`, so that a failed run names its seed.
enum RandomSeeds {
    /// The seed 0; `TIDELINE_SEEDS=20` runs the seeds 0 to 19.
    static let all: [UInt64] = {
        let text = ProcessInfo.processInfo.environment["TIDELINE_SEEDS"] ?? ""
        return Array(0..<(UInt64(text) ?? 1))
    }()
}
