// TroubledStore: a store whose transactions are rolled back or run twice, as on a full disk.

import Synchronization
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit

/// Passes all calls on; the fates of the next writes are scripted.
final class TroubledStore: ForwardingStore {
    enum Fate: Sendable {
        /// The work is executed and then rolled back.
        case rollBack
        /// The first run is rolled back, the second one counts.
        case runTwice
        /// Like `rollBack`, and SQLite reports that the disk is full.
        case fillDisk
    }

    struct Full: Error {}

    let inner: any LocalStore
    private let fates = Mutex<[Fate]>([])
    /// The number of transactions until the process ends; nil if it does not end.
    private let left = Mutex<Int?>(nil)

    init(_ inner: any LocalStore = MemoryStore()) { self.inner = inner }

    func add(_ fate: Fate) { fates.withLock { $0.append(fate) } }

    /// Stores this number of transactions, and nothing after them.
    func kill(after count: Int) { left.withLock { $0 = count } }

    private func isKilled() -> Bool {
        left.withLock { left in
            guard let count = left else { return false }
            left = max(0, count - 1)
            return count == 0
        }
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        if isKilled() { throw Full() }
        let fate = fates.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        guard let fate else { return try await inner.write(body) }
        do {
            try await inner.write { writer in
                _ = try body(writer)
                throw Full()
            }
        } catch let error as Full {
            if fate == .rollBack { throw error }
            if fate == .fillDisk {
                let cause = SQLiteError(code: 13, message: "database or disk is full")
                throw SyncError(.storeFailure, "There is no space left.", cause: cause)
            }
        }
        return try await inner.write(body)
    }
}
