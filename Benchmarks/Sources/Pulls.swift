// Pulls: pulls of a table into a store file, compared with inserts of the same rows in plain SQLite.

import Foundation
import Tideline

struct Pulls {
    let directory: String
    let name: String

    /// Pulls into an empty store, and then inserts the same rows into an empty SQLite file.
    func measure(_ device: Device) async throws {
        let usage = Usage()
        let result = try await device.todos.pull(queryID: "all")
        let (seconds, processor) = (usage.seconds, usage.processorSeconds)
        let rows = Double(result.applied)
        Bench.report("\(name): rows stored", rows / seconds, "rows/s")
        Bench.report("\(name): processor time", processor / rows * 1e6, "us/row")
        Bench.report("\(name): requests", Double(result.requests), "requests")
        let plain = try plainSeconds(device)
        Bench.report("\(name): SQLite alone", rows / plain.seconds, "rows/s")
        Bench.report("\(name): SQLite, processor time", plain.processor / rows * 1e6, "us/row")
        Bench.report("\(name): time, times SQLite", seconds / plain.seconds, "x")
        try await device.remove()
    }

    /// The rows in one transaction of plain SQLite: as many as in the largest page.
    private static let rowsAtOnce = 4000

    private func plainSeconds(_ device: Device) throws -> (seconds: Double, processor: Double) {
        let source = try PlainDatabase(device.path)
        let rows = try source.rows(of: "TodoItem")
        let path = "\(directory)/\(UUID().uuidString).plain"
        let plain = try PlainDatabase(path)
        try plain.makeTables(like: source, named: ["TodoItem"])
        let insert = try plain.insert(into: "TodoItem", columns: rows.columns)
        let usage = Usage()
        for start in stride(from: 0, to: rows.count, by: Self.rowsAtOnce) {
            try plain.execute("BEGIN IMMEDIATE")
            try rows.insert(start..<min(rows.count, start + Self.rowsAtOnce), by: insert)
            try plain.execute("COMMIT")
        }
        return (usage.seconds, usage.processorSeconds)
    }

    /// Measures the peak memory of a pull.
    func measureMemory(_ device: Device) async throws {
        let before = Memory.megabytes()
        var rows = 0
        let most = try await Memory.most {
            rows = try await device.todos.pull(queryID: "all").applied
        }
        Bench.report("\(name): rows", Double(rows), "rows")
        Bench.report("\(name): memory before", before, "MB PSS")
        Bench.report("\(name): memory at most", most, "MB PSS")
        try await device.remove()
    }
}
