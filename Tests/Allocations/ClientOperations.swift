// ClientOperations: changes, pushes, pulls and reads of a client with a store file.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit

extension Operation {
    static let clientOperations = [
        // About a hundred inserts fill the WAL up to its next checkpoint.
        Operation(name: "insert", count: 25, runs: 40) { directory in
            let device = try await MeasuredDevice(in: directory, NoServer())
            return {
                let items = (0..<25).map(TodoItem.init)
                return { for item in items { try await device.todos.insert(item) } }
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
            let source = try await MeasuredDevice(in: directory, server.transport)
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
            let device = try await MeasuredDevice(in: directory, try await makeServer().transport)
            try await device.insert(1000)
            try await device.push(1000)
            return {
                {
                    for _ in 0..<5 {
                        let count = try await device.todos.read().count
                        guard count == 1000 else { throw WrongResult("\(count) records") }
                    }
                }
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

/// A client with a store file, as an app has it.
struct MeasuredDevice: Sendable {
    let todos: SyncTable<TodoItem>
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
            tables: [TodoItem.self],
            transport: transport,
            environment: environment
        )
        todos = try client.syncTable(TodoItem.self)
    }

    func insert(_ count: Int) async throws {
        try await todos.insert((0..<count).map(TodoItem.init))
    }

    func push(_ count: Int) async throws {
        let completed = try await client.syncContext.push().completed
        guard completed == count else { throw WrongResult("\(completed) of \(count) were pushed") }
    }

    func pull(_ count: Int) async throws {
        let applied = try await todos.pull(queryID: "all").applied
        guard applied == count else { throw WrongResult("\(applied) of \(count) were pulled") }
    }

    func close() async throws { try await store.close() }
}

/// Devices of which one is open at a time, so that none works in the background of a run.
private actor Devices {
    private let directory: String
    private var device: MeasuredDevice?

    init(in directory: String) { self.directory = directory }

    /// Closes the last device and opens another one.
    func next(_ transport: any Transport) async throws -> MeasuredDevice {
        try await device?.close()
        let next = try await MeasuredDevice(in: directory, transport)
        device = next
        return next
    }
}
