// ClientOperations: changes, pushes, pulls and reads of a client with a store file.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit

extension Operation {
    static let clientOperations = [
        Operation(name: "insert", count: 50, runs: 10) { directory in
            let device = try await MeasuredDevice<TodoItem>(in: directory, NoServer())
            return {
                // A checkpoint during the run would be counted, too.
                try await device.truncateLog()
                let items = (0..<50).map(TodoItem.init)
                return { for item in items { try await device.table.insert(item) } }
            }
        },
        Operation(name: "pushed-operation", count: 1000) { directory in
            let recording = RecordingTransport(try await makeServer().transport)
            let devices = Devices(in: directory)
            let prepare: @Sendable (any Transport) async throws -> Run = { transport in
                let device = try await devices.next(transport)
                try await device.insert(200)
                try await device.push(200)
                try await device.insert(1000)
                return { try await device.push(1000) }
            }
            try await prepare(recording)()
            return { try await prepare(recording.replay()) }
        },
        Operation(name: "pulled-row", count: 5000) { directory in
            let server = try await makeServer()
            let source = try await MeasuredDevice<TodoItem>(in: directory, server.transport)
            let recording = RecordingTransport(server.transport)
            let devices = Devices(in: directory)
            let first = try await devices.next(recording)
            try await source.insert(1000)
            try await source.push(1000)
            try await first.pull(1000)
            try await source.insert(5000)
            try await source.push(5000)
            try await first.pull(5000)
            return {
                let device = try await devices.next(recording.replay())
                try await device.pull(1000)
                return { try await device.pull(5000) }
            }
        },
        Operation(name: "decoded-record", count: 5000) { directory in
            let device = try await MeasuredDevice<TodoItem>(
                in: directory,
                try await makeServer().transport
            )
            try await device.insert(1000)
            try await device.push(1000)
            return { { try await device.read(1000, times: 5) } }
        },
        Operation(name: "decoded-unsent-record", count: 5000) { directory in
            let device = try await MeasuredDevice<TodoItem>(in: directory, NoServer())
            try await device.insert(1000)
            return { { try await device.read(1000, times: 5) } }
        },
        // The model lacks half of the columns.
        Operation(name: "decoded-narrow-record", count: 5000) { directory in
            let server = try await makeServer()
            let source = try await MeasuredDevice<TodoItem>(in: directory, server.transport)
            try await source.insert(1000)
            try await source.push(1000)
            let device = try await MeasuredDevice<TodoName>(in: directory, server.transport)
            try await device.pull(1000)
            return { { try await device.read(1000, times: 5) } }
        },
        Operation(name: "decoded-job", count: 5000) { directory in
            let device = try await MeasuredDevice<Job>(in: directory, NoServer())
            try await device.insert(1000)
            return { { try await device.read(1000, times: 5) } }
        },
        // In transactions of a thousand rows.
        Operation(name: "inserted-job", count: 1000) { directory in
            let device = try await MeasuredDevice<Job>(in: directory, NoServer())
            return {
                let jobs = (0..<1000).map(Job.init)
                return { _ = try await device.table.insert(jobs) }
            }
        },
    ]

    private static func makeServer() async throws -> InProcessServer {
        let fixed = FixedEnvironment()
        let columns = try RecordSchema.of(TodoItem.self).table.columns
        return try await InProcessServer(
            tables: [TableDefinition("TodoItem", columns: columns)],
            environment: ServerEnvironment(now: { fixed.now() }, makeID: { fixed.makeID() })
        )
    }
}

/// A record of which any number can be made.
protocol MeasuredRecord: SyncRecord {
    /// Makes a record; all numbers of up to four digits give records of the same size.
    init(number: Int)
}

/// A client with a store file, as an app has it.
struct MeasuredDevice<Record: MeasuredRecord>: Sendable {
    let table: SyncTable<Record>
    private let client: SyncClient
    private let store: SQLiteStore

    init(in directory: String, _ transport: any Transport) async throws {
        guard let endpoint = URL(string: "http://localhost") else {
            throw WrongResult("an invalid endpoint")
        }
        let fixed = FixedEnvironment()
        let environment = SyncEnvironment(
            // It stands still, so that the number of reads does not change a request.
            now: { Date(timeIntervalSince1970: Double(FixedEnvironment.start / 1_000_000)) },
            makeID: { fixed.makeID() },
            fraction: { 0.5 },
            sleep: { try await Task.sleep(for: $0) }
        )
        store = try SQLiteStore(path: "\(directory)/\(UUID().uuidString).sqlite")
        client = try await SyncClient.open(
            endpoint: endpoint,
            store: store,
            tables: [Record.self],
            transport: transport,
            environment: environment
        )
        table = try client.syncTable(Record.self)
    }

    func insert(_ count: Int) async throws {
        _ = try await table.insert((0..<count).map(Record.init))
    }

    func push(_ count: Int) async throws {
        let completed = try await client.syncContext.push().completed
        guard completed == count else { throw WrongResult("\(completed) of \(count) were pushed") }
    }

    func pull(_ count: Int) async throws {
        let applied = try await table.pull(queryID: "all").applied
        guard applied == count else { throw WrongResult("\(applied) of \(count) were pulled") }
    }

    func read(_ count: Int, times: Int) async throws {
        for _ in 0..<times {
            let found = try await table.read().count
            guard found == count else { throw WrongResult("\(found) records") }
        }
    }

    func close() async throws { try await store.close() }

    /// Copies the write-ahead log to the database and truncates it.
    func truncateLog() async throws {
        guard await store.checkpoint() else { throw WrongResult("the log is in use") }
    }
}

/// Devices of which one is open at a time, so that none works in the background of a run.
private actor Devices {
    private let directory: String
    private var device: MeasuredDevice<TodoItem>?

    init(in directory: String) { self.directory = directory }

    /// Closes the last device and opens another one.
    func next(_ transport: any Transport) async throws -> MeasuredDevice<TodoItem> {
        try await device?.close()
        let next = try await MeasuredDevice<TodoItem>(in: directory, transport)
        device = next
        return next
    }
}
