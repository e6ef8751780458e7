// Dice: random numbers for tests that draw their steps from a seed.

/// Small random numbers from a seed (SplitMix64).
package struct Dice {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed }

    package mutating func roll(_ bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((mixed ^ (mixed >> 31)) % UInt64(bound))
    }
}
