// Reads: large lists compared with plain SQLite, observed lists, and the opening of a store.

import Foundation
import Synchronization
import Tideline

struct Reads {
    let directory: String
    /// The rows of the long list and of the store that is opened.
    let rows: Int
    /// The time for each kind of work.
    let time: Duration

    func measure() async throws {
        let device = try await Device.filled(rows, in: directory)
        try await compareLists(device)
        try await compareOpening(device)
        try await device.remove()
        try await Jobs(directory: directory, rows: rows, time: time).measure()
        try await Totals(directory: directory, rows: rows, time: time).measure()
        try await measureWatchedList()
        try await measureObservers("that it does not reach", reach: false)
        try await measureObservers("that it reaches", reach: true)
    }

    // MARK: - Lists

    /// Reads all records, alternating with the same read in plain SQLite.
    private func compareLists(_ device: Device) async throws {
        let plain = try PlainDatabase(device.path)
        let name = "read: list of \(rows)"
        _ = try await device.todos.read(where: { !$0.complete }, limit: 1)
        let before = Memory.megabytes()
        var held: [TodoItem] = []
        let most = try await Memory.most { held = try await device.todos.read() }
        guard held.count == rows else { throw BenchError("\(held.count) rows were read") }
        held = []
        var (ours, theirs, turns) = (0.0, 0.0, 0.0)
        let whole = Usage()
        while whole.seconds < time.seconds || turns < 3 {
            let usage = Usage()
            let read = try await device.todos.read().count
            ours += usage.seconds
            let other = Usage()
            let alone = try plain.items().count
            theirs += other.seconds
            guard read == alone else { throw BenchError("\(read) rows, \(alone) in SQLite") }
            turns += 1
        }
        Bench.report(name, ours / turns / Double(rows) * 1e6, "us/row")
        Bench.report("\(name), SQLite", theirs / turns / Double(rows) * 1e6, "us/row")
        Bench.report("\(name), times SQLite", ours / theirs, "x")
        Bench.report("\(name), memory before", before, "MB PSS")
        Bench.report("\(name), memory at most", most, "MB PSS")
    }

    /// Measures the time from opening a closed store to its first row.
    private func compareOpening(_ device: Device) async throws {
        try await device.store.close()
        var (ours, theirs, turns) = (0.0, 0.0, 0.0)
        let whole = Usage()
        while whole.seconds < time.seconds / 4 || turns < 10 {
            let usage = Usage()
            let again = try await Device.open(at: device.path)
            _ = try await again.todos.read(where: { !$0.complete }, limit: 1)
            ours += usage.seconds
            try await again.store.close()
            let other = Usage()
            let plain = try PlainDatabase(device.path)
            _ = try plain.items(limit: 1)
            theirs += other.seconds
            turns += 1
        }
        Bench.report("read: open a store of \(rows)", ours / turns * 1e3, "ms")
        Bench.report("read: open it, SQLite", theirs / turns * 1e3, "ms")
        Bench.report("read: open it, times SQLite", ours / theirs, "x")
    }

    // MARK: - Observed lists

    /// Observes a list of a thousand rows while ten of them change every 10 ms.
    ///
    /// The same changes without an observer show the cost of observing.
    private func measureWatchedList() async throws {
        let device = try await Device.filled(1000, in: directory)
        let items = try await device.todos.read()
        let alone = try await changes(of: items, device)
        let runs = Count()
        let watcher = Task {
            for try await list in device.todos.observe() where list.count == items.count {
                runs.add()
            }
        }
        try await wait { runs.value > 0 }
        runs.reset()
        let watched = try await changes(of: items, device)
        watcher.cancel()
        let cost = (watched.processor - alone.processor) / watched.seconds
        let lists = Double(runs.value)
        Bench.report("read: watched list, changes", watched.count / watched.seconds, "rows/s")
        Bench.report("read: watched list, runs", lists / watched.seconds, "runs/s")
        Bench.report("read: watched list, of a core", cost * 100, "%")
        Bench.report("read: the changes alone, of a core", alone.share * 100, "%")
        Bench.report("read: watched list, one run", cost * watched.seconds / lists * 1e6, "us")
        try await device.remove()
    }

    fileprivate struct Changes {
        var count = 0.0
        var seconds = 0.0
        var processor = 0.0
        var share: Double { processor / seconds }
    }

    private func changes(of items: [TodoItem], _ device: Device) async throws -> Changes {
        let usage = Usage()
        var (place, changes) = (0, Changes())
        while usage.seconds < time.seconds {
            let next = changes.count / 1000
            if next > usage.seconds { try await Task.sleep(for: .seconds(next - usage.seconds)) }
            var some: [TodoItem] = []
            for _ in 0..<10 {
                var item = items[place % items.count]
                item.text = "changed \(place) abcdefghijklmnopqrstuvwxyz"
                some.append(item)
                place += 1
            }
            try await device.todos.update(some)
            changes.count += 10
        }
        changes.seconds = usage.seconds
        changes.processor = usage.processorSeconds
        return changes
    }

    /// Waits until the observers have received their first lists.
    private func wait(until isDone: () -> Bool) async throws {
        for _ in 0..<60_000 {
            if isDone() { return }
            try await Task.sleep(for: .milliseconds(1))
        }
        throw BenchError("no list was shown within a minute")
    }

    /// Compares inserts while a hundred lists are observed, which an insert does or does not affect, with
    /// inserts without observers.
    private func measureObservers(_ name: String, reach: Bool) async throws {
        let device = try await Device.filled(1000, in: directory)
        let ready = Count()
        let watchers = Task {
            try await withThrowingTaskGroup { group in
                for number in 0..<100 {
                    group.addTask {
                        let texts = "item \(number)"
                        let lists = device.todos.observe(
                            where: { reach ? $0.text > texts : $0.text == texts },
                            sortedBy: [.descending(\.text)],
                            limit: 50
                        )
                        var isFirst = true
                        for try await _ in lists {
                            if isFirst { ready.add() }
                            isFirst = false
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        try await wait { ready.value == 100 }
        let watched = try await inserts(device)
        watchers.cancel()
        _ = await watchers.result
        let alone = try await inserts(device)
        let label = "read: insert, 100 lists \(name)"
        Bench.report(label, watched.seconds / watched.count * 1e3, "ms")
        Bench.report("\(label), beyond none", 1e3 * watched.cost(beyond: alone), "ms")
        Bench.report(
            "\(label), CPU beyond none",
            (watched.processor / watched.count - alone.processor / alone.count) * 1e3,
            "ms"
        )
        try await device.remove()
    }

    private func inserts(_ device: Device) async throws -> Changes {
        let usage = Usage()
        var changes = Changes()
        while usage.seconds < time.seconds / 2 {
            try await device.todos.insert(.numbered(Int(changes.count)))
            changes.count += 1
        }
        changes.seconds = usage.seconds
        changes.processor = usage.processorSeconds
        return changes
    }
}

/// A counter that several tasks increment.
private final class Count: Sendable {
    private let state = Mutex(0)

    var value: Int { state.withLock { $0 } }

    func add() { state.withLock { $0 += 1 } }

    func reset() { state.withLock { $0 = 0 } }
}

extension Reads.Changes {
    /// Returns how much longer one of these changes takes than one of `others`.
    fileprivate func cost(beyond others: Reads.Changes) -> Double {
        seconds / count - others.seconds / others.count
    }
}
