// TwoDevices: how soon a change of one client is seen by another one that observes its list.

import Foundation
import Tideline

struct TwoDevices {
    let server: String
    let directory: String

    /// The time from a push to the value that the other one's observer gets.
    func measure(changes: Int) async throws {
        let writer = try await Device.open(in: directory, server: server)
        let reader = try await Device.open(in: directory, server: server)
        try reader.client.startSyncing()
        let seen = AsyncStream<String>.makeStream()
        let watch = Task {
            for try await items in reader.todos.observe(sortedBy: [.descending(\.text)], limit: 1) {
                if let item = items.first { seen.continuation.yield(item.text) }
            }
        }
        var texts = seen.stream.makeAsyncIterator()
        var times: [Double] = []
        // Behind what an earlier run left in the table.
        let first = Int(Date().timeIntervalSince1970) * 1000
        for number in 0..<changes {
            let item = TodoItem.numbered(first + number)
            try await writer.todos.insert(item)
            // The first changes find streams that are being opened.
            let start = ContinuousClock.now
            try await writer.client.syncContext.push()
            while let text = await texts.next(), text != item.text {}
            if number >= changes / 10 { times.append((ContinuousClock.now - start).seconds) }
            try await Task.sleep(for: .milliseconds(20))
        }
        watch.cancel()
        reader.client.stopSyncing()
        times.sort()
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let place = min(times.count - 1, Int(Double(times.count) * share))
            Bench.report("live: push to observer \(name)", times[place] * 1000, "ms")
        }
    }
}
