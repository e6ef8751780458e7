// TextSearch: finds a string in another string in linear time, for any input (Knuth, Morris,
// Pratt).
//
// Callers choose both strings, and a search in a database function is a single step that no
// deadline can interrupt.

import Foundation

/// A string to search for, as UTF-8.
package struct TextSearch {
    package let needle: [UInt8]
    /// For each prefix of the needle, the length of its longest proper suffix that is also a
    /// prefix.
    private let borders: [Int]

    package init(_ needle: String) {
        self.needle = Array(needle.utf8)
        borders = Self.borders(of: self.needle)
    }

    private static func borders(of needle: [UInt8]) -> [Int] {
        var borders = [Int](repeating: 0, count: needle.count)
        needle.withUnsafeBufferPointer { needle in
            var length = 0
            var index = 1
            while index < needle.count {
                if needle[index] == needle[length] {
                    length += 1
                    borders[index] = length
                    index += 1
                } else if length > 0 {
                    length = borders[length - 1]
                } else {
                    index += 1
                }
            }
        }
        return borders
    }

    /// Returns the offset of the first match that begins at `start` or later.
    ///
    /// The needle must not be empty.
    package func first(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard let base = text.baseAddress else { return nil }
        return needle.withUnsafeBufferPointer { needle in
            var index = start
            var matched = 0
            while index < text.count {
                if matched == 0 {
                    guard let hit = memchr(base + index, Int32(needle[0]), text.count - index)
                    else { return nil }
                    index = UnsafeRawPointer(hit) - UnsafeRawPointer(base)
                }
                if text[index] == needle[matched] {
                    matched += 1
                    index += 1
                    if matched == needle.count { return index - matched }
                } else {
                    matched = borders[matched - 1]
                }
            }
            return nil
        }
    }
}
