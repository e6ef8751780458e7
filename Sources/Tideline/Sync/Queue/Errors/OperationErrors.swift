// OperationErrors: the errors of the operations that wait for the app, and the app's actions for them.

import TidelineCore

/// The errors of the operations that wait for the app.
struct OperationErrors {
    let engine: SyncEngine

    func all() async throws -> [TableOperationError] {
        let errors = try await engine.read { try $0.errors() }
        return errors.map { TableOperationError($0, $1, engine: engine) }
    }

    func discard(_ error: TableOperationError) async throws {
        let isReferenced = error.brokenReference?.reason == .rowIsReferenced
        try await resolve(error) { queue, operation in
            if isReferenced { try queue.restoreRelated(operation) }
            try queue.discard(operation)
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
            // If the server has no row, this is a row of this device, without a version.
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
            if operation.damage != nil { try queue.letGo(behind: operation) }
        }
    }

    /// Sends the changes of this device again, on top of the newest known server row.
    func keepMine(_ error: TableOperationError) async throws {
        try await retry(error, ["id": .string(error.itemID)], keepsUnknownChanges: true)
    }

    /// If it `keepsUnknownChanges`, an update from an older copy keeps all local values, and not the server's.
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
                // The app resolved the row with all its changes.
                guard let whole = try queue.absorbFollowing(parked) else { return }
                operation = whole
            }
            var again = operation
            if let latest = operation.basis.latest {
                again = ConflictRules.onTop(operation, latest)
                again.conflicts = 0
                if case .row(let row) = latest, again.kind == .update {
                    // From now on, the edit is the difference from this row, and nothing else is sent.
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

    /// Sends a parked operation again unchanged.
    func retry(_ error: TableOperationError) async throws {
        try await resolve(error) { queue, operation in
            try queue.retry(operation)
        }
    }

    /// Sends parked operations again unchanged.
    ///
    /// - Returns: The number of operations.
    func retry(_ errors: [TableOperationError]) async throws -> Int {
        try await engine.transaction { queue in
            var count = 0
            for error in errors {
                guard let operation = try queue.reader.operation(error.operationID),
                    operation.damage == nil, try queue.reader.hasError(error.id, operation),
                    queue.catalog.names(tableOf: operation), queue.account.owns(operation)
                else { continue }
                // Another one of its group may have released it already.
                if operation.state == .parked { try queue.retry(operation) }
                try queue.removeErrors(of: operation.id)
                count += 1
            }
            return count
        }
    }

    /// Rejects values that no table can hold, unless the local or the server's row already has them.
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

    /// Returns the server's row with the changes of this device, including those in columns that the app's item
    /// lacks.
    ///
    /// If the server has no row, the result has the local values.
    ///
    /// The changes of an update from an older copy are not known; the server's row is then returned unchanged.
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

    /// Returns the app's item as a local row, with the operation's id and the other columns of a known row.
    ///
    /// The local columns that the item lacks have the stored row's values.
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

    /// Runs one of the three actions, unless the error was already resolved.
    func resolve(
        _ error: TableOperationError,
        _ body: @escaping @Sendable (QueueTransaction, QueuedOperation) throws -> Void
    ) async throws {
        let (id, operationID) = (error.id, error.operationID)
        try await engine.transaction { queue in
            guard let operation = try queue.reader.operation(operationID),
                try queue.reader.hasError(id, operation)
            else { throw SyncError.errorResolved() }
            try queue.checkAccount([operation])
            try body(queue, operation)
            try queue.removeErrors(of: operationID)
        }
    }
}

extension QueueReader {
    /// Returns the errors of the operations that wait for the app, in the order of the queue.
    ///
    /// A parked operation without a stored error, and an operation of a table that the app does not declare,
    /// get an error that is not stored, so that every such operation is reported.
    fileprivate func errors() throws -> [(StoredError, QueuedOperation)] {
        var stored: [Int64: Row] = [:]
        for row in try store.rows(TableQuery(), in: SystemTables.errors) {
            if case .integer(let id) = row["operationId"] { stored[id] = row }
        }
        let ids = try Set(stored.keys).union(parkedIDs()).union(idsOfUnnamedTables())
        return try ids.sorted().compactMap { id in
            guard let operation = try operation(id), account.owns(operation),
                operation.state == .parked || !catalog.names(tableOf: operation)
            else { return nil }
            let schema = catalog.schema(operation.table)
            var error =
                stored[id].map { StoredError(row: $0, operation: operation, schema: schema) }
                ?? derivedError(operation)
            // Of an operation that could not be sent, or an error that cannot be read.
            if error.item == nil, operation.kind != .delete {
                error.item = try localRow(of: operation)
            }
            try addLocalColumns(to: &error, operation)
            return (error, operation)
        }
    }

    /// Sets the local columns of the error's rows to the values that they have now.
    ///
    /// They may have changed since the rejection, and the server's row has none. A record that the app makes from one
    /// of the rows, to resolve the error, must not reset them.
    private func addLocalColumns(
        to error: inout StoredError,
        _ operation: QueuedOperation
    ) throws {
        let table = operation.table
        guard catalog.schema(table)?.localColumns.isEmpty == false else { return }
        let local = try localRow(of: operation) ?? error.item
        error.item = error.item.map { catalog.row($0, of: table, withLocalColumnsOf: local) }
        error.serverItem = error.serverItem.map {
            catalog.row($0, of: table, withLocalColumnsOf: local)
        }
    }

    /// Returns the error of an operation that waits for the app but has no error in the store.
    private func derivedError(_ operation: QueuedOperation) -> StoredError {
        StoredError(
            id: Self.derivedErrorID(operation),
            operation: operation,
            statusCode: nil,
            message: SyncError.waiting(operation, isNamed: catalog.names(tableOf: operation)),
            item: nil,
            serverItem: operation.basis.latest?.row
        )
    }

    private static func derivedErrorID(_ operation: QueuedOperation) -> String {
        "operation-\(operation.id)"
    }

    /// Returns whether the operation is still parked with the error of this id.
    fileprivate func hasError(_ id: String, _ operation: QueuedOperation) throws -> Bool {
        let isReleased = operation.group != nil && operation.state == .pending
        let isParked = operation.state == .parked || isReleased
        guard id == Self.derivedErrorID(operation) else {
            return try isParked && store.row(id: .string(id), in: SystemTables.errors) != nil
        }
        return isParked || !catalog.names(tableOf: operation)
    }

    /// Returns the row on this device; nil also if the app does not declare the table.
    fileprivate func localRow(of operation: QueuedOperation) throws -> Row? {
        guard catalog.names(tableOf: operation) else { return nil }
        return try store.row(id: .string(operation.itemID), in: operation.table)
    }
}

extension QueueTransaction {
    /// Removes an operation from the queue; the newest known row of the server replaces the local one.
    ///
    /// If `keepsLostBases`, a base row that a restored server may have lost is kept instead.
    func discard(_ operation: QueuedOperation, keepsLostBases: Bool = true) throws {
        try remove(operation)
        // If an operation cannot be decoded, its row is kept until it is pulled again. The rows of a table that
        // the app does not declare cannot be accessed.
        guard operation.damage == nil, catalog.names(tableOf: operation) else {
            return try letGo(behind: operation)
        }
        try ownStates.endInsert(operation)
        let others = try reader.allOperations(operation.table, operation.itemID)
        if let earlier = others.last(where: { $0.id < operation.id }) {
            return try discard(operation, behind: earlier, among: others)
        }
        if let next = others.first { return try discard(operation, before: next) }
        if try keepsLostBases && lostRecords.mayHaveLostBase(of: operation) {
            return try lostRecords.keepBase(of: operation)
        }
        switch operation.basis.lastKnown {
        case .row(let row):
            // The row was deleted here, and may have been inserted again. Membership changes that queries
            // reported in the meantime were not stored, and neither was a loss by a restored server, so the
            // queries restart.
            let stored = try store.row(id: .string(operation.itemID), in: operation.table)
            if stored == nil || operation.kind == .update && operation.replacesRow {
                try pullState.resetCursors(of: operation.table)
            }
            try store.put([JSONRowReader.withoutDeleted(row)], in: operation.table)
            try membership.confirmHolders(of: row, operation.table)
            try membership.removeRowWithoutQuery(operation.itemID, operation.table)
        case .deleted:
            try store.delete(ids: [.string(operation.itemID)], in: operation.table)
            try LocalChildren(queue: self).follow(
                deletesOf: [operation.itemID],
                in: operation.table
            )
        case nil:
            try store.delete(ids: [.string(operation.itemID)], in: operation.table)
        }
    }

    /// Handles the removal of an operation that others follow in its row; their changes are kept.
    ///
    /// If the server has no such row, the following operations are removed as well.
    private func discard(_ operation: QueuedOperation, before next: QueuedOperation) throws {
        guard let server = operation.basis.lastKnown, server.row != nil else {
            try removeFollowing(operation)
            try store.delete(ids: [.string(operation.itemID)], in: operation.table)
            if operation.basis.lastKnown != nil {
                try LocalChildren(queue: self).follow(
                    deletesOf: [operation.itemID],
                    in: operation.table
                )
            }
            return
        }
        try Settlement(queue: self)
            .moveUp(next, behind: operation, server, RowBasis(base: server.row), isDone: false)
    }

    /// Handles the removal of an operation that follows another one in its row; the changes of the other
    /// operations are kept.
    private func discard(
        _ operation: QueuedOperation,
        behind earlier: QueuedOperation,
        among others: [QueuedOperation]
    ) throws {
        let (table, id) = (operation.table, operation.itemID)
        guard var next = others.first(where: { $0.id > operation.id }) else {
            if let before = operation.before {
                try store.put([before], in: table)
            } else if earlier.kind == .delete {
                try store.delete(ids: [.string(id)], in: table)
            }
            return
        }
        switch operation.kind {
        case .insert:
            // The earlier delete remains: there is no row that the later operations could change.
            try removeFollowing(operation)
            try store.delete(ids: [.string(id)], in: table)
        case .delete:
            // The new row replaces the remaining one.
            next.kind = .update
            next.sendsWholeRow = true
            try put(next)
        case .update:
            let before = others.filter { $0.id < operation.id }
            guard let to = QueuedOperation.result(of: before),
                let from = QueuedOperation.result(of: before + [operation])
            else { return }
            try rebaseFollowing(operation, from: from, onto: to)
        }
    }

    /// Releases a parked operation and the rest of its atomic group.
    func retry(_ operation: QueuedOperation) throws {
        guard operation.damage == nil else { throw SyncError.unsendable(operation) }
        try checkTable(of: operation)
        var again = operation
        again.thaw()
        try put(again)
        try release(with: operation)
    }

    /// - Throws: ``SyncError`` with code `unknownTable` if the app does not declare the table.
    fileprivate func checkTable(of operation: QueuedOperation) throws {
        guard !catalog.names(tableOf: operation) else { return }
        throw SyncError.unknownTable(operation.table, known: Array(catalog.schemas.keys))
    }

    /// Handles the removal of an operation that could not be decoded, or whose table the app does not declare.
    ///
    /// Changes that pulls reported for its row were not stored, so the queries of the table restart.
    ///
    /// The next operation of the row is based on the version of the local row. If there is none, it is based on
    /// the empty version, which no row of the server has.
    fileprivate func letGo(behind dropped: QueuedOperation) throws {
        let (table, id) = (dropped.table, dropped.itemID)
        try pullState.resetCursors(of: table)
        guard var next = try reader.operations(table, id).first, next.frozen == nil,
            next.basis.base == nil, next.basisVersion == nil
        else { return }
        let local = try reader.localRow(of: next)
        switch next.kind {
        case .insert: return
        case .update where local?.isFromServer == false: return
        case .update: next.sendsWholeRow = true
        case .delete: break
        }
        next.basisVersion = local?.version ?? ""
        try put(next)
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
