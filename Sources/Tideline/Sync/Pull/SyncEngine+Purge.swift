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
                    let lost = try queue.lostRows(among: ids, of: table)
                    guard force || lost.isEmpty else { throw SyncError.lostRowsInPurge(lost.count) }
                    for record in lost { try queue.removeLost(table, record.itemID) }
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
        await giveSpaceBack()
        events.send(.purgeFinished(table: table, removed: removed))
    }

    /// Gives the space of purged rows back to the disk where that is half of the file.
    func giveSpaceBack() async {
        guard let store = store as? any SpaceSaver else { return }
        await store.compactIfHalfFree(deadline: limits.compactionTimeMax)
        await emptyLog()
    }

    /// What was purged is to be in no file: the log of the store has it still.
    ///
    /// Whoever uses the log at this moment, as the thread that copies it, is waited for without holding up anybody.
    func emptyLog() async {
        guard let store = store as? any LogEmptier else { return }
        for _ in 0..<Self.emptyingTries {
            if await store.emptyLog() { return }
            guard (try? await calls.sleep(.milliseconds(50))) != nil else { return }
        }
    }

    /// A second in all; then later commits try it.
    private static let emptyingTries = 20
}

extension QueueTransaction {
    /// The lost rows among those with these ids.
    fileprivate func lostRows(among ids: [String], of table: String) throws -> [LostRecord] {
        let records = try reader.lostRecords(table)
        guard !records.isEmpty else { return [] }
        let ids = Set(ids.map(ItemKey.init))
        return records.filter { ids.contains(ItemKey($0.itemID)) }
    }

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
