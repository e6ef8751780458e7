// LockedStore: simulates a locked phone.

import Foundation
import Synchronization
import Tideline

/// A store that is temporarily unavailable, like a protected file on a locked phone.
final class LockedStore: LocalStore {
    private let inner: any LocalStore
    private let isLocked: @Sendable () -> Bool
    /// The number of failed transactions.
    private let failures = Mutex(0)

    /// `isLocked` returns whether transactions currently fail.
    init(_ inner: any LocalStore, isLocked: @escaping @Sendable () -> Bool) {
        self.inner = inner
        self.isLocked = isLocked
    }

    private func check() throws { if isLocked() { throw POSIXError(.EPERM) } }

    /// Throws if the transaction fails at its start.
    ///
    /// Every second transaction fails at its end instead, and is rolled back.
    private func checkBegin() throws {
        guard isLocked() else { return }
        let count = failures.withLock { failures in
            failures += 1
            return failures
        }
        if count % 2 == 1 { try check() }
    }

    func open(tables: [TableSchema]) async throws {
        try check()
        try await inner.open(tables: tables)
    }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try check()
        return try await inner.read(body)
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        try checkBegin()
        return try await inner.write { [self] writer in
            let result = try body(writer)
            try check()
            return result
        }
    }

    func writeRepeatable<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        try checkBegin()
        return try await inner.writeRepeatable { [self] writer in
            let result = try body(writer)
            try check()
            return result
        }
    }

    func changes() -> AsyncStream<Set<String>> { inner.changes() }
    var fileIdentity: String? { inner.fileIdentity }
    func close() async throws { try await inner.close() }
    func suspend() async { await inner.suspend() }
    func interruptTransactions() { inner.interruptTransactions() }
    func resume() { inner.resume() }

    func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable { inner.rowChanges() }
    var freeBytes: Int64? { inner.freeBytes }
    func checkpoint() async -> Bool { await inner.checkpoint() }
    func compactIfHalfFree(deadline: Duration) async {
        await inner.compactIfHalfFree(deadline: deadline)
    }
    var checkListeners: CheckListeners? { inner.checkListeners }

    func acquireSyncLease(at now: Date, duration lease: Duration, isForced: Bool) -> Int? {
        inner.acquireSyncLease(at: now, duration: lease, isForced: isForced)
    }

    func renewSyncLease(_ turn: Int, at now: Date, duration lease: Duration) -> Bool {
        inner.renewSyncLease(turn, at: now, duration: lease)
    }

    func releaseSyncLease(_ turn: Int) { inner.releaseSyncLease(turn) }
}
