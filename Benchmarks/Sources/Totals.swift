// Totals: sums and groups over many rows, compared with the same statements in plain SQLite.

import Foundation
import Tideline

/// A record with numbers to add and a text to group by.
struct WorkItem: SyncRecord {
    var id = ""
    var title: String
    var status: String
    var minutes: Int

    static func numbered(_ number: Int) -> WorkItem {
        WorkItem(
            title: "item \(number) abcdefghijklmnopqrstuvwxyz",
            status: ["open", "planned", "done", "cancelled"][number % 4],
            minutes: number % 480
        )
    }
}

struct Totals {
    let directory: String
    let rows: Int
    /// The time for each kind of work.
    let time: Duration

    func measure() async throws {
        let (client, store, path) = try await Device.client(in: directory, [WorkItem.self], nil)
        let items = try client.syncTable(WorkItem.self)
        for start in stride(from: 0, to: rows, by: 10_000) {
            try await items.insert((start..<min(rows, start + 10_000)).map(WorkItem.numbered))
        }
        let plain = try PlainDatabase(path)
        try await compare("sum", plain, #"SELECT NULL, sum("minutes") FROM "WorkItem""#) {
            [try await items.sum(\.minutes)]
        }
        let group = #"SELECT "status", count(*) FROM "WorkItem" GROUP BY 1"#
        try await compare("count by status", plain, group) {
            try await items.count(by: \.status).sorted { $0.key < $1.key }.map(\.value)
        }
        let sums = #"SELECT "status", sum("minutes") FROM "WorkItem" GROUP BY 1"#
        try await compare("sum by status", plain, sums) {
            try await items.sum(\.minutes, by: \.status).sorted { $0.key < $1.key }.map(\.value)
        }
        let condition = #"SELECT NULL, sum("minutes") FROM "WorkItem" WHERE "status" = 'done'"#
        try await compare("sum where done", plain, condition) {
            [try await items.sum(\.minutes, where: { $0.status == "done" })]
        }
        try await Device.remove(store, path)
    }

    /// Alternates between a call and the same statement in plain SQLite.
    private func compare(
        _ name: String,
        _ plain: PlainDatabase,
        _ sql: String,
        _ call: () async throws -> [Int]
    ) async throws {
        guard try await call() == plain.numbers(sql) else {
            throw BenchError("\(name): another result than SQLite")
        }
        var (ours, theirs, turns) = (0.0, 0.0, 0.0)
        let whole = Usage()
        while whole.seconds < time.seconds / 2 || turns < 3 {
            let usage = Usage()
            _ = try await call()
            ours += usage.seconds
            let other = Usage()
            _ = try plain.numbers(sql)
            theirs += other.seconds
            turns += 1
        }
        Bench.report("read: \(name) of \(rows)", ours / turns * 1e3, "ms")
        Bench.report("read: \(name) of \(rows), SQLite", theirs / turns * 1e3, "ms")
        Bench.report("read: \(name) of \(rows), times SQLite", ours / theirs, "x")
    }
}
