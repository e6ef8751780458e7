// Purge: rows leave the device, the server keeps them.

import TidelineCore

extension SyncEngine {
    /// Removes local rows; see ``SyncTable/purge(force:)``.
    func purge(_ filter: Filter?, force: Bool, in table: String) async throws {
        let filter = filter?.bound(now: environment.now())
        let removed = try await inTurn(.purge, "purge") {
            try await noting { queue, seen in
                let reader = queue.reader
                // The rows that another account has changed stay with its operations.
                let isPending = try reader.count(table: table) > 0
                let all = isPending ? try reader.operations().filter { $0.table == table } : []
                let operations = all.filter(queue.account.owns)
                let others = Set(
                    all.filter { !queue.account.owns($0) }.map { ItemKey($0.itemID) }
                )
                let ids = try queue.reader.ids(filter, in: table)
                    .filter { !others.contains(ItemKey($0)) }
                let purged = Set(ids.map(ItemKey.init))
                let dropped = operations.filter {
                    filter == nil || purged.contains(ItemKey($0.itemID))
                }
                guard force || dropped.isEmpty else {
                    throw SyncError.pendingOperations(table: table)
                }
                for operation in dropped { try queue.remove(operation) }
                let removed = try queue.store.delete(ids: ids.map(Value.string), in: table)
                // The purged rows are older than the cursors: without this they would stay away.
                try queue.resetCursors(table)
                seen.note(.purged(table: table))
                return removed
            }
        }
        events.send(.purgeFinished(table: table, removed: removed))
    }
}
