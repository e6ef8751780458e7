// SyncTurn: which of several processes on one store file pushes and pulls.

import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A store that other processes may use, too.
package protocol SharedStore: LocalStore {
    /// Takes the turn to push, pull and purge for this process; false while another one has it.
    ///
    /// May be taken several times; each has to be given back.
    func takeSyncTurn() -> Bool

    /// Gives back a turn that was taken.
    func endSyncTurn()
}

/// The turn of one file: a lock on an empty file beside it, which the system frees when a process
/// dies.
///
/// Not in the store itself: a pull that brings nothing must write nothing.
final class SyncTurn: Sendable {
    private struct State {
        var descriptor: Int32 = -1
        var count = 0
    }

    private let path: String
    private let state = Mutex(State())

    init(of store: String) { path = store + "-sync" }

    func take() -> Bool {
        state.withLock { state in
            guard state.count == 0 else {
                state.count += 1
                return true
            }
            let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            // Where there can be no such file, each process syncs: the server takes each operation
            // once, whoever sends it.
            if descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
                close(descriptor)
                return false
            }
            state.descriptor = descriptor
            state.count = 1
            return true
        }
    }

    func end() {
        state.withLock { state in
            state.count -= 1
            guard state.count == 0 else { return }
            if state.descriptor >= 0 { close(state.descriptor) }
            state.descriptor = -1
        }
    }
}

extension SQLiteStore: SharedStore {
    package func takeSyncTurn() -> Bool { turn?.take() ?? true }

    package func endSyncTurn() { turn?.end() }
}

extension SyncEngine {
    /// Runs `body` while no other process on the same store syncs.
    func aloneOnStore<Result>(_ body: () async throws -> Result) async throws -> Result {
        guard let store = store as? any SharedStore else { return try await body() }
        while !store.takeSyncTurn() { try await environment.sleep(Self.turnInterval) }
        defer { store.endSyncTurn() }
        return try await body()
    }

    /// How often it is looked whether another process is done.
    private static var turnInterval: Duration { .milliseconds(100) }
}
