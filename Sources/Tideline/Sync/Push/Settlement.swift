// Settlement: what an answer does to row, queue, base and errors, in one transaction.
//
// Every function here runs inside `LocalStore.write`. The rule for a row that was edited while its
// operation was in flight (guarantee 7): the new local row is the server's answer with the edits
// made since the first attempt on top.

import Foundation
import TidelineCore

struct Settlement {
    let queue: QueueTransaction

    private var store: any LocalStoreWriter { queue.store }

    /// Freezes the next operation, or returns one that is frozen already.
    enum Prepared: Sendable {
        case none
        case ready(QueuedOperation, frozenNow: Bool)
        case skipped(Int64)
    }

    /// `mayBeSent` throws where nothing can be: then nothing is frozen either.
    func prepare(
        after id: Int64,
        environment: SyncEnvironment,
        mayBeSent: () throws -> Void
    ) throws -> Prepared {
        guard var operation = try queue.reader.nextOperation(after: id) else { return .none }
        if operation.frozen != nil {
            try mayBeSent()
            return .ready(operation, frozenNow: false)
        }
        let local = try store.row(id: .string(operation.itemID), in: operation.table)
        let basis = try queue.reader.basis(operation.table, operation.itemID)
        if operation.kind == .update, operation.basisVersion == nil, basis?.base == nil {
            // The server never had the row, as far as is known: without a version to be measured
            // against, a change of it must not hit somebody else's.
            operation.kind = .insert
        }
        guard
            let frozen = OperationRequest.frozen(
                operation,
                local: local,
                basis: basis,
                schema: queue.catalog.schema(operation.table),
                requestID: environment.makeID(),
                now: environment.now()
            )
        else {
            try finish(operation, basis?.lastKnown)
            return .skipped(operation.id)
        }
        try mayBeSent()
        operation.frozen = frozen
        operation.state = .attempted
        try queue.put(operation)
        return .ready(operation, frozenNow: true)
    }

    /// The server holds this state, and the operation is done.
    func accept(_ sent: QueuedOperation, _ server: ServerState) throws {
        guard let operation = try queue.reader.operation(sent.id) else { return }
        try finish(operation, server)
    }

    private func finish(_ operation: QueuedOperation, _ server: ServerState?) throws {
        let (table, id) = (operation.table, operation.itemID)
        try queue.remove(operation)
        let later = try queue.reader.operations(table, id).first { $0.id > operation.id }
        let basis = try queue.reader.basis(table, id) ?? RowBasis()
        guard let server else {
            if later == nil { try queue.removeBasis(table, id) }
            return
        }
        let newest = Self.newer(basis.latest, server)
        guard let later else {
            try apply(newest, table, id)
            try queue.removeBasis(table, id)
            return
        }
        try rebase(later, behind: operation, server, basis)
        try queue.put(
            RowBasis(base: server.row, latest: newest == server ? nil : newest),
            table,
            id
        )
    }

    /// Bases the operation that stands behind a settled one, and the local row, on the outcome.
    private func rebase(
        _ later: QueuedOperation,
        behind operation: QueuedOperation,
        _ server: ServerState,
        _ basis: RowBasis
    ) throws {
        var waiting = later
        if case .deleted(let version, _) = server, later.kind != .insert {
            // The edit behind was made to a row that is gone. It keeps a version to be measured
            // against: without If-Match it could hit a row that somebody brought back meanwhile.
            waiting.basisVersion = version ?? basis.base?.version ?? later.basisVersion
            try queue.put(waiting)
        }
        guard let row = server.row, later.kind != .delete,
            let local = try store.row(id: .string(operation.itemID), in: operation.table)
        else { return }
        if later.kind == .insert {
            // The delete before it did not come to pass: the new row replaces the one that stayed.
            waiting.kind = .update
            waiting.sendsWholeRow = true
            try queue.put(waiting)
        }
        // Before a delete there is no row: then everything in the local one is an edit.
        let sent = operation.frozen?.sentRow ?? (later.kind == .insert ? Row() : local)
        try store.put(
            [RowMerge.rebase(local: local, from: sent, onto: row)],
            in: operation.table
        )
        try queue.confirmHolders(of: row, operation.table)
    }

    /// Takes the row out of the queue's hands: the local row becomes the server's.
    private func apply(_ server: ServerState, _ table: String, _ id: String) throws {
        switch server {
        case .row(let row):
            try store.put([JSONRowReader.withoutDeleted(row)], in: table)
            try queue.confirmHolders(of: row, table)
        case .deleted: try store.delete(ids: [.string(id)], in: table)
        }
    }

    /// The later of two states of the same row; the second where it cannot be told.
    static func newer(_ one: ServerState?, _ two: ServerState) -> ServerState {
        guard let one else { return two }
        if case .row(let left) = one, case .row(let right) = two,
            case .date(let first) = left[SystemColumn.updatedAt],
            case .date(let second) = right[SystemColumn.updatedAt], first > second
        {
            return one
        }
        return two
    }

    /// The operation goes out again, changed, from the same place in the queue.
    ///
    /// The outcome of its attempts is known, so an edit that stands behind it collapses into it.
    func sendAgain(_ changed: QueuedOperation, _ server: ServerState) throws {
        guard let operation = try queue.reader.operation(changed.id) else { return }
        let (table, id) = (changed.table, changed.itemID)
        var basis = try queue.reader.basis(table, id) ?? RowBasis()
        basis.latest = server
        if let later = try queue.reader.operations(table, id).first(where: { $0.id > changed.id }) {
            guard let merged = QueueRules.merge(rejected: operation, behind: later) else {
                _ = try drop(operation, later, basis)
                return
            }
            try queue.remove(later)
            var again = changed
            if merged.kind != operation.kind { again.kind = merged.kind }
            again.sendsWholeRow = again.kind != .delete
            again.revives = changed.revives && again.kind == .update
            try queue.put(again)
        } else {
            try queue.put(changed)
        }
        try queue.put(basis, table, id)
    }

    /// A rejected insert goes whose row was deleted here since.
    ///
    /// The delete behind it is for the row that the server has under that id, if it has one: it
    /// may be this very insert, changed by somebody after its answer was lost. Returns whether
    /// that delete stays.
    private func drop(
        _ operation: QueuedOperation,
        _ later: QueuedOperation,
        _ basis: RowBasis
    ) throws -> Bool {
        let (table, id) = (operation.table, operation.itemID)
        try queue.remove(operation)
        if case .row(let row) = basis.lastKnown {
            try queue.put(RowBasis(base: row), table, id)
            return true
        }
        try queue.remove(later)
        try queue.removeBasis(table, id)
        return false
    }

    /// The server rejected the operation: it waits, with a durable error.
    ///
    /// An edit made while it was in flight releases it at once. Returns whether it is to be sent
    /// again.
    func park(
        _ sent: QueuedOperation,
        _ server: ServerState?,
        error: StoredError
    ) throws -> Bool {
        guard var operation = try queue.reader.operation(sent.id) else { return false }
        let (table, id) = (operation.table, operation.itemID)
        var basis = try queue.reader.basis(table, id) ?? RowBasis()
        if let server { basis.latest = Self.newer(basis.latest, server) }
        if let later = try queue.reader.operations(table, id).first(where: { $0.id > operation.id })
        {
            guard let merged = QueueRules.merge(rejected: operation, behind: later) else {
                return try drop(operation, later, basis)
            }
            try queue.remove(later)
            try queue.put(basis, table, id)
            try queue.put(merged)
            return true
        }
        operation.state = .parked
        try queue.put(basis, table, id)
        try queue.put(operation)
        try queue.removeErrors(of: operation.id)
        try store.put([error.row], in: SystemTables.errors)
        return false
    }
}

extension JSONRowReader {
    /// Local tables hold no tombstones, hence no `deleted`.
    static func withoutDeleted(_ row: Row) -> Row {
        guard row[SystemColumn.deleted] != nil else { return row }
        var result = row
        result[SystemColumn.deleted] = nil
        return result
    }
}
