// OperationRemoval: removes operations that the app discards, and updates the rows on the device
// accordingly.

import TidelineCore

extension QueueTransaction {
    /// The removal of operations that the app discards.
    var removal: OperationRemoval { OperationRemoval(queue: self) }
}

/// The removal of operations that the app discards.
struct OperationRemoval {
    let queue: QueueTransaction

    /// Removes an operation from the queue, and replaces the local row with the newest known row of
    /// the server.
    ///
    /// If `keepsLostBases` is true, a base row that a restored server may have lost is kept
    /// instead.
    func discard(_ operation: QueuedOperation, keepsLostBases: Bool = true) throws {
        try queue.remove(operation)
        // If an operation cannot be decoded, its row is kept until it is pulled again. If the app
        // does not declare a table, the table's rows cannot be accessed.
        guard operation.damage == nil, queue.catalog.names(tableOf: operation) else {
            return try letGo(behind: operation)
        }
        try queue.ownStates.endInsert(operation)
        let others = try queue.reader.allOperations(operation.table, operation.itemID)
        if let earlier = others.last(where: { $0.id < operation.id }) {
            return try discard(operation, behind: earlier, among: others)
        }
        if let next = others.first { return try discard(operation, before: next) }
        if try keepsLostBases && queue.lostRecords.mayHaveLostBase(of: operation) {
            return try queue.lostRecords.keepBase(of: operation)
        }
        switch operation.basis.lastKnown {
        case .row(let row):
            // The row was deleted here, and may have been inserted again. In the meantime, neither
            // membership changes that queries reported nor a loss by a restored server was stored,
            // so the queries restart.
            let stored = try queue.store.row(id: .string(operation.itemID), in: operation.table)
            if stored == nil || operation.kind == .update && operation.replacesRow {
                try queue.pullState.resetCursors(of: operation.table)
            }
            try queue.store.put([JSONRowReader.withoutDeleted(row)], in: operation.table)
            try queue.membership.confirmHolders(of: row, operation.table)
            try queue.membership.removeRowWithoutQuery(operation.itemID, operation.table)
        case .deleted:
            try queue.store.delete(ids: [.string(operation.itemID)], in: operation.table)
            try LocalChildren(queue: queue).follow(
                deletesOf: [operation.itemID],
                in: operation.table
            )
        case nil:
            try queue.store.delete(ids: [.string(operation.itemID)], in: operation.table)
        }
    }

    /// Handles the removal of an operation that precedes others on the same row, whose changes are
    /// kept.
    ///
    /// If the server has no such row, the later operations are removed as well.
    private func discard(_ operation: QueuedOperation, before next: QueuedOperation) throws {
        guard let server = operation.basis.lastKnown, server.row != nil else {
            try queue.removeFollowing(operation)
            try queue.store.delete(ids: [.string(operation.itemID)], in: operation.table)
            if operation.basis.lastKnown != nil {
                try LocalChildren(queue: queue).follow(
                    deletesOf: [operation.itemID],
                    in: operation.table
                )
            }
            return
        }
        try Settlement(queue: queue)
            .moveUp(next, behind: operation, server, RowBasis(base: server.row), isDone: false)
    }

    /// Handles the removal of an operation that follows another one on the same row; the changes of
    /// all other operations are kept.
    private func discard(
        _ operation: QueuedOperation,
        behind earlier: QueuedOperation,
        among others: [QueuedOperation]
    ) throws {
        let (table, id) = (operation.table, operation.itemID)
        guard var next = others.first(where: { $0.id > operation.id }) else {
            if let before = operation.before {
                try queue.store.put([before], in: table)
            } else if earlier.kind == .delete {
                try queue.store.delete(ids: [.string(id)], in: table)
            }
            return
        }
        switch operation.kind {
        case .insert:
            // The preceding delete remains, so the later operations have no row to change.
            try queue.removeFollowing(operation)
            try queue.store.delete(ids: [.string(id)], in: table)
        case .delete:
            // The new row replaces the row that remains.
            next.kind = .update
            next.sendsWholeRow = true
            try queue.put(next)
        case .update:
            let before = others.filter { $0.id < operation.id }
            guard let to = QueuedOperation.result(of: before),
                let from = QueuedOperation.result(of: before + [operation])
            else { return }
            try queue.rebaseFollowing(operation, from: from, onto: to)
        }
    }

    /// Handles the removal of an operation that could not be decoded, or whose table the app does
    /// not declare.
    ///
    /// The queries of the table restart, because changes that pulls reported for the row were not
    /// stored. The next operation of the row is based on the version of the local row. If there is
    /// no such version, the operation is based on the empty version, which no row of the server
    /// has.
    func letGo(behind dropped: QueuedOperation) throws {
        let (table, id) = (dropped.table, dropped.itemID)
        try queue.pullState.resetCursors(of: table)
        guard var next = try queue.reader.operations(table, id).first, next.frozen == nil,
            next.basis.base == nil, next.basisVersion == nil
        else { return }
        let local = try queue.reader.localRow(of: next)
        switch next.kind {
        case .insert: return
        case .update where local?.isFromServer == false: return
        case .update: next.sendsWholeRow = true
        case .delete: break
        }
        next.basisVersion = local?.version ?? ""
        try queue.put(next)
    }

    /// Removes operations from the queue, and replaces their rows with the newest known rows of the
    /// server.
    ///
    /// If `keepsLostBases` is true, base rows that a restored server may have lost are kept
    /// instead.
    func discard(_ operations: [QueuedOperation], keepsLostBases: Bool = true) throws {
        // The last operation of a row is removed first, so that the remaining operations are not
        // followed by others.
        for operation in operations.reversed() {
            try queue.watch?.check()
            try discard(operation, keepsLostBases: keepsLostBases)
        }
    }

    /// Undoes the other changes of a delete's group when the app discards the delete after a
    /// rejection.
    ///
    /// These changes are the deletes of related rows, and the references that became null.
    func restoreRelated(_ discarded: QueuedOperation) throws {
        guard discarded.kind == .delete, let group = discarded.group else { return }
        let members = try queue.reader.members(of: group).filter { $0.damage == nil }
        let deletes = Dictionary(
            members.filter { $0.kind == .delete }.map { ($0.row, $0) },
            uniquingKeysWith: { $1 }
        )
        var open = [discarded]
        var seen: Set = [discarded.row]
        while let delete = open.popLast() {
            var related =
                delete.basis.lastKnown?.row
                .map { queue.catalog.references.parents(of: $0, in: delete.table) } ?? []
            for edge in queue.catalog.references.children(of: delete.table) {
                for member in members where refers(member, to: delete, by: edge) {
                    if member.kind == .delete {
                        related.append(member.row)
                    } else if edge.rule == .setNull {
                        try setAgain(edge.column, to: delete.itemID, of: member.row)
                    }
                }
            }
            for row in related where seen.insert(row).inserted {
                guard let other = deletes[row] else { continue }
                open.append(other)
                try discard(other)
            }
        }
    }

    /// Returns whether a row, in its last known state, referred to a deleted row.
    private func refers(
        _ member: QueuedOperation,
        to delete: QueuedOperation,
        by edge: ModelReferences.Edge
    ) -> Bool {
        member.table == edge.child
            && member.basis.lastKnown?.row?[edge.column]?.text == delete.itemID
    }

    private func setAgain(_ column: String, to id: String, of row: RowKey) throws {
        guard let stored = try queue.store.row(id: .string(row.itemID), in: row.table),
            stored[column]?.isNull ?? true
        else { return }
        var changed = stored
        changed[column] = .string(id)
        _ = try LocalChanges(queue: queue, table: row.table).change(stored, to: changed)
    }
}
