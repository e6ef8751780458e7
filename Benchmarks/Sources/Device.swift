// Device: a client with a store file, as an app has it, and what is measured of it.

import Foundation
import Tideline

struct TodoItem: SyncRecord {
    var id = ""
    var text: String
    var complete = false
    var updatedAt: Date?
}

struct Device {
    private let client: SyncClient
    private let todos: SyncTable<TodoItem>

    /// A new store in the directory; the server need not be there for local work.
    ///
    /// `delay`: the milliseconds of a round trip.
    static func open(
        in directory: String,
        server: String = "http://127.0.0.1:9",
        delay: Int = 0
    ) async throws
        -> Device
    {
        guard let endpoint = URL(string: server) else { throw URLError(.badURL) }
        let slow = delay > 0 ? SlowLink(CurlTransport(), .milliseconds(delay)) : nil
        let client = SyncClient(endpoint: endpoint, transport: slow)
        let store = try SQLiteStore(path: "\(directory)/\(UUID().uuidString).sqlite")
        try await client.syncContext.initialize(store: store, tables: [TodoItem.self])
        return Device(client: client, todos: try client.syncTable(TodoItem.self))
    }

    private static func item(_ number: Int) -> TodoItem {
        TodoItem(
            text: "item \(number) abcdefghijklmnopqrstuvwxyz",
            complete: number % 2 == 0
        )
    }

    // MARK: - Local work

    /// Each kind of work for this long, one call after the other.
    func measureChanges(for time: Duration) async throws {
        var ids: [String] = []
        try await measure("local: insert", time) { number in
            ids.append(try await todos.insert(Self.item(number)).id)
        }
        try await measure("local: update", time) { number in
            try await todos.update(id: ids[number % ids.count]) { $0.text += "!" }
        }
        try await measure("local: read by id", time) { number in
            _ = try await todos.read(id: ids[number % ids.count])
        }
        try await measure("local: read list of 50", time) { _ in
            _ = try await todos.read(where: { !$0.complete }, limit: 50)
        }
    }

    private func measure(
        _ name: String,
        _ time: Duration,
        _ work: (Int) async throws -> Void
    ) async throws {
        let start = ContinuousClock.now
        var count = 0
        while ContinuousClock.now - start < time {
            try await work(count)
            count += 1
        }
        Bench.report(name, Double(count) / (ContinuousClock.now - start).seconds, "ops/s")
    }

    // MARK: - Push and pull

    /// Sends so many inserts.
    func measurePush(_ count: Int, delay: Int) async throws {
        for number in 0..<count { try await todos.insert(Self.item(number)) }
        let before = Memory.kilobytes("VmHWM")
        let start = ContinuousClock.now
        let result = try await client.syncContext.push()
        let seconds = (ContinuousClock.now - start).seconds
        let name = "push: \(count) at \(delay) ms"
        Bench.report("\(name)", Double(result.completed) / seconds, "ops/s")
        Bench.report("\(name), time", seconds * 1000, "ms")
        Bench.report("\(name), memory more", (Memory.kilobytes("VmHWM") - before) / 1024, "MB")
    }

    /// Brings the whole table; the process is new, so its peak is that of the pull.
    func measurePull() async throws {
        let before = Memory.kilobytes("VmRSS")
        let start = ContinuousClock.now
        let result = try await todos.pull(queryID: "all")
        let seconds = (ContinuousClock.now - start).seconds
        let peak = Memory.kilobytes("VmHWM")
        let rows = try await todos.count()
        Bench.report("pull: rows stored", Double(rows) / seconds, "rows/s")
        Bench.report("pull: rows", Double(rows), "rows")
        Bench.report("pull: requests", Double(result.requests), "requests")
        Bench.report("pull: memory before", before / 1024, "MB")
        Bench.report("pull: memory at most", peak / 1024, "MB")
    }
}

/// A link whose round trip takes a time.
private struct SlowLink: Transport {
    private let inner: any Transport
    private let roundTrip: Duration

    init(_ inner: any Transport, _ roundTrip: Duration) {
        self.inner = inner
        self.roundTrip = roundTrip
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await Task.sleep(for: roundTrip)
        return try await inner.send(request)
    }
}

enum Memory {
    /// A line of this process's status; 0 where there is none.
    static func kilobytes(_ name: String) -> Double {
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix(name + ":") })
        else { return 0 }
        return line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Double($0) }
            ?? 0
    }
}
