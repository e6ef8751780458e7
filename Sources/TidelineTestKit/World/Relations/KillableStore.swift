// KillableStore: the store of an app that is killed before or after one of its transactions.

import Synchronization
import Tideline

/// A store that fails permanently, starting with a chosen transaction, as if its process had been
/// killed.
///
/// The next process uses a new store with the same content.
final class KillableStore: LocalStore {
    struct Killed: Error {}

    private enum Life {
        case running
        /// The process will be killed after this many further write transactions.
        case ending(writes: Int, storesLast: Bool)
        case killed
    }

    let content: MemoryStore
    private let life = Mutex(Life.running)

    init(_ content: MemoryStore) { self.content = content }

    var isKilled: Bool {
        life.withLock { life in
            if case .killed = life { true } else { false }
        }
    }

    /// Kills the process after some more write transactions.
    ///
    /// - Parameters:
    ///   - writes: The number of transactions until then.
    ///   - storesLast: Whether the process is killed right after the last transaction is stored,
    ///     rather than before the next one.
    func kill(afterWrites writes: Int, storesLast: Bool) {
        life.withLock { $0 = .ending(writes: writes, storesLast: storesLast) }
    }

    /// Kills the process now.
    func kill() { life.withLock { $0 = .killed } }

    private func check() throws { if isKilled { throw Killed() } }

    /// Counts a transaction.
    ///
    /// - Returns: Whether the process is killed after it.
    private func begin() throws -> Bool {
        try life.withLock { life in
            switch life {
            case .running: return false
            case .killed: throw Killed()
            case .ending(0, _):
                life = .killed
                throw Killed()
            case .ending(let writes, let storesLast):
                life = .ending(writes: writes - 1, storesLast: storesLast)
                return writes == 1 && storesLast
            }
        }
    }

    func open(tables: [TableSchema]) async throws {
        try check()
        try await content.open(tables: tables)
    }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try check()
        return try await content.read(body)
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let isLast = try begin()
        let result = try await content.write(body)
        guard !isLast else {
            kill()
            throw Killed()
        }
        return result
    }

    func changes() -> AsyncStream<Set<String>> { content.changes() }
}
