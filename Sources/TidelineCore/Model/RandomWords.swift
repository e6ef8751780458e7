// RandomWords: random bits for new ids, which it fetches from the system for many ids at once.

import Foundation

/// A buffer of random bits for ids.
///
/// On Linux each call of `SystemRandomNumberGenerator` is a system call, which takes longer than the rest of an id.
package struct RandomWords: Sendable {
    /// The maximum number of bytes that the system returns in one call.
    private static let bytesAtOnce = 256

    private var words: [UInt64] = []

    /// Creates an empty buffer.
    package init() {}

    /// Returns two words that no other call returns.
    package mutating func pair() -> (UInt64, UInt64) {
        if words.count < 2 { words = Self.fetch() }
        var system = SystemRandomNumberGenerator()
        return (words.popLast() ?? system.next(), words.popLast() ?? system.next())
    }

    /// Fetches random words; returns none if the system call fails, or if the system has a buffer of its own.
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
