// WorldDatabase: restores the server from backups.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

/// The server of a simulation with a database file that can be restored from a backup.
final class WorldDatabase: Transport {
    /// Starts a server with a table store.
    typealias Start = @Sendable (any TableStore) async throws -> InProcessServer

    private struct State {
        var transport: InProcessTransport
        var file: String
        var backup: String?
        /// The number of database files so far.
        var count = 0
        /// The event streams, which end with the server.
        var streams: [Int: AsyncThrowingStream<[UInt8], any Error>.Continuation] = [:]
        var lastStream = 0
    }

    private let directory: URL
    private let time: VirtualTime
    private let start: Start
    private let state: Mutex<State>

    init(_ time: VirtualTime, _ start: @escaping Start) async throws {
        let directory = try WorldDisk.makeDirectory()
        self.directory = directory
        self.time = time
        self.start = start
        let file = directory.appending(path: "server.db").path()
        let server = try await start(try Self.store(file, time))
        state = Mutex(State(transport: server.transport, file: file))
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    private static func store(_ file: String, _ time: VirtualTime) throws -> SQLiteTableStore {
        var options = SQLiteTableStore.Options()
        options.inline = true
        options.now = { time.now }
        return try SQLiteTableStore(path: file, options: options)
    }

    /// Copies the database.
    func backUp() throws {
        try state.withLock { state in
            state.count += 1
            let backup = directory.appending(path: "backup-\(state.count).db").path()
            try Self.copy(state.file, to: backup)
            state.backup = backup
        }
    }

    /// Continues with the backup, which simulates `tideline restore`.
    func restore() async throws {
        let file = try state.withLock { state -> String? in
            guard let backup = state.backup else { return nil }
            state.count += 1
            let file = directory.appending(path: "server-\(state.count).db").path()
            try Self.copy(backup, to: file)
            return file
        }
        guard let file else { return }
        _ = try DatabaseMaintenance(path: file).renewEpoch()
        let server = try await start(try Self.store(file, time))
        let streams = state.withLock { state in
            (state.transport, state.file) = (server.transport, file)
            defer { state.streams = [:] }
            return state.streams.sorted { $0.key < $1.key }
        }
        for (_, stream) in streams { stream.finish() }
    }

    private static func copy(_ source: String, to target: String) throws {
        for end in ["", "-wal"] where FileManager.default.fileExists(atPath: source + end) {
            try FileManager.default.copyItem(atPath: source + end, toPath: target + end)
        }
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await state.withLock { $0.transport }.send(request)
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        var stream = try await state.withLock { $0.transport }.stream(request)
        let (bytes, continuation) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let source = stream.bytes
        let id = state.withLock { state in
            state.lastStream += 1
            state.streams[state.lastStream] = continuation
            return state.lastStream
        }
        let forwarding = time.start {
            do {
                for try await piece in source { continuation.yield(piece) }
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        continuation.onTermination = { [weak self] _ in
            forwarding.cancel()
            self?.forget(id)
        }
        stream.bytes = bytes
        return stream
    }

    private func forget(_ stream: Int) {
        state.withLock { _ = $0.streams.removeValue(forKey: stream) }
    }
}
