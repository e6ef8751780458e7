// MemoryPurge: removes tombstones, and entries of the change logs and of the ledger.

import TidelineCore
import TidelineServerCore

/// The purge of the in-memory backend.
struct MemoryPurge: RetentionSteps {
    let limits: ServerLimits
    let now: @Sendable () -> Int64

    func readTime(
        _ database: MemoryDatabase
    ) throws -> (wall: Int64, memory: TrustedTime.Memory?) {
        let memory = try database.snapshot().time
        return (now(), memory)
    }

    func store(_ memory: TrustedTime.Memory, _ database: MemoryDatabase) throws {
        try database.transaction { $0.time = memory }
    }

    func timestamps(_ database: MemoryDatabase) throws -> [TableTimestamp] {
        try database.snapshot().timestamps
    }

    func run(
        _ step: PurgeStep,
        of round: PurgeRound,
        _ database: MemoryDatabase,
        time: RemovalTime?
    ) throws -> RemovedData {
        try database.transaction { state in
            var removed = RemovedData(0)
            if let time { removed.count = remove(step, from: &state, time) }
            if step == .ledger {
                removed.ledgerBytes = state.ledger.bytes
                removed.ledgerEntries = state.ledger.count
            }
            return removed
        }
    }

    /// Removes everything of a step that has expired; returns the number of rows or entries.
    private func remove(
        _ step: PurgeStep,
        from state: inout MemoryState,
        _ time: RemovalTime
    ) -> Int {
        switch step {
        case .tombstones(let name, let days):
            guard let end = time.end(days: days) else { return 0 }
            return state.tables[name.lowercased()]?.removeTombstones(before: end) ?? 0
        case .changes(let name, let days):
            guard let end = time.end(days: days) else { return 0 }
            return state.tables[name.lowercased()]?.removeDepartures(before: end) ?? 0
        case .ledger: return state.ledger.purge(time, limits)
        // The backend has no audit log. It does not record when rows were received while a table clock was ahead of
        // the wall clock; such rows expire later, by their timestamps.
        case .audit, .clocks: return 0
        }
    }
}

extension StoredTable {
    /// Removes older tombstones, and raises the horizon, because devices can no longer learn of these deletes.
    fileprivate mutating func removeTombstones(before end: Int64) -> Int {
        let old = rows.filter { $0.value.isDeleted && $0.value.timestamp < end }
        for (key, row) in old {
            rows[key] = nil
            bases[key] = nil
            leave(row.timestamp)
            raiseHorizon(to: row.timestamp)
        }
        return old.count
    }

    /// Removes older entries of the change log; returns their number.
    fileprivate mutating func removeDepartures(before end: Int64) -> Int {
        let count = log.prefix { $0.timestamp < end }.count
        if count > 0 { raiseHorizon(to: log[count - 1].timestamp) }
        log.removeFirst(count)
        return count
    }
}
