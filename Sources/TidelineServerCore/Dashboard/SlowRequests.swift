// SlowRequests: slow requests for the dashboard.

import Synchronization
import TidelineCore

/// The last requests that took long, without their contents.
package final class SlowRequests: Sendable {
    struct Entry: Sendable {
        var time: Int64
        var id: String
        var method: String
        var path: String
        /// The query with its literals replaced.
        var query: String
        var status: Int
        var microseconds: Int64
    }

    /// The maximum number of bytes of a string in an entry.
    private static let bytesMax = 256

    private let countMax: Int
    private let microsecondsMin: Int64
    private let entries = Mutex<[Entry]>([])

    /// Creates a list of requests that take at least `microsecondsMin`.
    package init(countMax: Int = 100, microsecondsMin: Int64 = 250_000) {
        self.countMax = countMax
        self.microsecondsMin = microsecondsMin
    }

    func note(_ request: ServerRequest, status: Int, microseconds: Int64, at now: Int64) {
        guard microseconds >= microsecondsMin, countMax > 0 else { return }
        let entry = Entry(
            time: now,
            id: UTF8Text.prefix(request.id, bytesMax: Self.bytesMax),
            method: UTF8Text.prefix(request.method, bytesMax: Self.bytesMax),
            path: UTF8Text.prefix(request.path, bytesMax: Self.bytesMax),
            query: Self.shape(of: request.query),
            status: status,
            microseconds: microseconds
        )
        entries.withLock { entries in
            if entries.count >= countMax { entries.removeFirst(entries.count - countMax + 1) }
            entries.append(entry)
        }
    }

    /// The requests, beginning with the last one.
    var all: [Entry] { entries.withLock { $0 }.reversed() }

    /// Returns a query with '…' for every string and # for every number.
    package static func shape(of query: String) -> String {
        let start = UTF8Text.prefix(query, bytesMax: 4 * bytesMax).replacing("+", with: " ")
        let text = Array(start.utf8).withUnsafeBufferPointer { PercentCoding.decode($0) } ?? start
        var shape = ""
        var isInText = false
        var isInWord = false
        for character in text {
            if character == "'" {
                shape += isInText ? "…'" : "'"
                isInText.toggle()
            } else if !isInText {
                if character.isNumber, !isInWord {
                    if shape.last != "#" { shape.append("#") }
                } else {
                    shape.append(character)
                    isInWord = character.isLetter || isInWord && character.isNumber
                }
            }
        }
        return UTF8Text.prefix(isInText ? shape + "…" : shape, bytesMax: bytesMax)
    }
}
