// Histogram: counts by bucket.
//
// Adding takes no lock: two atomic additions and the search for the bucket. Buckets are read one after
// another, so a reading may be inconsistent by one addition.

import TidelineCore

/// The distribution of a measured quantity, in the format that Prometheus reads.
package final class Histogram: Sendable {
    package typealias Counter = ServerTraffic.Counter

    /// The counts at one moment.
    package struct Reading: Sendable {
        /// One count for each bound, and one above the last.
        package var counts: [Int]
        package var sum: Int

        package var total: Int { counts.reduce(0, +) }

        package static func + (left: Reading, right: Reading) -> Reading {
            Reading(
                counts: zip(left.counts, right.counts).map { $0 + $1 },
                sum: left.sum + right.sum
            )
        }
    }

    /// The upper bounds of the buckets of a histogram of times, in microseconds.
    package static let times = [
        100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
        10_000_000,
    ]

    /// The upper bounds of the buckets of a histogram of counts.
    package static let sizes = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000]

    private let bounds: [Int]
    private let parts: [Counter]
    private let sum = Counter()

    package init(bounds: [Int] = Histogram.times) {
        self.bounds = bounds
        parts = (0...bounds.count).map { _ in Counter() }
    }

    package func add(_ value: Int) {
        parts[bounds.firstIndex { value <= $0 } ?? bounds.count].add()
        sum.add(value)
    }

    /// Adds a time as microseconds, from two uptimes in nanoseconds.
    package func add(from start: UInt64, to end: UInt64) {
        add(Int(clamping: (end - min(start, end)) / 1000))
    }

    package var reading: Reading {
        Reading(counts: parts.map(\.current), sum: sum.current)
    }
}

extension Histogram.Reading {
    /// A reading without any counts.
    static func empty(_ bounds: [Int]) -> Histogram.Reading {
        Histogram.Reading(counts: Array(repeating: 0, count: bounds.count + 1), sum: 0)
    }

    /// Writes the lines of one series: `label` is `name="value"`, or empty.
    ///
    /// Times are stored as microseconds and written as seconds.
    func write(
        _ writer: inout JSONWriter,
        _ name: String,
        label: String = "",
        bounds: [Int],
        isTime: Bool
    ) {
        let comma = label.isEmpty ? "" : ","
        var count = 0
        for (bound, part) in zip(bounds, counts) {
            count += part
            let text = isTime ? "\(Double(bound) / 1_000_000)" : "\(bound)"
            writer.raw("\(name)_bucket{\(label)\(comma)le=\"\(text)\"} \(count)\n")
        }
        writer.raw("\(name)_bucket{\(label)\(comma)le=\"+Inf\"} \(total)\n")
        let braces = label.isEmpty ? "" : "{\(label)}"
        let all = isTime ? "\(Double(sum) / 1_000_000)" : "\(sum)"
        writer.raw("\(name)_sum\(braces) \(all)\n\(name)_count\(braces) \(total)\n")
    }
}
