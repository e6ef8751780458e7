// Settlement+Resolution: stores the app's resolution of a conflict in one transaction.
//
// The handler received the row with all its edits, so the resolution also covers the next
// operation.

import TidelineCore

extension Settlement {
    func resolve(
        _ view: ConflictView,
        _ resolution: Resolution,
        _ text: ParkText
    ) throws -> SettlementResult {
        let (operation, later, server) = (view.operation, view.later, view.server)
        switch resolution {
        case .fail:
            return try park(operation, later, server, text)
        case .local:
            let again = ConflictRules.onTop(operation, server)
            try sendAgain(again, operation, later, server)
            return .resend
        case .server:
            try drop(view)
            try apply(server, operation.table, operation.itemID)
            return .completed
        case .delete:
            return try delete(view)
        case .write(let row):
            try write(row, view)
            return .resend
        }
    }

    private func drop(_ view: ConflictView) throws {
        try queue.removeFollowing(view.operation)
        try queue.ownStates.endInsert(view.operation)
        try queue.remove(view.operation)
    }

    private func delete(_ view: ConflictView) throws -> SettlementResult {
        let (table, id) = (view.operation.table, view.operation.itemID)
        try queue.store.delete(ids: [.string(id)], in: table)
        guard case .row = view.server else {
            try drop(view)
            try LocalChildren(queue: queue).follow(deletesOf: [id], in: table)
            return .completed
        }
        var operation = view.operation
        operation.kind = .delete
        try replace(view, with: operation)
        return .resend
    }

    private func write(_ row: Row, _ view: ConflictView) throws {
        let (table, id) = (view.operation.table, view.operation.itemID)
        var operation = view.operation
        operation.kind = .update
        let known = view.server.row.map(JSONRowReader.withoutDeleted) ?? Row()
        var new = queue.catalog.row(known, of: table, with: row)
        new["id"] = .string(id)
        try replace(view, with: operation)
        try queue.store.put([new], in: table)
        if let server = view.server.row { try queue.membership.confirmHolders(of: server, table) }
    }

    /// Resends the operation on top of the server's state, merged with the operations that follow
    /// it.
    private func replace(_ view: ConflictView, with operation: QueuedOperation) throws {
        var again = ConflictRules.onTop(operation, view.server)
        again.edit = nil
        if let later = view.later {
            // The handler has seen the row with all its edits.
            try queue.removeFollowing(view.operation)
            if !again.isChained(to: later) { again = try queue.joined(again, with: later) }
        }
        again.basis = operation.basis
        if case .row(let row) = view.server, again.kind == .update {
            // The request sends only the differences from the server's row.
            again.basis = RowBasis(base: row)
            again.basisVersion = nil
            again.sendsWholeRow = false
        } else {
            again.basis.latest = view.server
        }
        try queue.put(again)
    }
}
