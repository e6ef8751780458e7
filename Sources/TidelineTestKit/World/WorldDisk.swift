// WorldDisk: where a device of a world keeps its store, and the line that ends with its app.

import Foundation
import Synchronization
import Tideline

/// A disk; one of files is a directory of its own, which goes with the disk.
final class WorldDisk: Sendable {
    private struct State {
        var store: (any LocalStore)?
        var copies = 0
    }

    private let directory: URL?
    private let state: Mutex<State>

    init(_ kind: WorldPlan.Disk) throws {
        switch kind {
        case .memory:
            directory = nil
            state = Mutex(State(store: MemoryStore()))
        case .sqlite:
            directory = nil
            state = Mutex(State(store: try SQLiteStore(path: ":memory:", inline: true)))
        case .file:
            let directory = Self.place.appending(path: "tideline-world-" + UUID().uuidString)
            try FileManager.default.createDirectory(
                at: directory,
                withIntermediateDirectories: true
            )
            self.directory = directory
            state = Mutex(State())
        }
    }

    deinit {
        if let directory { try? FileManager.default.removeItem(at: directory) }
    }

    /// Memory, where the machine has a directory in it: each commit waits for the disk.
    private static let place: URL = {
        let memory = "/dev/shm"
        return FileManager.default.isWritableFile(atPath: memory)
            ? URL(filePath: memory) : FileManager.default.temporaryDirectory
    }()

    var isFile: Bool { directory != nil }

    /// The store; that of a file is opened when it is asked for first.
    func store() throws -> any LocalStore {
        try state.withLock { state in
            if let store = state.store { return store }
            let store = try SQLiteStore(path: path(state.copies), inline: true)
            state.store = store
            return store
        }
    }

    /// From now on the store is a copy of the file and its log, as they lie there.
    func copy() throws {
        try state.withLock { state in
            for suffix in ["", "-wal"] {
                let from = path(state.copies) + suffix
                guard FileManager.default.fileExists(atPath: from) else { continue }
                try FileManager.default.copyItem(
                    atPath: from,
                    toPath: path(state.copies + 1) + suffix
                )
            }
            state.copies += 1
            state.store = nil
        }
    }

    private func path(_ copy: Int) -> String {
        directory?.appending(path: "\(copy).sqlite").path() ?? ":memory:"
    }
}

/// The network of an app; nothing goes out any more when the app is killed.
final class WorldLine: Transport {
    private let inner: any Transport
    private let isCut = Mutex(false)

    init(_ inner: any Transport) { self.inner = inner }

    func cut() { isCut.withLock { $0 = true } }

    private func check() throws {
        guard isCut.withLock({ $0 }) else { return }
        throw TransportError(.connectionLost, "The app was killed.", outcomeIsUnknown: false)
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        try check()
        let response = try await inner.send(request)
        try check()
        return response
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        try check()
        return try await inner.stream(request)
    }
}
