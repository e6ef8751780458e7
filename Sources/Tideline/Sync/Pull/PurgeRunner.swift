// PurgeRunner: removes rows from the device; the server keeps them.

import TidelineCore

/// A runner of purges, which remove local rows.
struct PurgeRunner {
    let engine: SyncEngine

    /// Removes local rows; see ``SyncTable/purge(_:force:)``.
    func purge(_ filter: Filter?, force: Bool, in table: String) async throws {
        // These rows are not on a server from which they could be pulled again.
        try engine.catalog.checkSynced(table)
        let filter = filter?.bound(now: engine.environment.now())
        let removed = try await engine.inTurn(.purge, "purge") {
            try await TransactionWatch.during("purge") { watch in
                try await engine.transaction { [engine] queue in
                    try watch.check()
                    let selection = PurgeSelection(queue: queue)
                    let (ids, dropped, others) = try selection.all(filter, table)
                    guard force || dropped.isEmpty else {
                        throw SyncError.pendingOperations(table: table)
                    }
                    let lost = try selection.lostRows(among: ids, of: table)
                    guard force || lost.isEmpty else { throw SyncError.lostRowsInPurge(lost.count) }
                    if !force {
                        let removed = Set(ids.map(ItemKey.init))
                        let count = try selection.possiblyLost(of: table) {
                            removed.contains(ItemKey($0.id))
                        }
                        guard count == 0 else {
                            throw SyncError.possiblyLostRowsInPurge(count, table: table)
                        }
                    }
                    for record in lost { try queue.lostRecords.remove(table, record.itemID) }
                    for operation in dropped {
                        try watch.check()
                        try queue.remove(operation)
                    }
                    var removed = 0
                    for start in stride(from: 0, to: ids.count, by: SyncEvent.rowsAtOnce) {
                        try watch.check()
                        let part = ids[start..<min(ids.count, start + SyncEvent.rowsAtOnce)]
                        removed += try queue.store.delete(ids: part.map(Value.string), in: table)
                        try queue.ownStates.forget(Array(part), in: table)
                        guard part.count == SyncEvent.rowsAtOnce else { break }
                        engine.events.send(.rowsRemoved(table: table, removed: removed))
                    }
                    // The search index may still have words of rows that were removed before the
                    // purge.
                    try queue.store.eraseRemovedWords(in: table)
                    // The purged rows are older than the cursors, so without a reset no pull would
                    // fetch them again.
                    try queue.pullState.resetCursors(of: table)
                    if filter == nil {
                        try queue.ownStates.forget(in: table) { others.contains(ItemKey($0)) }
                        try queue.tableAccounts.forget(table)
                    }
                    for operation in dropped { try queue.ownStates.endInsert(operation) }
                    try watch.check()
                    return removed
                }
            }
        }
        await checkpoint()
        await giveSpaceBack()
        engine.events.send(.purgeFinished(table: table, removed: removed))
    }

    /// Removes the data of an account: its operations, its cursors, and the rows that no other
    /// account's query holds.
    func purge(account: String, force: Bool) async throws {
        let removed = try await engine.inTurn(.purge, "purge") {
            try await TransactionWatch.during("purge") { watch in
                try await engine.transaction { [engine] queue in
                    var queue = queue
                    queue.watch = watch
                    let selection = PurgeSelection(queue: queue)
                    let operations = try queue.reader.operations(of: account)
                    guard force || operations.isEmpty else { throw SyncError.pendingOfAccount() }
                    let lost = try queue.reader.lostRecords.all(of: .signedIn(account))
                    guard force || lost.isEmpty else { throw SyncError.lostRowsInPurge(lost.count) }
                    for table in force ? [] : queue.catalog.syncedNames {
                        let others = try queue.reader.membership.bits(
                            of: .signedIn(account),
                            table,
                            isOwn: false
                        )
                        let count = try selection.possiblyLost(of: table) {
                            (MembershipMask.bits($0) ?? 0) & others == 0
                        }
                        guard count == 0 else {
                            throw SyncError.possiblyLostRowsInPurge(count, table: table)
                        }
                    }
                    for record in lost { try queue.lostRecords.remove(record.table, record.itemID) }
                    let deleted = try selection.deletedRows(of: operations)
                    // A purge also removes rows that may be lost, instead of leaving the decision
                    // to the app.
                    try queue.removal.discard(operations, keepsLostBases: false)
                    for row in deleted {
                        try watch.check()
                        try queue.store.delete(ids: [.string(row.itemID)], in: row.table)
                    }
                    var removed = 0
                    for table in queue.catalog.syncedNames {
                        removed += try queue.membership.release(
                            .signedIn(account),
                            table,
                            engine.events
                        )
                        // The discarded operations and earlier pulls have also removed rows.
                        try queue.store.eraseRemovedWords(in: table)
                    }
                    try watch.check()
                    return removed
                }
            }
        }
        await checkpoint()
        await giveSpaceBack()
        engine.events.send(.purgeFinished(table: nil, removed: removed))
    }

    /// Returns the space of purged rows to the file system if at least half of the file is free.
    func giveSpaceBack() async {
        await engine.store.compactIfHalfFree(deadline: engine.limits.compactionTimeMax)
        await checkpoint()
    }

    /// Truncates the write-ahead log, so that no file contains the purged rows.
    ///
    /// If another connection is using the log, such as the connection of the checkpoint thread,
    /// this method retries without blocking that connection.
    func checkpoint() async {
        for _ in 0..<Self.emptyingTries {
            if await engine.store.checkpoint() { return }
            guard (try? await engine.calls.sleep(.milliseconds(50))) != nil else { return }
        }
    }

    /// The number of tries within one second; after these, each later commit tries again.
    private static let emptyingTries = 20
}

/// The selection of the rows and operations that a purge affects.
private struct PurgeSelection {
    let queue: QueueTransaction

    /// Returns the rows that were deleted on this device by operations and that are still absent.
    ///
    /// When the operations are discarded, these rows come back, with the membership of a new row.
    /// If a query of another account holds such a row, the query returns it again, because the
    /// table's cursors are reset.
    func deletedRows(of operations: [QueuedOperation]) throws -> Set<RowKey> {
        var rows: Set<RowKey> = []
        for operation in operations where operation.kind == .delete {
            guard queue.catalog.names(tableOf: operation),
                try queue.store.row(id: .string(operation.itemID), in: operation.table) == nil
            else { continue }
            rows.insert(operation.row)
        }
        return rows
    }

    /// Returns the lost rows among the given ids.
    func lostRows(among ids: [String], of table: String) throws -> [LostRecord] {
        let records = try queue.reader.lostRecords.all(in: table)
        guard !records.isEmpty else { return [] }
        let ids = Set(ids.map(ItemKey.init))
        return records.filter { ids.contains(ItemKey($0.itemID)) }
    }

    /// Returns the number of flagged rows that may have been committed after the backup and that no
    /// pull has requested from the restored server yet.
    ///
    /// `isRemoved` returns whether the purge removes a row.
    func possiblyLost(
        of table: String,
        _ isRemoved: (Row) throws -> Bool
    ) throws -> Int {
        // Before the first pull, the device does not know that the server was restored.
        guard let former = try queue.reader.epochs.formerRows(of: table), former.cause != .sent
        else { return 0 }
        var query = TableQuery(
            filter: .greater(MembershipMask.name, .integer(MembershipMask.former - 1))
        )
        query.select = [
            SystemColumn.id, SystemColumn.version, SystemColumn.updatedAt, MembershipMask.name,
        ]
        let isKnown = former.restore.commit != nil
        return try queue.unmasked.inner.rows(query, in: table)
            .filter { !isKnown || former.restore.isBefore($0) }
            .count(where: isRemoved)
    }

    /// Returns the ids of the rows that a purge removes, the operations that it discards with them,
    /// and the ids of the rows that it keeps.
    ///
    /// A row is kept if it has operations of another account, or if it is a lost row of another
    /// account.
    func all(
        _ filter: Filter?,
        _ table: String
    ) throws -> (ids: [String], dropped: [QueuedOperation], others: Set<ItemKey>) {
        let isPending = try queue.reader.count(table: table) > 0
        let all = isPending ? try queue.reader.operations().filter { $0.table == table } : []
        var others = Set(all.filter { !queue.account.owns($0) }.map { ItemKey($0.itemID) })
        for record in try queue.reader.lostRecords.all(in: table)
        where record.belongsToOther(than: queue.account) {
            others.insert(ItemKey(record.itemID))
        }
        let ids = try queue.reader.ids(filter, in: table).filter { !others.contains(ItemKey($0)) }
        let purged = Set(ids.map(ItemKey.init))
        let dropped = all.filter(queue.account.owns).filter {
            filter == nil || purged.contains(ItemKey($0.itemID))
        }
        return (ids, dropped, others)
    }
}
