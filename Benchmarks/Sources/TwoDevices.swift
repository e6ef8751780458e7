// TwoDevices: measures how soon a client that observes a list sees a change of another client.

import Foundation
import Synchronization
import Tideline

struct TwoDevices {
    let server: String
    let directory: String

    /// The times at which each step first happened, since the push began.
    private final class Steps: Sendable {
        static let names = ["push returns", "pull starts", "page is stored", "observer has it"]

        private let state = Mutex<(start: ContinuousClock.Instant, seconds: [String: Double])>(
            (.now, [:])
        )

        func begin() { state.withLock { $0 = (.now, [:]) } }

        func reached(_ name: String) {
            state.withLock { state in
                guard state.seconds[name] == nil else { return }
                state.seconds[name] = (ContinuousClock.now - state.start).seconds
            }
        }

        func seconds(_ name: String) -> Double? { state.withLock { $0.seconds[name] } }
    }

    /// Measures the time from a push to the other client's observed value, and to each step before it.
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
        let steps = Steps()
        let listening = Task {
            for await event in reader.client.syncContext.events {
                switch event.kind {
                case .pullStarted: steps.reached("pull starts")
                case .pageApplied where event.applied ?? 0 > 0: steps.reached("page is stored")
                default: break
                }
            }
        }
        var texts = seen.stream.makeAsyncIterator()
        var times: [String: [Double]] = [:]
        // Start after the rows that an earlier run left in the table.
        let first = Int(Date().timeIntervalSince1970) * 1000
        for number in 0..<changes {
            let item = TodoItem.numbered(first + number)
            try await writer.todos.insert(item)
            // The streams are not open yet during the first changes.
            steps.begin()
            async let push: Void = {
                try await writer.client.syncContext.push()
                steps.reached("push returns")
            }()
            while let text = await texts.next(), text != item.text {}
            steps.reached("observer has it")
            try await push
            if number >= changes / 10 {
                for name in Steps.names {
                    if let seconds = steps.seconds(name) {
                        times[name, default: []].append(seconds)
                    }
                }
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        watch.cancel()
        listening.cancel()
        reader.client.stopSyncing()
        for step in Steps.names {
            guard let sorted = times[step]?.sorted() else { continue }
            for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
                let place = min(sorted.count - 1, Int(Double(sorted.count) * share))
                Bench.report("live: push to '\(step)' \(name)", sorted[place] * 1000, "ms")
            }
        }
    }
}
