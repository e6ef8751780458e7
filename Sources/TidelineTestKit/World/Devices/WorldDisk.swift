// WorldDisk: the storage of a simulated device, and the network of its app.

import Foundation
import Synchronization
import Tideline

/// The disk of a simulated device; if it has files, their temporary directory is removed with the
/// disk.
final class WorldDisk: Sendable {
    private struct State {
        var store: (any LocalStore)?
        var copies = 0
        var isLocked = false
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
            directory = try Self.makeDirectory()
            state = Mutex(State())
        }
    }

    deinit {
        if let directory { try? FileManager.default.removeItem(at: directory) }
    }

    /// Creates a directory with a unique name.
    static func makeDirectory() throws -> URL {
        let directory = parent.appending(path: "tideline-world-" + UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }

    /// The parent of all directories; it is in memory if possible, because each commit waits for
    /// the disk.
    private static let parent: URL = {
        let memory = "/dev/shm"
        return FileManager.default.isWritableFile(atPath: memory)
            ? URL(filePath: memory) : FileManager.default.temporaryDirectory
    }()

    var isFile: Bool { directory != nil }

    /// Returns a store that an app cannot use while the phone is locked.
    func store() throws -> any LocalStore {
        LockedStore(try plainStore()) { [weak self] in
            self?.state.withLock { $0.isLocked } ?? false
        }
    }

    /// Locks or unlocks the phone.
    func setLocked(_ isLocked: Bool) { state.withLock { $0.isLocked = isLocked } }

    /// Returns a store that works even while the phone is locked; a file is opened on first use.
    func plainStore() throws -> any LocalStore {
        try state.withLock { state in
            if let store = state.store { return store }
            let store = try SQLiteStore(path: path(state.copies), inline: true)
            state.store = store
            return store
        }
    }

    /// Replaces the store with a copy of the file and its log in their current state.
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

    /// Copies the closed file, like a backup of the phone.
    func backUp() throws { try copyFile(named: "backup") }

    /// Replaces the store with the file of the most recent backup.
    ///
    /// - Returns: Whether there was a backup.
    func restoreBackup() throws -> Bool {
        try state.withLock { state in
            guard let directory else { return false }
            let backup = directory.appending(path: "backup.sqlite").path()
            guard FileManager.default.fileExists(atPath: backup) else { return false }
            state.copies += 1
            state.store = nil
            try Self.copy(backup, to: path(state.copies))
            return true
        }
    }

    /// Copies the closed file to another disk, unless that disk already has a store.
    ///
    /// - Returns: Whether the file was copied.
    func copyFile(to other: WorldDisk) throws -> Bool {
        guard other.state.withLock({ $0.store == nil && $0.copies == 0 }) else { return false }
        try state.withLock { state in
            try Self.copy(path(state.copies), to: other.path(0))
        }
        return true
    }

    private func copyFile(named name: String) throws {
        try state.withLock { state in
            guard let directory else { return }
            let target = directory.appending(path: name + ".sqlite").path()
            try Self.copy(path(state.copies), to: target)
        }
    }

    private static func copy(_ source: String, to target: String) throws {
        for suffix in ["", "-wal"] {
            try? FileManager.default.removeItem(atPath: target + suffix)
            guard FileManager.default.fileExists(atPath: source + suffix) else { continue }
            try FileManager.default.copyItem(atPath: source + suffix, toPath: target + suffix)
        }
    }

    private func path(_ copy: Int) -> String {
        directory?.appending(path: "\(copy).sqlite").path() ?? ":memory:"
    }
}

/// The network connection of an app, which is cut when the app is killed.
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
