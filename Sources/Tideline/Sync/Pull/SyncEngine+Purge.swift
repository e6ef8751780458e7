// Purge: rows leave the device, the server keeps them.

import TidelineCore

extension SyncEngine {
    /// Removes local rows; see ``SyncTable/purge(force:)``.
    func purge(_ filter: Filter?, force: Bool, in table: String) async throws {
        let filter = filter?.bound(now: environment.now())
        try await inTurn(.purge, "purge") {
            try await noting { queue, seen in
                let reader = queue.reader
                if !force, try reader.count(table: table) > 0 {
                    throw SyncError.pendingOperations(table: table)
                }
                let ids = try queue.reader.ids(filter, in: table)
                let purged = Set(ids.map(ItemKey.init))
                if force {
                    for operation in try reader.operations() where operation.table == table {
                        guard filter == nil || purged.contains(ItemKey(operation.itemID)) else {
                            continue
                        }
                        try queue.remove(operation)
                    }
                }
                try queue.store.delete(ids: ids.map(Value.string), in: table)
                // The purged rows are older than the cursors: without this they would stay away.
                try queue.resetCursors(table)
                seen.note(.purged(table: table))
            }
        }
    }
}
