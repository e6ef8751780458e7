// LocalWork: writes and reads of a store file, compared with the same writes in plain SQLite.

import Foundation
import Tideline

struct LocalWork {
    let directory: String
    /// The time for each kind of work.
    let time: Duration

    func measure() async throws {
        try await measureCalls()
        try await measureWatched()
        try await WatchedLists(directory: directory, time: time).measure()
        try await compareInserts()
        try await compareManyInserts()
        try await measureReading()
        try await compareLists()
    }

    /// Measures one call at a time.
    private func measureCalls() async throws {
        let device = try await Device.open(in: directory)
        let todos = device.todos
        var ids: [String] = []
        try await rate("local: insert") { number in
            ids.append(try await todos.insert(.numbered(number)).id)
        }
        try await rate("local: update") { number in
            try await todos.update(id: ids[number % ids.count]) { $0.text += "!" }
        }
        try await rate("local: read by id") { number in
            _ = try await todos.read(id: ids[number % ids.count])
        }
        try await rate("local: read list of 50") { _ in
            _ = try await todos.read(where: { !$0.complete }, limit: 50)
        }
        try await device.remove()
    }

    /// Measures inserts while a hundred lists are observed, of which an insert changes none or one.
    private func measureWatched() async throws {
        let device = try await Device.open(in: directory)
        let todos = device.todos
        let watchers = Task {
            try await withThrowingTaskGroup { group in
                for number in 0..<100 {
                    let text = "item \(number)"
                    group.addTask {
                        for try await _ in todos.observe(where: { $0.text == text }) {}
                    }
                }
                try await group.waitForAll()
            }
        }
        try await rate("local: insert with 100 observers") { number in
            try await todos.insert(.numbered(number))
        }
        watchers.cancel()
        try await device.remove()
    }

    private func rate(_ name: String, _ work: (Int) async throws -> Void) async throws {
        let usage = Usage()
        var count = 0
        while usage.seconds < time.seconds {
            try await work(count)
            count += 1
        }
        Bench.report(name, Double(count) / usage.seconds, "ops/s")
    }

    // MARK: - Compared with SQLite

    private static let tables = ["TodoItem", "MS_TableOperations"]

    /// Returns the rows that this number of inserts adds to the store and its queue.
    private func recorded(_ count: Int) async throws -> (Device, [PlainRows]) {
        let device = try await Device.open(in: directory)
        try await device.todos.insert((0..<count).map(TodoItem.numbered))
        let file = try PlainDatabase(device.path)
        return (device, try Self.tables.map(file.rows))
    }

    /// Returns an empty file with the tables of a device.
    private func plainFile(like device: Device) throws -> PlainDatabase {
        let plain = try PlainDatabase("\(directory)/\(UUID().uuidString).plain")
        try plain.makeTables(like: try PlainDatabase(device.path), named: Self.tables)
        return plain
    }

    /// Compares single inserts, each in a transaction with its operation in the queue, in turns of a hundred.
    private func compareInserts() async throws {
        let count = 2000
        let (recorder, rows) = try await recorded(count)
        let device = try await Device.open(in: directory)
        let plain = try plainFile(like: recorder)
        let statements = try zip(Self.tables, rows).map {
            try plain.insert(into: $0, columns: $1.columns)
        }
        var (ours, theirs) = (0.0, 0.0)
        for turn in 0..<count / 100 {
            let usage = Usage()
            for number in turn * 100..<turn * 100 + 100 {
                try await device.todos.insert(.numbered(number))
            }
            ours += usage.seconds
            let other = Usage()
            for number in turn * 100..<turn * 100 + 100 {
                try plain.execute("BEGIN IMMEDIATE")
                for (rows, statement) in zip(rows, statements) {
                    try rows.insert(number..<number + 1, by: statement)
                }
                try plain.execute("COMMIT")
            }
            theirs += other.seconds
        }
        Bench.report("local: one insert", ours / Double(count) * 1e6, "us")
        Bench.report("local: one insert, SQLite", theirs / Double(count) * 1e6, "us")
        Bench.report("local: one insert, times SQLite", ours / theirs, "x")
        try await recorder.remove()
        try await device.remove()
    }

    /// Compares ten thousand inserts in one transaction.
    private func compareManyInserts() async throws {
        let count = 10_000
        let (recorder, rows) = try await recorded(count)
        let device = try await Device.open(in: directory)
        // Warm up: prepares the statements of both and loads their code into memory.
        try await device.todos.insert((0..<100).map(TodoItem.numbered))
        let items = (0..<count).map(TodoItem.numbered)
        let usage = Usage()
        try await device.todos.insert(items)
        let ours = usage.seconds
        let plain = try plainFile(like: recorder)
        let other = Usage()
        try plain.execute("BEGIN IMMEDIATE")
        for (table, rows) in zip(Self.tables, rows) {
            try rows.insert(
                0..<count,
                by: try plain.insert(into: table, columns: rows.columns)
            )
        }
        try plain.execute("COMMIT")
        let theirs = other.seconds
        Bench.report("local: insert 10,000 at once", ours / Double(count) * 1e6, "us/row")
        Bench.report("local: the same, SQLite", theirs / Double(count) * 1e6, "us/row")
        Bench.report("local: the same, times SQLite", ours / theirs, "x")
        try await recorder.remove()
        try await device.remove()
    }

    // MARK: - Reading

    private func measureReading() async throws {
        let device = try await Device.filled(10_000, in: directory)
        let each = try await microseconds { _ = try await device.todos.read() }
        Bench.report("local: read and decode", each / 10_000, "us/row")
        try await device.remove()
        try await measureReading(HalfItem.self, "half of the columns")
        try await measureReading(UntimedItem.self, "without updatedAt")
    }

    /// Measures a model that does not have all columns of its table.
    private func measureReading(_ model: (some SyncRecord).Type, _ name: String) async throws {
        let rows = CannedTable(rows: 10_000, .v7)
        let (client, store, path) = try await Device.client(in: directory, [model], rows)
        let table = try client.syncTable(model)
        try await table.pull(queryID: "all")
        let each = try await microseconds { _ = try await table.read() }
        Bench.report("local: the same, \(name)", each / 10_000, "us/row")
        try await Device.remove(store, path)
    }

    /// Compares lists of a thousand rows, with and without a row that is not pushed yet.
    private func compareLists() async throws {
        let device = try await Device.filled(1000, in: directory)
        let pushed = try await microseconds { _ = try await device.todos.read() }
        try await device.todos.insert(.numbered(1))
        let unpushed = try await microseconds { _ = try await device.todos.read() }
        Bench.report("local: list of 1,000", pushed, "us")
        Bench.report("local: list with one un-pushed row", unpushed, "us")
        Bench.report("local: list, un-pushed / pushed", unpushed / pushed, "x")
        try await device.remove()
    }

    private func microseconds(_ work: () async throws -> Void) async throws -> Double {
        try await work()
        let usage = Usage()
        var count = 0.0
        while usage.seconds < time.seconds {
            try await work()
            count += 1
        }
        return usage.seconds / count * 1e6
    }
}
