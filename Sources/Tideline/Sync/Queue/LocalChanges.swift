// LocalChanges: changes rows and queues the operations, in one transaction.

import TidelineCore

/// The app's changes of rows in one table, each of which is queued as an operation in the same
/// transaction.
struct LocalChanges {
    let queue: QueueTransaction
    let table: String
    /// The declared columns, if rows have no model.
    var declared: TableSchema?

    private var store: any LocalStoreWriter { queue.store }

    /// The rules that the device checks before it queues an operation.
    private var rules: RowRules? { queue.catalog.rules(of: table) }

    /// Whether the table stays on the device, so that nothing is queued.
    private var isLocalOnly: Bool { queue.catalog.isLocalOnly(table) }

    /// Stores a row in which the app may have set local columns.
    private func putChanged(_ row: Row) throws {
        try queue.unmasked.settingLocalColumns { try store.put([row], in: table) }
        queue.watch?.changed(1, in: table)
    }

    /// Returns the operations of a row, which must belong to the account that changes it.
    private func operations(_ id: String) throws -> [QueuedOperation] {
        let operations = try queue.reader.operations(table, id)
        try queue.checkAccount(operations)
        if operations.isEmpty { try queue.lostRecords.checkAccount(table, id) }
        guard operations.count > 1, let first = operations.first, first.state == .parked,
            first.damage == nil
        else { return operations }
        // The change releases the parked operation. The operations that wait for it are merged into
        // it.
        return try queue.absorbFollowing(first).map { [$0] } ?? []
    }

    /// Returns whether a change must not be merged into the last operation of a row, because that
    /// operation belongs to another transaction.
    ///
    /// Transactions are sent separately, so that none of them exceeds the size of a batch, and so
    /// that the rejection of one does not affect another.
    private func isSealed(_ last: QueuedOperation?) -> Bool {
        guard let last, last.state == .pending, last.damage == nil, let group = queue.group else {
            return false
        }
        return last.group.map { $0 != group } ?? false
    }

    /// Returns the effect of a change on the queue.
    private func effect(
        of change: QueueRules.Change,
        on stored: Row?,
        _ last: QueuedOperation?
    ) -> QueueRules.Effect {
        var last = last
        // The operation is treated as sent, so that nothing is merged into it.
        if isSealed(last) { last?.state = .attempted }
        return QueueRules.effect(of: change, rowExists: stored != nil, last: last)
    }

    /// Stores a new row and queues its insert.
    func insert(_ new: NewRow) throws -> Row {
        try rules?.check(inserted: new.row, table: table)
        if new.hasNewID { return try insertUnknown([new.row])[0] }
        let row = new.row
        let id = row.id
        let stored = try store.row(id: .string(id), in: table)
        if isLocalOnly {
            guard stored == nil else { throw SyncError.alreadyExists(table: table, id: id) }
            return try insertUnknown([row])[0]
        }
        let operations = try operations(id)
        var new = RowMerge.payload(row)
        new["id"] = .string(id)
        switch effect(of: .insert, on: stored, operations.last) {
        case .append(let kind):
            var operation = QueuedOperation(table: table, itemID: id, kind: kind)
            operation.knownUntil = try queue.reader.knownCommits.latest(of: table)
            try append(operation, after: operations)
            // If the preceding delete has a conflict, the insert becomes an update.
            if !operations.isEmpty { try queue.ownStates.noteInsert(of: RowKey(table, id)) }
        case .replaceDeleted:
            guard let last = operations.last else { break }
            var operation = last
            operation.thaw()
            operation.kind = .update
            operation.sendsWholeRow = true
            try replace(last, with: operation)
            try queue.ownStates.noteInsert(of: RowKey(table, id))
        case .alreadyExists, .collapse, .remove, .nothing, .notFound:
            throw SyncError.alreadyExists(table: table, id: id)
        }
        try putChanged(new)
        return new
    }

    /// Stores new rows and queues their inserts, in order.
    func insert(_ rows: [NewRow]) throws -> [Row] {
        guard try areUnknown(rows) else {
            return try rows.map { row in
                try queue.watch?.check()
                return try insert(row)
            }
        }
        if let rules {
            for new in rows { try rules.check(inserted: new.row, table: table) }
        }
        let hasGiven = rows.contains { !$0.hasNewID }
        let knownUntil = hasGiven ? try queue.reader.knownCommits.latest(of: table) : nil
        return try insertUnknown(rows.map(\.row), knownUntil: knownUntil)
    }

    /// Returns whether the store has no row and no operation with any of these ids.
    private func areUnknown(_ rows: [NewRow]) throws -> Bool {
        let given = rows.filter { !$0.hasNewID }.map(\.row.id)
        guard Set(given.map(ItemKey.init)).count == given.count else { return false }
        for start in stride(from: 0, to: given.count, by: Self.idsAtOnce) {
            let part = given[start..<min(given.count, start + Self.idsAtOnce)]
            let ids = part.map(Value.string)
            let queued: Filter = .isIn("itemId", ids) && .equal("table", .string(table))
            guard try store.count(.isIn(SystemColumn.id, ids), in: table) == 0,
                try store.count(queued, in: SystemTables.operations) == 0
            else { return false }
        }
        return true
    }

    private static let idsAtOnce = 500

    /// Stores rows whose ids are unknown to the store.
    private func insertUnknown(_ rows: [Row], knownUntil: Int64? = nil) throws -> [Row] {
        var payloads = PayloadWriter()
        let new = rows.map { payloads.row($0) }
        for row in isLocalOnly ? [] : new {
            try queue.watch?.check()
            try queueInsert(of: row.id, knownUntil: knownUntil)
        }
        for start in stride(from: 0, to: new.count, by: Self.idsAtOnce) {
            try queue.watch?.check()
            let part = new[start..<min(new.count, start + Self.idsAtOnce)]
            try queue.unmasked.settingLocalColumns {
                try queue.unmasked.putNew(Array(part), in: table)
            }
            queue.watch?.changed(part.count, in: table)
        }
        return new
    }

    /// Queues the insert of a row that has no operation.
    func queueInsert(of id: String, knownUntil: Int64?) throws {
        var operation = QueuedOperation(table: table, itemID: id, kind: .insert)
        operation.knownUntil = knownUntil
        try queue.append(operation)
    }

    /// Changes a row to the values of a record, and queues the update.
    ///
    /// `normalized` encodes a row as the record type does. A difference that results only from the
    /// encoding is not an edit.
    func update(
        _ edited: Row,
        identity: RecordIdentity,
        projection: Projection? = nil,
        normalized: (Row) -> Row?
    ) throws -> Row {
        try RowCheck.checkID(edited)
        let id = edited.id
        guard let stored = try store.row(id: .string(id), in: table) else {
            throw SyncError.notFound(table: table, id: id)
        }
        try projection?.check(update: edited, of: normalized(stored) ?? stored)
        if isLocalOnly {
            let plan = UpdateRules.plan(edited, stored: stored, age: .current) {
                normalized($0) ?? $0
            }
            return try change(stored, to: plan.row)
        }
        let state = RowState(edited, identity)
        let own = try queue.reader.ownStates.states(of: RowKey(table, id))
        let first = try queue.reader.operations(table, id).first
        var age = RecordAge(of: state, stored: stored, base: first?.basis.base, own: own)
        if state == nil, age == .current, stored.isFromServer, identity != .nothing {
            try projection?.checkState(of: edited)
        }
        if state == nil, let declared, setsOnlyItsColumns(edited, declared, age) { age = .current }
        let plan = UpdateRules.plan(edited, stored: stored, age: age) { normalized($0) ?? $0 }
        let changed = try change(stored, to: plan.row, basisVersion: plan.basisVersion)
        // An update is merged into an insert only if the insert was never sent.
        let mayHaveArrived = first?.frozen != nil || first?.outcomeUnknown == true
        // After an update with an older record, the stored row has the older state, and so does a
        // record that is read from the row.
        let namesOlder = first?.basis.base.map { $0.version != stored.version } ?? false
        let isOfState = stored.isFromServer && !(age == .current && namesOlder)
        let local = queue.catalog.schema(table)?.localColumns ?? []
        let columnsSet = plan.columnsSet.subtracting(local)
        if !columnsSet.isEmpty, isOfState || mayHaveArrived {
            try queue.ownStates.note(columnsSet, setBy: age, of: stored, own, RowKey(table, id))
        }
        return changed
    }

    /// Returns whether an update with a row that has no state is based on the stored version.
    ///
    /// If another writer may have changed the row since this device inserted it, a row with all
    /// columns may be the record that the insert returned. The result is then true only for a
    /// partial row.
    private func setsOnlyItsColumns(_ row: Row, _ declared: TableSchema, _ age: RecordAge) -> Bool {
        if case .older = age { return declared.columns.contains { row[$0.name] == nil } }
        return true
    }

    /// Stores a row if it differs from the stored row, and queues its update.
    func change(
        _ stored: Row,
        to row: Row,
        basisVersion: String? = nil
    ) throws -> Row {
        let id = stored.id
        var row = row
        let changes = RowMerge.changes(from: stored, to: row)
        try rules?.check(changes, in: row, table: table)
        if isLocalOnly || !changes.isEmptyRow && isLocal(changes) {
            try RowCheck.check(changes, table: table, id: id, schema: declared)
            guard !changes.isEmptyRow else { return stored }
            row.takeState(of: stored)
            try putChanged(row)
            return row
        }
        let operations = try operations(id)
        let last = operations.last
        try RowCheck.check(changes, table: table, id: id, schema: declared)
        guard !changes.isEmptyRow || basisVersion != nil || last?.state == .parked else {
            return stored
        }
        switch effect(of: .update, on: stored, last) {
        case .append(let kind):
            var operation = QueuedOperation(table: table, itemID: id, kind: kind)
            operation.basisVersion = basisVersion
            operation.sendsWholeRow = basisVersion != nil
            try append(operation, after: operations, stored: stored)
        case .collapse(let kind):
            guard let last else { break }
            var operation = last
            operation.thaw()
            operation.kind = kind
            operation.addToEdit(changes)
            if let basisVersion, kind == .update {
                operation.basisVersion = basisVersion
                operation.sendsWholeRow = true
            } else if basisVersion != nil {
                row.takeState(of: stored)
            }
            try replace(last, with: operation)
        case .notFound, .nothing, .remove, .replaceDeleted, .alreadyExists:
            throw SyncError.notFound(table: table, id: id)
        }
        try putChanged(row)
        return row
    }

    /// Returns whether the only changes are in columns that stay on the device.
    private func isLocal(_ changes: Row) -> Bool {
        let local = queue.catalog.schema(table)?.localColumns ?? []
        return changes.names.allSatisfy(local.contains)
    }

    /// Removes a row and queues its delete, without checking for rows that refer to it; does
    /// nothing if the row does not exist.
    ///
    /// - Parameters:
    ///   - id: The id of the row.
    ///   - isLast: Whether the delete is sent after all operations that are in the queue now,
    ///     because they may change rows that refer to the row.
    ///   - basisVersion: A closure that returns the version that the app read, if it is older than
    ///     the stored version.
    /// - Throws: ``SyncError`` with code `otherAccount`, or the errors of the store.
    func deleteRow(
        _ id: String,
        isLast: Bool = false,
        basisVersion: (_ stored: Row) -> String? = { _ in nil }
    ) throws {
        if isLocalOnly {
            let removed = try store.delete(ids: [.string(id)], in: table)
            queue.watch?.changed(removed, in: table)
            return
        }
        let stored = try store.row(id: .string(id), in: table)
        let operations = try operations(id)
        let older = stored.flatMap(basisVersion)
        switch effect(of: .delete, on: stored, operations.last) {
        case .append(let kind):
            var operation = QueuedOperation(table: table, itemID: id, kind: kind)
            operation.basisVersion = older
            if operations.isEmpty, let lost = try queue.reader.lostRecords.record(table, id),
                lost.server?.row == nil
            {
                // The restored server has no such row, so there is nothing to send.
                try queue.lostRecords.remove(table, id)
            } else {
                try append(operation, after: operations, stored: stored)
            }
        case .collapse(let kind):
            guard let operation = operations.last else { return }
            try collapse(operation, into: kind, older)
            if isLast { try queue.moveToEnd(operation.id) }
        case .remove:
            guard let operation = operations.last else { return }
            try removeInsert(operation, isOnly: operations.count == 1)
            queue.watch?.changed(1, in: table)
            return
        case .nothing, .notFound, .alreadyExists, .replaceDeleted:
            return
        }
        try store.delete(ids: [.string(id)], in: table)
        queue.watch?.changed(1, in: table)
    }

    /// Deletes the row of a record, even if the record was read in an older state.
    func delete(_ record: Row, identity: RecordIdentity) throws {
        // If the record's type has no version and no time, the stored row is deleted.
        guard identity != .nothing else { return try delete(record.id) }
        let own = try queue.reader.ownStates.states(of: RowKey(table, record.id))
        let base = try queue.reader.operations(table, record.id).first?.basis.base
        try delete(record.id) { stored in
            let state = RowState(record, identity)
            switch RecordAge(of: state, stored: stored, base: base, own: own) {
            case .older(let version): return version
            // The unsent update with an older record does not have to be sent anymore.
            case .own(_, let row) where base == row: return row.version
            case .own, .current: return nil
            }
        }
    }

    /// Replaces the row's previous operation with the delete.
    private func collapse(
        _ last: QueuedOperation,
        into kind: OperationKind,
        _ older: String?
    ) throws {
        try queue.ownStates.endInsert(last)
        var operation = last
        operation.thaw()
        operation.kind = kind
        operation.edit = nil
        operation.sendsWholeRow = false
        operation.basisVersion = older ?? operation.basisVersion
        if last.kind == .insert, let latest = last.basis.latest {
            // It is not known whether the insert arrived, but the current state of the row on the
            // server is known.
            guard case .row(let row) = latest else {
                try release(with: last)
                return try queue.remove(last)
            }
            operation.resetAttempts()
            operation.basis = RowBasis(base: row)
        }
        try replace(last, with: operation)
    }

    /// Removes an insert that never took effect, so that it is not sent.
    ///
    /// If the client knows a server row with the same id, that row replaces the local row. If the
    /// server rejected the insert because of that row, the row is deleted on the server.
    private func removeInsert(_ operation: QueuedOperation, isOnly: Bool) throws {
        let id = operation.itemID
        try release(with: operation)
        try queue.remove(operation)
        try queue.ownStates.endInsert(operation)
        guard isOnly, case .row(let row) = operation.basis.latest else {
            try store.delete(ids: [.string(id)], in: table)
            return
        }
        if operation.state == .parked {
            try store.delete(ids: [.string(id)], in: table)
            var delete = QueuedOperation(table: table, itemID: id, kind: .delete)
            delete.basis = RowBasis(base: row)
            try queue.append(delete)
        } else {
            // The server's row replaces the local row in place, so that the membership that queries
            // reported is kept.
            try store.put([JSONRowReader.withoutDeleted(row)], in: table)
            try queue.membership.confirmHolders(of: row, table)
            try queue.membership.removeRowWithoutQuery(id, table)
        }
    }

    /// Queues an operation after the row's other operations.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - operations: The row's operations.
    ///   - stored: The row before the change.
    /// - Throws: The errors of the store.
    func append(
        _ operation: QueuedOperation,
        after operations: [QueuedOperation],
        stored: Row? = nil
    ) throws {
        var operation = operation
        if var last = operations.last {
            operation.before = stored
            if isSealed(last) {
                last.seal(stored)
                try queue.put(last)
            }
        }
        // If the row has other operations, its local state is not the server's: an insert in flight
        // has no base row yet. A row without a version or a time from the server does not come from
        // the server either.
        if let stored, stored.isFromServer, operations.isEmpty {
            if let lost = try queue.reader.lostRecords.record(table, operation.itemID) {
                operation = try queue.lostRecords.takeOver(lost, for: operation)
            } else {
                operation.basis = RowBasis(base: stored)
            }
        }
        try queue.append(operation)
    }

    private func replace(_ last: QueuedOperation, with operation: QueuedOperation) throws {
        try release(with: last)
        try queue.put(try queue.joined(operation))
        try queue.removeErrors(of: operation.id)
    }

    /// Releases the operations that were parked together with an operation that has changed.
    private func release(with last: QueuedOperation) throws {
        if last.state == .parked { try queue.release(with: last) }
    }
}

extension Row {
    /// Whether the server has ever sent this row, in which case it has a version or a time.
    var isFromServer: Bool {
        version != nil || !(self[SystemColumn.updatedAt] ?? .null).isNull
    }

    var isEmptyRow: Bool { names.isEmpty }

    /// Copies the version and the time of another row.
    mutating func takeState(of other: Row) {
        for name in [SystemColumn.version, SystemColumn.updatedAt] { self[name] = other[name] }
    }
}
