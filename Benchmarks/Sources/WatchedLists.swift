// WatchedLists: a hundred observed lists of one table, and the time until a change is shown.

import Foundation
import Synchronization
import Tideline

struct WatchedLists {
    let directory: String
    /// The time for each kind of work.
    let time: Duration

    private static let lists = 100
    private static let rows = 10_000

    /// The number of values that each list has shown.
    private final class Shown: Sendable {
        private let state = Mutex<[Int]>(Array(repeating: 0, count: lists))

        var counts: [Int] { state.withLock { $0 } }

        func add(_ list: Int) { state.withLock { $0[list] += 1 } }

        /// Waits until all lists but the first have shown this number of values.
        func wait(for count: Int) async throws {
            while counts.dropFirst().contains(where: { $0 < count }) {
                try await Task.sleep(for: .microseconds(200))
            }
        }
    }

    func measure() async throws {
        let (client, store, path) = try await Device.client(in: directory, [Job.self], nil)
        let table = try client.syncTable(Job.self)
        let jobs = (0..<Self.rows).map { number in
            var job = Job.numbered(number)
            job.customerID = "customer \(number % Self.lists)"
            return job
        }
        try await table.insert(jobs)
        let shown = Shown()
        let others = Task {
            try await withThrowingTaskGroup { group in
                for list in 1..<Self.lists {
                    let customer = "customer \(list)"
                    let values = table.observe(
                        where: { $0.customerID == customer },
                        sortedBy: [.ascending(\.title)]
                    )
                    group.addTask { for try await _ in values { shown.add(list) } }
                }
                try await group.waitForAll()
            }
        }
        var first = table.observe(
            where: { $0.customerID == "customer 0" },
            sortedBy: [.ascending(\.title)]
        ).makeAsyncIterator()
        _ = try await first.next()
        try await shown.wait(for: 1)
        for rest in [Duration.milliseconds(30), nil] {
            var (changing, all, processor, turns) = (0.0, 0.0, 0.0, 0)
            let whole = Usage()
            while whole.seconds < time.seconds || turns < 3 {
                let usage = Usage()
                let id = jobs[turns * Self.lists % jobs.count].id
                try await table.update(id: id) { $0.minutes += 1 }
                changing += usage.seconds
                _ = try await first.next()
                all += usage.seconds
                processor += usage.processorSeconds
                turns += 1
                if let rest { try await Task.sleep(for: rest) }
            }
            let (count, name) = (Double(turns), rest == nil ? "back to back" : "after a rest")
            Bench.report("watched: a row of 1 of 100 lists, \(name)", all / count * 1e3, "ms")
            Bench.report("watched: the change alone, \(name)", changing / count * 1e3, "ms")
            Bench.report("watched: CPU, \(name)", processor / count * 1e3, "ms")
        }
        let (usage, before) = (Usage(), shown.counts.dropFirst().min() ?? 0)
        try await client.syncContext.transaction { transaction in
            let table = try transaction.table(Job.self)
            for list in 0..<Self.lists { try table.update(id: jobs[list].id) { $0.minutes += 1 } }
        }
        _ = try await first.next()
        try await shown.wait(for: before + 1)
        Bench.report("watched: a row of each of 100 lists", usage.seconds * 1e3, "ms")
        Bench.report("watched: CPU, a row of each", usage.processorSeconds * 1e3, "ms")
        others.cancel()
        try await Device.remove(store, path)
    }
}
