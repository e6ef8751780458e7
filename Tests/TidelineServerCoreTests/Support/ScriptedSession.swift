// ScriptedSession: a session of the WriteEngine without a database, whose transactions fail as a test wants.

import Dispatch
import Synchronization
import TidelineServerCore

/// A session without a database, which records the ids of the writes of each transaction.
///
/// A word in the id of a write decides what happens, because no database fails or blocks when a test needs it. `large`
/// is committed after all others, `blocked` waits for a lock until the last turn, and `broken` makes its transaction
/// fail. After a write with `full`, the transaction takes no more batches.
final class ScriptedSession: WriteSession {
    typealias Retention = NoRetention
    typealias Backend = String

    struct Failure: Error {}

    struct Writes: WriteTransaction {
        var budget = AnswerBudget()
        var batchRows = BatchRows()
        var grown: Table?
        var time: Int64 { 0 }
        var ids: [String] = []
        let isLast: Bool

        func isFull(answerBytes: Int) -> Bool { ids.contains { $0.contains("full") } }

        func admit(_ batch: QueuedBatch<String>, at index: Int) -> WriteAdmission {
            guard batch.has("blocked"), !isLast || !batch.has("free") else { return .run }
            return isLast ? .reject(ServerError.writesWait) : .wait
        }

        mutating func apply(
            _ group: [WriteBatch.Write],
            in tables: [String],
            within budget: AnswerBudget
        ) throws -> GroupOutcome {
            try applyEach(group, in: tables, within: budget)
        }

        mutating func perform(_ operation: WriteOperation, in table: String) throws -> WriteOutcome
        {
            if operation.id.contains("broken") || operation.id == "odd" { throw Failure() }
            ids.append(operation.id)
            return WriteOutcome(.insert)
        }

        mutating func grow(for write: WriteBatch.Write, in table: String) throws -> WriteOutcome {
            try perform(write.operation, in: table)
        }

        func find(_ key: RepeatKey, at time: Int64) -> LedgerFinding { .new }
        func keep(_: RepeatKey, _: WriteOperation, _: WriteOutcome, at time: Int64) {}
        func image(_ id: String, _ table: String) -> RowImage? { nil }
    }

    private let committed: CommittedWrites
    private var blocked: [QueuedBatch<String>] = []
    private var isLast = false

    init(_ committed: CommittedWrites) { self.committed = committed }

    static func uptime(after time: Duration) -> UInt64 {
        DispatchTime.now().uptimeNanoseconds + UInt64(time.components.seconds) * 1_000_000_000
    }

    func isLarge(_ batch: QueuedBatch<String>) -> Bool { batch.has("large") }
    func perform(_ task: (Result<Void, any Error>) -> Void) { task(.success(())) }
    func begin() {}

    func transaction(
        _ batches: [QueuedBatch<String>],
        _ body: (inout Writes) throws -> Void
    ) throws -> [TableTimestamp] {
        var writes = Writes(isLast: isLast)
        try body(&writes)
        if !writes.ids.isEmpty { committed.add(writes.ids) }
        return []
    }

    func failed(_ error: any Error, _ batches: [QueuedBatch<String>]) -> WriteRecovery<String> {
        .exclude(
            batches.filter { $0.has("broken") },
            error,
            others: batches.filter { !$0.has("broken") }
        )
    }

    func committed(
        _ timestamps: [TableTimestamp],
        _ batches: [QueuedBatch<String>],
        _ outcomes: inout [[GroupOutcome]?]
    ) {
        for (batch, outcome) in zip(batches, outcomes) where outcome == nil {
            blocked.append(batch)
        }
    }

    func end(_ timestamps: [TableTimestamp]) {}
    func takeNewCascades() -> Bool { false }

    func cascade(in graph: ReferenceGraph?, _ step: inout CascadeStep) -> CascadeProgress {
        CascadeProgress()
    }

    func retryBlocked(isLast: Bool, _ commit: ([QueuedBatch<String>]) -> Void) {
        guard isLast, !blocked.isEmpty else { return }
        self.isLast = true
        let batches = blocked
        blocked = []
        commit(batches)
    }
}

extension QueuedBatch {
    fileprivate func has(_ word: String) -> Bool {
        batch.groups.contains { $0.writes.contains { $0.operation.id.contains(word) } }
    }
}

struct NoRetention: RetentionSteps {
    func readTime(_: Void) -> (wall: Int64, memory: TrustedTime.Memory?) { (0, nil) }
    func store(_: TrustedTime.Memory, _: Void) {}
    func timestamps(_: Void) -> [TableTimestamp] { [] }
    func run(_: PurgeStep, of _: PurgeRound, _: Void, time: RemovalTime?) -> RemovedData {
        RemovedData(0)
    }
}

/// The ids of the writes of each transaction.
final class CommittedWrites: Sendable {
    private let state = Mutex<[[String]]>([])

    var all: [[String]] { state.withLock { $0 } }

    func add(_ ids: [String]) { state.withLock { $0.append(ids) } }
}
