// LocalChanges: what the app does to a row, with its queue entry, in one transaction.

import Foundation
import TidelineCore

struct LocalChanges {
    let queue: QueueTransaction
    let table: String

    private var store: any LocalStoreWriter { queue.store }

    /// Stores a new row and queues its insert.
    func insert(_ row: Row) throws -> Row {
        let id = row.id
        let stored = try store.row(id: .string(id), in: table)
        let last = try queue.reader.operations(table, id).last
        var new = RowMerge.payload(row)
        new["id"] = .string(id)
        switch QueueRules.effect(of: .insert, rowExists: stored != nil, last: last) {
        case .append(let kind):
            try append(kind, id)
        case .replaceDeleted:
            guard var operation = last else { break }
            operation.thaw()
            operation.kind = .update
            operation.sendsWholeRow = true
            try replace(operation)
            let base = try queue.reader.basis(table, id)?.base
            for name in [SystemColumn.version, SystemColumn.createdAt, SystemColumn.updatedAt] {
                new[name] = base?[name]
            }
        default:
            throw SyncError.alreadyExists(table: table, id: id)
        }
        try store.put([new], in: table)
        return new
    }

    /// Changes a row and queues the update.
    ///
    /// `handedOut` is the row as the app saw it last without a version.
    /// `normalized` is a row as the record type encodes it: what differs only by that is no edit.
    func update(
        _ edited: Row,
        handedOut: Row?,
        normalized: (Row) -> Row?
    ) throws -> Row {
        let id = edited.id
        guard let stored = try store.row(id: .string(id), in: table) else {
            throw SyncError.notFound(table: table, id: id)
        }
        let version = edited.version
        let isOlder = version != nil && version != stored.version
        let before = (version == nil ? handedOut : nil) ?? normalized(stored) ?? stored
        var row = stored
        for (name, value) in RowMerge.changes(from: before, to: edited) where edited[name] != nil {
            row[name] = value
        }
        return try change(stored, to: row, basisVersion: isOlder ? version : nil)
    }

    /// Stores a changed row, when it is changed, and queues its update.
    func change(_ stored: Row, to row: Row, basisVersion: String? = nil) throws -> Row {
        let id = stored.id
        let last = try queue.reader.operations(table, id).last
        let isChanged = !RowMerge.changes(from: stored, to: row).isEmptyRow
        guard isChanged || basisVersion != nil || last?.state == .parked else { return stored }
        switch QueueRules.effect(of: .update, rowExists: true, last: last) {
        case .append(let kind):
            try append(kind, id, stored: stored, basisVersion: basisVersion)
        case .collapse(let kind):
            guard var operation = last else { break }
            operation.thaw()
            operation.kind = kind
            if let basisVersion, kind == .update {
                operation.basisVersion = basisVersion
                operation.sendsWholeRow = true
            }
            try replace(operation)
        default:
            throw SyncError.notFound(table: table, id: id)
        }
        try store.put([row], in: table)
        return row
    }

    /// Removes a row and queues its delete; a row that is not there is left alone.
    func delete(_ id: String, version: String? = nil) throws {
        let stored = try store.row(id: .string(id), in: table)
        let last = try queue.reader.operations(table, id).last
        let older = version != nil && version != stored?.version ? version : nil
        switch QueueRules.effect(of: .delete, rowExists: stored != nil, last: last) {
        case .append(let kind):
            try append(kind, id, stored: stored, basisVersion: older)
        case .collapse(let kind):
            guard var operation = last else { return }
            operation.thaw()
            operation.kind = kind
            operation.sendsWholeRow = false
            operation.basisVersion = older ?? operation.basisVersion
            try replace(operation)
        case .remove:
            guard let operation = last else { return }
            try removeInsert(operation)
            return
        default:
            return
        }
        try store.delete(ids: [.string(id)], in: table)
    }

    /// An insert that never had an effect goes, and nothing of it is ever sent.
    ///
    /// What the server has under that id, if it was seen, takes its place. But if the server
    /// rejected the insert because of that row, the delete is meant for it.
    private func removeInsert(_ operation: QueuedOperation) throws {
        let id = operation.itemID
        try queue.remove(operation)
        try store.delete(ids: [.string(id)], in: table)
        guard try queue.reader.operations(table, id).isEmpty else { return }
        let latest = try queue.reader.basis(table, id)?.latest
        try queue.removeBasis(table, id)
        guard case .row(let row) = latest else { return }
        if operation.state == .parked {
            try append(.delete, id, stored: row)
        } else {
            try store.put([JSONRowReader.withoutDeleted(row)], in: table)
        }
    }

    private func append(
        _ kind: OperationKind,
        _ id: String,
        stored: Row? = nil,
        basisVersion: String? = nil
    ) throws {
        var operation = QueuedOperation(
            id: try queue.nextOperationID(),
            table: table,
            itemID: id,
            kind: kind
        )
        operation.basisVersion = basisVersion
        operation.sendsWholeRow = basisVersion != nil && kind == .update
        // Behind other operations the row is no server row: an insert in flight has no base yet.
        // Nor is a row that the server never gave a version or a time.
        if let stored, stored.isFromServer, try queue.reader.operations(table, id).isEmpty {
            try queue.put(RowBasis(base: stored), table, id)
        }
        try queue.put(operation)
    }

    private func replace(_ operation: QueuedOperation) throws {
        try queue.put(operation)
        try queue.removeErrors(of: operation.id)
    }
}

extension Row {
    /// Whether the server has ever sent this row: it has a version or a time then.
    var isFromServer: Bool {
        version != nil || !(self[SystemColumn.updatedAt] ?? .null).isNull
    }

    var isEmptyRow: Bool { names.isEmpty }
}
