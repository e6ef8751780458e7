// RandomWords: random bits for new ids, fetched from the system in bulk.

import Foundation

/// A buffer of random bits for new ids.
///
/// On Linux, each call of `SystemRandomNumberGenerator` is a system call, which takes longer than
/// all other work for an id.
package struct RandomWords: Sendable {
    /// The maximum number of bytes that the system returns in one call.
    private static let bytesAtOnce = 256

    private var words: [UInt64] = []

    /// Creates an empty buffer.
    package init() {}

    /// Returns two random words, and never returns the same ones again.
    package mutating func pair() -> (UInt64, UInt64) {
        if words.count < 2 { words = Self.fetch() }
        var system = SystemRandomNumberGenerator()
        return (words.popLast() ?? system.next(), words.popLast() ?? system.next())
    }

    /// Fetches random words; returns none if the system call fails, or on Darwin, where the system
    /// has its own buffer.
    private static func fetch() -> [UInt64] {
        #if canImport(Darwin)
        return []
        #else
        var words = [UInt64](repeating: 0, count: bytesAtOnce / MemoryLayout<UInt64>.size)
        let result = words.withUnsafeMutableBytes { getentropy($0.baseAddress, $0.count) }
        return result == 0 ? words : []
        #endif
    }
}
