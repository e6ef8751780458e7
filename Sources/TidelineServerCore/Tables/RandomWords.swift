// RandomWords: random bits for new ids, which it fetches from the system for many ids at once.

import Foundation
import Synchronization

final class RandomWords: Sendable {
    /// The maximum number of bytes that the system returns in one call.
    private static let bytesAtOnce = 256

    private let words = Mutex<[UInt64]>([])

    /// Returns two words that no other call returns.
    func pair() -> (UInt64, UInt64) {
        words.withLock { words in
            if words.count < 2 { words = Self.fetch() }
            var system = SystemRandomNumberGenerator()
            return (words.popLast() ?? system.next(), words.popLast() ?? system.next())
        }
    }

    /// Fetches random words; returns none if the system call fails.
    private static func fetch() -> [UInt64] {
        var words = [UInt64](repeating: 0, count: bytesAtOnce / MemoryLayout<UInt64>.size)
        let result = words.withUnsafeMutableBytes { getentropy($0.baseAddress, $0.count) }
        return result == 0 ? words : []
    }
}
