// SeededGenerator: reproducible random numbers (SplitMix64).

import Synchronization

/// A random number generator that produces the same numbers from the same seed on every machine.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator that starts the sequence of a seed.
    public init(seed: UInt64) {
        state = seed
    }

    /// Returns the next number.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Returns true with the given probability in percent.
    public mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self) < percent
    }

    /// Returns a number from 0 to `count` - 1.
    package mutating func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self) }

    /// Returns one of the choices at random.
    package mutating func pick<T>(_ choices: [T]) -> T { choices[below(choices.count)] }

    /// Returns true with the probability `one` / `many`.
    package mutating func chance(_ one: Int, in many: Int) -> Bool { below(many) < one }
}

/// A source of reproducible ids and fractions for a client's environment.
package final class SeededNumbers: Sendable {
    private let generator: Mutex<SeededGenerator>

    package init(seed: UInt64) {
        generator = Mutex(SeededGenerator(seed: seed))
    }

    package func fraction() -> Double {
        generator.withLock { Double.random(in: 0..<1, using: &$0) }
    }

    /// Returns a string in UUID format.
    package func id() -> String {
        generator.withLock { generator in
            let digits = String(generator.next(), radix: 16) + String(generator.next(), radix: 16)
            let padded = Array(digits + String(repeating: "0", count: 32)).prefix(32)
            var text = ""
            for (index, digit) in padded.enumerated() {
                if [8, 12, 16, 20].contains(index) { text.append("-") }
                text.append(digit)
            }
            return text
        }
    }
}
