// SeenRows: which states of a row the app may hold, so that an old copy never overwrites what
// somebody else wrote (docs/SYNC.md, "Updates from a copy").
//
// What a transaction does to rows is noted in it and taken over after its commit: a transaction may be
// rolled back, and may run twice. Transactions with notes follow each other, so that each finds what
// the one before has done.

import Synchronization
import TidelineCore

final class SeenRows: Sendable {
    private let memory: Mutex<SeenMemory>
    private let line = Mutex<Line>(Line())

    init(limits: SyncLimits) {
        memory = Mutex(
            SeenMemory(rowsMax: limits.handedOutRowsMax, marksMax: limits.handedOutVersionsMax)
        )
    }

    /// Records that do not tell their state went out, each with the state of its stored row.
    func handedOut(_ records: [(row: Row, state: RowState)], table: String) {
        memory.withLock { memory in
            for (record, state) in records { memory.handOut(record, state, table: table) }
        }
    }

    /// What is known of a row that is in a state now.
    func row(_ key: RowKey, now: RowState) -> SeenRow {
        memory.withLock { $0.row(key, now: now) }
    }

    // MARK: - Transactions

    /// Runs a transaction and takes over what it noted.
    func whenCommitted<Result>(
        _ transaction: () async throws -> (Result, [SeenChange])
    ) async throws -> Result {
        await begin()
        defer { end() }
        let (result, changes) = try await transaction()
        memory.withLock { memory in
            for change in changes { memory.apply(change) }
        }
        return result
    }

    private struct Line {
        var isTaken = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private func begin() async {
        let isFree = line.withLock { line in
            defer { line.isTaken = true }
            return !line.isTaken
        }
        if isFree { return }
        await withCheckedContinuation { continuation in
            let isFree = line.withLock { line in
                if line.isTaken { line.waiting.append(continuation) }
                defer { line.isTaken = true }
                return !line.isTaken
            }
            if isFree { continuation.resume() }
        }
    }

    private func end() {
        let next = line.withLock { line -> CheckedContinuation<Void, Never>? in
            guard !line.waiting.isEmpty else {
                line.isTaken = false
                return nil
            }
            return line.waiting.removeFirst()
        }
        next?.resume()
    }
}

/// What one run of a transaction knows of rows that were handed out, and notes of them.
final class SeenNotes {
    private let rows: SeenRows
    private(set) var changes: [SeenChange] = []

    init(_ rows: SeenRows) { self.rows = rows }

    func row(_ key: RowKey, now: RowState) -> SeenRow { rows.row(key, now: now) }

    func note(_ change: SeenChange) { changes.append(change) }

    /// This device itself changed a row.
    func edited(_ stored: Row, to row: Row, table: String) {
        let changes = RowMerge.changes(from: stored, to: row)
        var before = Row()
        for name in changes.names { before[name] = stored[name] }
        note(.edited(RowKey(table, stored.id), RowState(stored), from: before, to: changes))
    }

    /// This device itself changed a row on top of the server's: what it took from there is
    /// somebody else's.
    func edited(_ stored: Row, to row: Row, onto server: Row?, table: String) {
        var own = row
        for (name, value) in server.map(RowMerge.payload) ?? Row()
        where RowMerge.same(row[name], value) {
            own[name] = stored[name]
        }
        edited(stored, to: own, table: table)
    }
}
