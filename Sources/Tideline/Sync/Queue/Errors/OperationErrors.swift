// OperationErrors: the errors of operations that wait for the app, and the actions that resolve
// them.

import TidelineCore

/// The errors of the operations that wait for the app.
struct OperationErrors {
    let engine: SyncEngine

    func all() async throws -> [TableOperationError] {
        let errors = try await engine.read { try $0.errors.all() }
        return errors.map { TableOperationError($0, $1, engine: engine) }
    }

    func discard(_ error: TableOperationError) async throws {
        let isReferenced = error.brokenReference?.reason == .rowIsReferenced
        try await resolve(error) { queue, operation in
            if isReferenced { try queue.removal.restoreRelated(operation) }
            try queue.removal.discard(operation)
        }
    }

    func cancel(_ error: TableOperationError, _ item: Row) async throws {
        try check(item, of: error)
        try await resolve(error) { queue, operation in
            guard !operation.itemID.isEmpty else { throw SyncError.unsendable(operation) }
            try queue.checkTable(of: operation)
            if operation.damage == nil { try queue.removeFollowing(operation) }
            try queue.remove(operation)
            try queue.ownStates.endInsert(operation)
            let (table, id) = (operation.table, Value.string(operation.itemID))
            let known = operation.basis.lastKnown?.row
            let stored = try queue.store.row(id: id, in: table)
            // If the server has no row, this is a row that exists only on this device and has no
            // version.
            let own = operation.damage == nil ? stored.map(RowMerge.payload) : stored
            let kept = Self.item(item, operation, over: known ?? own, stored, queue.catalog)
            try queue.unmasked.settingLocalColumns { try queue.store.put([kept], in: table) }
            if let known {
                try queue.membership.confirmHolders(of: known, table)
                let theirs = queue.catalog.synced(known, in: table)
                let mine = queue.catalog.synced(kept, in: table)
                let isTheirs = RowMerge.changes(from: theirs, to: mine).count == 0
                if !isTheirs {
                    try queue.store.noteUncertain(rowWith: operation.itemID, in: table)
                }
            }
            if operation.damage != nil { try queue.removal.letGo(behind: operation) }
        }
    }

    /// Resends the changes of this device on top of the newest known server row.
    func keepMine(_ error: TableOperationError) async throws {
        try await retry(error, ["id": .string(error.itemID)], keepsUnknownChanges: true)
    }

    /// Resends the operation with `item` as the local row.
    ///
    /// If `keepsUnknownChanges` is true and the changes of an update are not known, all local
    /// values are kept instead of the server's values.
    func retry(
        _ error: TableOperationError,
        _ item: Row,
        keepsUnknownChanges: Bool = false
    ) async throws {
        try check(item, of: error)
        try await resolve(error) { queue, parked in
            guard parked.damage == nil else { throw SyncError.unsendable(parked) }
            try queue.checkTable(of: parked)
            var operation = parked
            if try queue.reader.operations(parked.table, parked.itemID).count > 1 {
                // The app has resolved the row with all its changes.
                guard let whole = try queue.absorbFollowing(parked) else { return }
                operation = whole
            }
            var again = operation
            if let latest = operation.basis.latest {
                again = ConflictRules.onTop(operation, latest)
                again.conflicts = 0
                if case .row(let row) = latest, again.kind == .update {
                    // From now on, the edit is the difference from this row, and no other columns
                    // are sent.
                    again.basis = RowBasis(base: row)
                    again.basisVersion = nil
                    again.sendsWholeRow = false
                }
            } else {
                again.thaw()
            }
            again.edit = nil
            // The app has seen the server's row.
            again.isInherited = false
            try queue.put(again)
            try queue.removeErrors(of: operation.id)
            try queue.release(with: operation)
            guard operation.kind != .delete else { return }
            let server = operation.basis.lastKnown?.row
            let stored = try queue.store.row(id: .string(operation.itemID), in: operation.table)
            let isUnknown = operation.kind == .update && operation.knownBase == nil
            let mine =
                stored.map {
                    keepsUnknownChanges && isUnknown
                        ? RowMerge.payload($0) : Self.edits(of: $0, operation, onto: server)
                } ?? server
            let (table, catalog) = (operation.table, queue.catalog)
            let row = Self.item(item, operation, over: mine, stored, catalog)
            let known = server.map { catalog.row($0, of: table, withLocalColumnsOf: stored) }
            try catalog.rules(of: table)?.check(row, inPlaceOf: known, table: table)
            try queue.unmasked.settingLocalColumns { try queue.store.put([row], in: table) }
        }
    }

    /// Resends a parked operation unchanged.
    func retry(_ error: TableOperationError) async throws {
        try await resolve(error) { queue, operation in
            try queue.retry(operation)
        }
    }

    /// Resends parked operations unchanged.
    ///
    /// - Returns: The number of operations.
    func retry(_ errors: [TableOperationError]) async throws -> Int {
        try await engine.transaction { queue in
            var count = 0
            for error in errors {
                guard let operation = try queue.reader.operation(error.operationID),
                    operation.damage == nil,
                    try queue.reader.errors.contains(error.id, of: operation),
                    queue.catalog.names(tableOf: operation), queue.account.owns(operation)
                else { continue }
                // Another operation of the group may already have released it.
                if operation.state == .parked { try queue.retry(operation) }
                try queue.removeErrors(of: operation.id)
                count += 1
            }
            return count
        }
    }

    /// Throws an error for values that no table can hold, unless the local row or the server's row
    /// already has them.
    private func check(_ item: Row, of error: TableOperationError) throws {
        var theirs: Row?
        if case .row(let row) = error.serverCopy { theirs = row }
        if let known = error.serverItem ?? theirs ?? error.item {
            try engine.projected.projection(of: item, table: error.table, engine.catalog)?
                .check(update: item, of: known)
        }
        try RowCheck.check(
            item,
            changing: [error.item, error.serverItem, theirs, error.base],
            table: error.table,
            id: error.itemID,
            schema: engine.catalog.schema(error.table)
        )
    }

    /// Returns the server's row with the changes of this device, including changes in columns that
    /// the app's item lacks.
    ///
    /// If the server has no row, the result has the local values. If the base row is not stored,
    /// the changes of an update are not known, and the server's row is returned unchanged.
    private static func edits(
        of stored: Row,
        _ operation: QueuedOperation,
        onto server: Row?
    ) -> Row {
        guard let server else { return RowMerge.payload(stored) }
        guard let base = operation.knownBase ?? (operation.kind == .insert ? Row() : nil) else {
            return server
        }
        return RowMerge.rebase(local: stored, from: base, onto: server)
    }

    /// Returns the app's item as a local row, with the operation's id and the other columns of a
    /// known row.
    ///
    /// If the item lacks local columns, these get the values of the stored row.
    private static func item(
        _ item: Row,
        _ operation: QueuedOperation,
        over known: Row?,
        _ stored: Row?,
        _ catalog: TableCatalog
    ) -> Row {
        let table = operation.table
        let known = known.map(JSONRowReader.withoutDeleted) ?? Row()
        let mine = catalog.row(known, of: table, withLocalColumnsOf: stored)
        var row = catalog.row(mine, of: table, with: item)
        row["id"] = .string(operation.itemID)
        return row
    }

    /// Runs the app's action for an error, unless the error was already resolved.
    func resolve(
        _ error: TableOperationError,
        _ body: @escaping @Sendable (QueueTransaction, QueuedOperation) throws -> Void
    ) async throws {
        let (id, operationID) = (error.id, error.operationID)
        try await engine.transaction { queue in
            guard let operation = try queue.reader.operation(operationID),
                try queue.reader.errors.contains(id, of: operation)
            else { throw SyncError.errorResolved() }
            try queue.checkAccount([operation])
            try body(queue, operation)
            try queue.removeErrors(of: operationID)
        }
    }
}

extension TableOperationError {
    init(_ stored: StoredError, _ operation: QueuedOperation, engine: SyncEngine) {
        id = stored.id
        table = stored.table
        itemID = stored.itemID
        kind = stored.kind
        statusCode = stored.statusCode
        item = stored.item
        serverItem = stored.serverItem
        message = stored.message
        brokenRule = stored.brokenRule
        localColumns = engine.catalog.schema(stored.table)?.localColumns ?? []
        operationID = stored.operationID
        groupID = operation.group
        brokenReference = stored.reference
        canRetry = operation.damage == nil && engine.catalog.names(tableOf: operation)
        base = operation.knownBase
        switch operation.basis.lastKnown {
        case .row(let row):
            let copy = engine.catalog.row(
                JSONRowReader.withoutDeleted(row),
                of: stored.table,
                withLocalColumnsOf: stored.item
            )
            serverCopy = .row(copy)
        case .deleted: serverCopy = .deleted
        case nil: serverCopy = .neverSeen
        }
        self.engine = engine
    }
}
