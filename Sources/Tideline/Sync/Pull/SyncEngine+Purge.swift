// Purge: rows leave the device, the server keeps them.

import TidelineCore

extension SyncEngine {
    /// Removes local rows; see ``SyncTable/purge(force:)``.
    func purge(_ filter: Filter?, force: Bool, in table: String) async throws {
        let filter = filter?.bound(now: environment.now())
        let removed = try await inTurn(.purge, "purge") {
            try await TransactionWatch.during("purge") { watch in
                try await noting { [events] queue, seen in
                    try watch.check()
                    let (ids, dropped) = try queue.purged(filter, table)
                    guard force || dropped.isEmpty else {
                        throw SyncError.pendingOperations(table: table)
                    }
                    for operation in dropped {
                        try watch.check()
                        try queue.remove(operation)
                    }
                    var removed = 0
                    for start in stride(from: 0, to: ids.count, by: SyncEvent.rowsAtOnce) {
                        try watch.check()
                        let part = ids[start..<min(ids.count, start + SyncEvent.rowsAtOnce)]
                        removed += try queue.store.delete(ids: part.map(Value.string), in: table)
                        guard part.count == SyncEvent.rowsAtOnce else { break }
                        events.send(.rowsRemoved(table: table, removed: removed))
                    }
                    // The purged rows are older than the cursors: without this they would stay away.
                    try queue.resetCursors(table)
                    seen.note(.purged(table: table))
                    try watch.check()
                    return removed
                }
            }
        }
        await emptyLog()
        events.send(.purgeFinished(table: table, removed: removed))
    }

    /// What was purged is to be in no file: the log of the store has it still.
    func emptyLog() async { await (store as? any LogKeeper)?.emptyLog() }
}

extension QueueTransaction {
    /// The ids of the rows that a purge removes, and the operations that it drops with them.
    ///
    /// The rows that another account has changed stay with its operations.
    fileprivate func purged(
        _ filter: Filter?,
        _ table: String
    ) throws -> (ids: [String], dropped: [QueuedOperation]) {
        let isPending = try reader.count(table: table) > 0
        let all = isPending ? try reader.operations().filter { $0.table == table } : []
        let others = Set(all.filter { !account.owns($0) }.map { ItemKey($0.itemID) })
        let ids = try reader.ids(filter, in: table).filter { !others.contains(ItemKey($0)) }
        let purged = Set(ids.map(ItemKey.init))
        let dropped = all.filter(account.owns).filter {
            filter == nil || purged.contains(ItemKey($0.itemID))
        }
        return (ids, dropped)
    }
}
