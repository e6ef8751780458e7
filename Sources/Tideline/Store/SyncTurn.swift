// SyncTurn: decides which of several processes with the same store file pushes and pulls.
//
// The turn is a lease: a line in a small file next to the store. The file is never locked, so a
// process holds no lock while it waits for the network or is suspended. Each transaction of a push
// or pull checks the lease. A process that has lost the lease restarts its push or pull.
// docs/store-file.md explains why.

public import Foundation
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The content of the lease file: the owner of the turn and the expiry time.
package struct SyncLease: Sendable, Equatable {
    /// A string that is unique to each owner; empty while the turn is free.
    package var owner: String
    /// The process ID of the owner.
    package var process: Int32
    /// The expiry time, in milliseconds since 1970.
    package var expires: Int64

    package init(owner: String, process: Int32, expires: Int64) {
        (self.owner, self.process, self.expires) = (owner, process, expires)
    }

    /// Parses the content of the file; nil for any other content, such as a half-written line.
    package init?(_ text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 5, parts[0] == "tideline-turn", parts[4].first == ".",
            let process = Int32(parts[2]), let expires = Int64(parts[3])
        else { return nil }
        self.init(
            owner: parts[1] == "-" ? "" : String(parts[1]),
            process: process,
            expires: expires
        )
    }

    /// The text always has the same length, so a single write replaces all of it.
    package var text: String {
        let text = "tideline-turn \(owner.isEmpty ? "-" : owner) \(process) \(expires) "
        let rest = max(1, Self.length - 1 - text.utf8.count)
        return text + String(repeating: ".", count: rest) + "\n"
    }

    package static let length = 160

    /// Returns whether another process may acquire the turn.
    package func isFree(at now: Int64, lease: Int64, isAlive: (Int32) -> Bool) -> Bool {
        // An expiry time that no lease can have means that the wall clock was set back.
        owner.isEmpty || expires <= now || expires > now + 2 * lease || !isAlive(process)
    }
}

/// The turn of one store.
final class SyncTurn: Sendable {
    private struct State {
        /// The number of the most recent lease that this store acquired.
        var last = 0
        /// The number of jobs that use each lease.
        var users: [Int: Int] = [:]
        var renewed: Int64 = 0
    }

    private let path: String
    private let name: String
    private let process = getpid()
    private let state = Mutex(State())

    init(of store: String) {
        path = store + "-sync"
        // A counter distinguishes stores, because two stores of this process may have the same
        // address at different times.
        name = "\(getpid())-\(Turns.next())"
    }

    private func owner(_ turn: Int) -> String { "\(name)-\(turn)" }

    func take(at now: Date, lease: Duration, isForced: Bool) -> Int? {
        let (now, lease) = (now.milliseconds, lease.milliseconds)
        return state.withLock { state in
            let current = read()
            if state.users[state.last] != nil, current?.owner == owner(state.last) {
                state.users[state.last, default: 0] += 1
                return state.last
            }
            if let current, !isForced,
                !current.isFree(at: now, lease: lease, isAlive: Self.isAlive)
            {
                return nil
            }
            state.last += 1
            state.users[state.last] = 1
            state.renewed = now
            // If the file cannot be written, every process syncs. That is safe, because the server
            // applies each operation once, no matter which process sends it.
            write(SyncLease(owner: owner(state.last), process: process, expires: now + lease))
            return state.last
        }
    }

    func holds(_ turn: Int, at now: Date, lease: Duration) -> Bool {
        let (now, lease) = (now.milliseconds, lease.milliseconds)
        return state.withLock { state in
            // Without a lease in the file, for example on a full disk, no other process has taken
            // the turn.
            guard let current = read() else { return true }
            guard current.owner == owner(turn) else { return false }
            if abs(now - state.renewed) > lease / 8 {
                state.renewed = now
                write(SyncLease(owner: owner(turn), process: process, expires: now + lease))
            }
            return true
        }
    }

    func end(_ turn: Int) {
        state.withLock { state in
            guard let users = state.users[turn] else { return }
            state.users[turn] = users > 1 ? users - 1 : nil
            guard users == 1, read()?.owner == owner(turn) else { return }
            // The owner's name stays the same, so that an owner that lost the turn to this one
            // still finds a different name.
            write(SyncLease(owner: owner(turn), process: process, expires: 0))
        }
    }

    private func read() -> SyncLease? { readText().flatMap { SyncLease($0) } }

    /// Returns the content of the file; nil if it cannot be read.
    private func readText() -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: SyncLease.length)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count >= 0 else { return nil }
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    private func write(_ lease: SyncLease) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(lease.text.utf8)
        _ = pwrite(descriptor, bytes, bytes.count, 0)
    }

    /// Returns whether a process is running.
    ///
    /// A process that this one is not permitted to signal counts as running.
    private static func isAlive(_ process: Int32) -> Bool {
        kill(process, 0) == 0 || errno != ESRCH
    }

    /// The counter that numbers the stores of this process.
    private enum Turns {
        private static let last = Mutex(0)

        static func next() -> Int {
            last.withLock { last in
                last += 1
                return last
            }
        }
    }
}

extension Date {
    fileprivate var milliseconds: Int64 {
        let milliseconds = (timeIntervalSince1970 * 1000).rounded()
        return Int64(exactly: milliseconds) ?? 0
    }
}

extension Duration {
    fileprivate var milliseconds: Int64 {
        let (seconds, attoseconds) = clampedForTimers.components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}

extension SQLiteStore {
    /// Acquires the turn in the lease file next to the store.
    public func acquireSyncLease(at now: Date, duration lease: Duration, isForced: Bool) -> Int? {
        guard let turn else { return 0 }
        return turn.take(at: now, lease: lease, isForced: isForced)
    }

    /// Renews the lease and returns whether this process still has the turn.
    public func renewSyncLease(_ number: Int, at now: Date, duration lease: Duration) -> Bool {
        turn?.holds(number, at: now, lease: lease) ?? true
    }

    /// Releases a turn.
    public func releaseSyncLease(_ number: Int) { turn?.end(number) }
}

/// An error that reports that another process has acquired the turn.
struct TurnLost: Error {}

/// The turn of a running push, pull, or purge, which its transactions check.
struct ActiveTurn: Sendable {
    let store: any LocalStore
    let number: Int
    let lease: Duration
    let now: @Sendable () -> Date

    @TaskLocal static var current: ActiveTurn?

    /// Checks the turn inside a transaction of the store.
    ///
    /// - Throws: ``SyncError`` with code `cancelled` if another process took the turn.
    func check() throws {
        guard !store.renewSyncLease(number, at: now(), duration: lease) else { return }
        throw SyncError(
            .cancelled,
            """
            Another process took over the sync of this store, so this process stored nothing more. Nothing is \
            lost. Sync again.
            """,
            cause: TurnLost()
        )
    }
}

/// The turn of this process among the processes that sync the same store.
struct ExclusiveTurn {
    let engine: SyncEngine

    /// Runs `body` during this process's turn; if another process takes the turn in the meantime,
    /// runs `body` again.
    func run<Result>(_ body: () async throws -> Result) async throws -> Result {
        var losses = 0
        while true {
            let turn = try await takeTurn()
            do {
                defer { engine.store.releaseSyncLease(turn.number) }
                return try await ActiveTurn.$current.withValue(turn) { try await body() }
            } catch let error as SyncError where error.cause is TurnLost {
                losses += 1
                if losses > Self.lossesMax { throw error }
            }
        }
    }

    private func takeTurn() async throws -> ActiveTurn {
        let lease = engine.limits.turnTimeMax
        var waited = Duration.zero
        while true {
            try engine.calls.check()
            let turn = engine.store.acquireSyncLease(
                at: engine.environment.now(),
                duration: lease,
                // A process that syncs without a pause can delay another process only for a limited
                // time.
                isForced: waited >= lease * 3
            )
            if let turn {
                return ActiveTurn(
                    store: engine.store,
                    number: turn,
                    lease: lease,
                    now: engine.environment.now
                )
            }
            try await engine.calls.sleep(Self.turnInterval)
            waited += Self.turnInterval
        }
    }

    /// The interval at which a waiting process checks for the turn.
    private static var turnInterval: Duration { .milliseconds(100) }

    /// The number of times that a push or pull restarts because another process took the turn.
    private static var lossesMax: Int { 5 }
}
