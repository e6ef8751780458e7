// MemoryWriteSession: runs the write transactions of the in-memory backend.

import Dispatch
import Synchronization
import TidelineCore
import TidelineServerCore

/// The transactions of a writer on a database in memory.
final class MemoryWriteSession: WriteSession {
    typealias Retention = MemoryPurge

    private let database: MemoryDatabase
    private let limits: ServerLimits
    private let now: @Sendable () -> Int64

    init(
        _ database: MemoryDatabase,
        limits: ServerLimits,
        now: @escaping @Sendable () -> Int64
    ) {
        self.database = database
        self.limits = limits
        self.now = now
    }

    static func uptime(after time: Duration) -> UInt64 {
        let (seconds, attoseconds) = time.components
        let nanoseconds = seconds * 1_000_000_000 + attoseconds / 1_000_000_000
        return DispatchTime.now().uptimeNanoseconds + UInt64(clamping: nanoseconds)
    }

    var rejection: (any Error)? { database.rejection }

    func isLarge(_ batch: QueuedBatch<MemoryTable>) -> Bool { batch.changesTables }

    func perform(_ task: (Result<MemoryDatabase, any Error>) -> Void) {
        if let rejection { task(.failure(rejection)) } else { task(.success(database)) }
    }

    func begin() {}

    func transaction(
        _ batches: [QueuedBatch<MemoryTable>],
        _ body: (inout MemoryWriteTransaction) throws -> Void
    ) throws -> [TableTimestamp] {
        try database.transaction { state in
            let before = state.tables
            var writes = MemoryWriteTransaction(state, limits: limits, now: now)
            try body(&writes)
            state = writes.state
            state.ledger.trim(to: limits.ledgerBytes)
            return state.timestamps.filter {
                $0.timestamp != before[$0.table]?.clock.timestamp ?? 0
            }
        }
    }

    /// A failed group is undone alone, so an error that ends the transaction concerns all batches.
    func failed(
        _ error: any Error,
        _ batches: [QueuedBatch<MemoryTable>]
    ) -> WriteRecovery<MemoryTable> {
        .reject(error)
    }

    func committed(
        _ timestamps: [TableTimestamp],
        _ batches: [QueuedBatch<MemoryTable>],
        _ outcomes: inout [[GroupOutcome]?]
    ) {
        if !timestamps.isEmpty { database.listener.withLock { $0 }?.report(timestamps) }
    }

    func end(_ timestamps: [TableTimestamp]) {}

    // MARK: - Cascades, which need references

    func takeNewCascades() -> Bool { false }

    func cascade(in graph: ReferenceGraph?, _ step: inout CascadeStep) -> CascadeProgress {
        CascadeProgress()
    }
}
