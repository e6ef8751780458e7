// Settlement: carries out the plans that SettlementPlan describes.
//
// All methods run inside `LocalStore.write`, with a plan that was made before. If a row was edited
// while its operation was in flight (guarantee 7), the new local row is the server's row, with the
// edits made since the first attempt applied to it.

import TidelineCore

/// The application of an operation's outcome to the row, queue, base row and errors, in one
/// transaction.
struct Settlement {
    let queue: QueueTransaction

    private var store: any LocalStoreWriter { queue.store }

    /// Applies the outcome of an operation that was sent.
    ///
    /// `operations` has the current operations of the row. If the app has removed the operation in
    /// the meantime, nothing is changed.
    func apply(
        _ sent: QueuedOperation,
        _ plan: SettlementPlan,
        among operations: [QueuedOperation],
        own: [OwnState]
    ) throws -> SettlementResult {
        guard var operation = operations.first(where: { $0.id == sent.id }) else { return .gone }
        // A response belongs to one request. If the operation has a new request since then, it is
        // resent.
        guard operation.damage != nil || operation.frozen?.requestID == sent.frozen?.requestID
        else { return .resend }
        operation.outcomeUnknown = operation.outcomeUnknown || sent.outcomeUnknown
        operation.unknownSent = operation.unknownSent ?? sent.unknownSent
        let later = operations.first { $0.id > sent.id }
        if operation.damage == nil { try keepStates(of: operation, plan, operations, own) }
        switch plan {
        case .accept(let server, let isOwn, let isDone):
            try finish(operation, later, server, isOwn: isOwn, isDone: isDone)
            return .completed
        case _ where operation.damage != nil:
            // The operation cannot be changed. The next push parks it, and later operations of its
            // row wait.
            operation.state = .pending
            try queue.put(operation)
            return .resend
        case .lose(let row, _) where later == nil:
            try queue.remove(operation)
            try queue.lostRecords.lose(operation.table, operation.itemID, server: row)
            return .completed
        case .lose(let row, let changed):
            try sendAgain(changed, operation, later, .row(row))
            return .resend
        case .sendAgain(let changed, let server):
            try sendAgain(changed, operation, later, server)
            return .resend
        case .retry(let changed):
            return try sendAgain(changed, operation, later, nil) ? .untouched : .dropped
        case .rebase(let row):
            let (sent, row) = (operation.unknownSent ?? Row(), JSONRowReader.withoutDeleted(row))
            try rebase(operation, later, from: sent, to: row, onto: row)
            return .resend
        case .merge(let merged, let row):
            let sent = operation.frozen?.sentRow ?? Row()
            let joined = JSONRowReader.withoutDeleted(merged)
            try rebase(operation, later, from: sent, to: joined, onto: row)
            return .resend
        case .ask(let server):
            operation.basis.latest = ServerState.later(operation.basis.latest, server)
            try queue.put(operation)
            return .asked
        case .park(let server, let error):
            if let waiting = try waitForReference(operation, later, error) {
                return waiting
            }
            return try park(operation, later, server, error)
        }
    }

    // MARK: - Accepted

    /// Stores the state that an accepted operation replaced, or records that another writer's row
    /// replaced an inserted row.
    ///
    /// `operations` has the operations of the row, and `own` the row states that this device's
    /// pushes have replaced.
    private func keepStates(
        of operation: QueuedOperation,
        _ plan: SettlementPlan,
        _ operations: [QueuedOperation],
        _ own: [OwnState]
    ) throws {
        switch plan {
        case .accept(.deleted, _, _) where operation.kind == .delete:
            return try queue.ownStates.forget(own, of: operation.row)
        case .accept(let server, isOwn: true, _):
            guard let after = server.row else {
                return try queue.ownStates.forget(own, of: operation.row)
            }
            // If the server has no versions, nothing is known about the row's states.
            guard after.version != nil else {
                return try queue.ownStates.forget(own, of: operation.row, keepsInserted: false)
            }
            let sent = operation.frozen?.sentRow
            if try keepReplaced(by: operation, sent, after, operations, own) { return }
        case .rebase(let after):
            // The earlier form of the operation has taken effect, and the row has all its values.
            if try keepReplaced(by: operation, operation.unknownSent, after, operations, own) {
                return
            }
        case .accept(_, isOwn: false, _): break
        case .sendAgain(_, let server), .ask(let server), .park(let server?, _):
            guard server.row != nil else { return }
        case .merge: break
        case .lose, .retry, .park(nil, _): return
        }
        guard operation.kind == .insert else { return }
        try queue.ownStates.loseInsert(own, of: operation.row)
    }

    /// Stores the state that `after` replaced when the operation was accepted.
    ///
    /// - Returns: False if the state is not known.
    private func keepReplaced(
        by operation: QueuedOperation,
        _ sent: Row?,
        _ after: Row,
        _ operations: [QueuedOperation],
        _ own: [OwnState]
    ) throws -> Bool {
        if let inserted = own.pendingInsert,
            let local = try store.row(id: .string(operation.itemID), in: operation.table),
            !local.isFromServer
        {
            // The stored row may belong to a later operation. In that case, this operation replaced
            // a row that the app has deleted since then.
            if !operations.contains(where: { $0.id > operation.id && $0.replacesRow }), let sent {
                try queue.ownStates.keepInsert(
                    inserted,
                    replacedBy: after,
                    sent,
                    among: own,
                    of: operation.row
                )
            }
            return true
        }
        guard let replaced = OwnState(replacedBy: operation, sent: sent, after: after) else {
            return false
        }
        try queue.ownStates.keep(replaced, behind: own, of: operation.row)
        return true
    }

    /// Completes the operation; `server` is the server's state, if it is known.
    ///
    /// `isOwn` is true if no other writer changed the row in between, although the response may be
    /// the replayed answer to an earlier attempt. `isDone` is true if the operation took effect.
    func finish(
        _ operation: QueuedOperation,
        _ later: QueuedOperation?,
        _ server: ServerState?,
        isOwn: Bool = false,
        isDone: Bool = false
    ) throws {
        try queue.remove(operation)
        var basis = operation.basis
        guard let server else {
            guard var later else { return }
            later.basis = basis
            return try queue.put(later)
        }
        let newest =
            isOwn
            ? ServerState.newest(after: server, to: operation)
            : ServerState.later(basis.latest, server)
        guard let later else {
            // Changes of membership that queries reported for a missing row were not stored, so the
            // pulls start over.
            if operation.kind == .delete, newest != server, newest.row != nil {
                try queue.pullState.resetCursors(of: operation.table)
            }
            return try apply(newest, operation.table, operation.itemID)
        }
        basis = RowBasis(base: server.row, latest: newest == server ? nil : newest)
        try moveUp(later, behind: operation, server, basis, isOwn: isOwn, isDone: isDone)
    }

    /// Bases the next operation of a row, and the local row, on the outcome of the previous
    /// operation.
    ///
    /// For `isOwn` and `isDone`, see ``finish(_:_:_:isOwn:isDone:)``. If `isDone` is false, the
    /// server's row replaced the previous operation.
    func moveUp(
        _ later: QueuedOperation,
        behind operation: QueuedOperation,
        _ server: ServerState,
        _ basis: RowBasis,
        isOwn: Bool = false,
        isDone: Bool
    ) throws {
        if !isOwn, later.isInherited, server.row != nil {
            return try stay(later, behind: operation, server)
        }
        var waiting = later
        waiting.basis = basis
        waiting.before = nil
        if case .deleted(let version, _) = server, later.kind != .insert {
            // The next edit was made to a row that no longer exists. The edit keeps a base version,
            // because without `If-Match` it could overwrite a row that another writer has restored
            // in the meantime.
            waiting.basisVersion =
                version ?? operation.basis.base?.version ?? later.basisVersion
            if later.kind == .update, let base = operation.basis.base {
                // If another writer restores the row, the base row still shows which edits only
                // restore an earlier value.
                waiting.basis = RowBasis(base: base, latest: basis.latest ?? server)
                waiting.sendsWholeRow = true
            }
            // The local row still contains the change of the previous operation and its group.
            if !isDone, later.kind == .update, !operation.isChained(to: later) {
                waiting = try queue.joined(waiting, with: operation)
            }
        }
        guard let row = server.row, later.kind != .delete,
            let local = try store.row(id: .string(operation.itemID), in: operation.table)
        else { return try queue.put(waiting) }
        // A pull may have fetched a later state than a replayed answer, and the query membership is
        // that of the later state.
        let newest = basis.lastKnown?.row ?? row
        if later.kind == .insert {
            // The preceding delete was not executed, so the new row replaces the row that still
            // exists.
            waiting.kind = .update
            waiting.sendsWholeRow = true
        }
        try queue.put(waiting)
        if later.kind == .insert, let edit = later.edit, let result = waiting.result(local: nil) {
            // Later changes were made to the new row, which keeps no value of the row that still
            // exists.
            try queue.rebaseFollowing(waiting, from: edit, onto: result)
            return try queue.membership.confirmHolders(of: newest, operation.table)
        }
        guard try !later.replacesRow && !queue.reader.isReplaced(behind: waiting) else {
            return try queue.membership.confirmHolders(of: newest, operation.table)
        }
        // A delete leaves no row, so every value of the local row is an edit.
        var sent =
            operation.frozen?.sentRow ?? operation.edit.flatMap { _ in
                operation.result(local: local)
            }
            ?? local
        if !isDone, later.kind == .update, !operation.isChained(to: later),
            let base = operation.basis.base
        {
            // If the next edit only restored the value from before both operations, that value is
            // not an edit.
            for (name, value) in RowMerge.payload(local) where RowMerge.same(base[name], value) {
                if let change = sent[name], let now = row[name],
                    RowMerge.same(now, now.applying(from: base[name], to: change))
                {
                    // The server's row still has the change of the operation, so the next operation
                    // changes it back.
                    continue
                }
                sent[name] = value
            }
        }
        var rebased = RowMerge.rebase(local: local, from: sent, onto: row)
        if waiting.basisVersion != nil { rebased.takeState(of: local) }
        if waiting.edit != nil { try queue.rebaseFollowing(waiting, from: sent, onto: row) }
        try store.put([rebased], in: operation.table)
        try queue.membership.confirmHolders(of: newest, operation.table)
    }

    /// Leaves an inherited operation unchanged in the queue after the server's row replaced the
    /// previous operation.
    ///
    /// The store that this one was copied from may have sent the operation, and newer edits since
    /// then. The base of the operation does not change, so that the operation causes a conflict as
    /// well. The change of the previous operation is removed from the local row.
    private func stay(
        _ later: QueuedOperation,
        behind operation: QueuedOperation,
        _ server: ServerState
    ) throws {
        var waiting = later
        let base = operation.basis.base
        waiting.before = nil
        waiting.basis = RowBasis(base: base, latest: server)
        // An empty version never matches.
        waiting.basisVersion =
            later.basisVersion ?? operation.basisVersion ?? base?.version ?? ""
        if later.kind == .insert { waiting.kind = .update }
        if waiting.kind == .update, later.kind == .insert || base == nil {
            waiting.sendsWholeRow = true
        }
        try queue.put(waiting)
        guard later.kind == .update, let base,
            let sent = operation.frozen?.sentRow
                ?? operation.edit.flatMap({ _ in operation.result(local: nil) })
        else { return }
        try queue.rebaseFollowing(operation, from: sent, onto: base)
    }

    /// Replaces the local row with the server's row, or deletes it if the server's row is deleted.
    func apply(_ server: ServerState, _ table: String, _ id: String) throws {
        switch server {
        case .row(let row):
            try store.put([JSONRowReader.withoutDeleted(row)], in: table)
            try queue.membership.confirmHolders(of: row, table)
        case .deleted:
            try store.delete(ids: [.string(id)], in: table)
            try LocalChildren(queue: queue).follow(deletesOf: [id], in: table)
        }
    }

    // MARK: - Sent again

    /// Resends the modified operation from the same position in the queue.
    ///
    /// The outcome of its attempts is known, so the edit that follows it is merged into it.
    /// `server` is the row's state in a response; nil if the response contained no state.
    ///
    /// - Returns: Whether there is still an operation to send.
    @discardableResult
    func sendAgain(
        _ changed: QueuedOperation,
        _ operation: QueuedOperation,
        _ later: QueuedOperation?,
        _ server: ServerState?
    ) throws -> Bool {
        var again = changed
        again.basis = operation.basis
        if let server { again.basis.latest = server }
        again.group = operation.group
        guard let later else {
            try queue.put(again)
            return true
        }
        if operation.isChained(to: later) {
            try keepEdit(of: operation, in: &again)
            try queue.put(again)
            return true
        }
        var known = operation
        known.outcomeUnknown = false
        guard let merged = QueueRules.merge(rejected: known, behind: later) else {
            _ = try drop(operation, later, again.basis)
            return false
        }
        if operation.kind == .insert, merged.kind == .delete {
            try queue.ownStates.endInsert(operation)
        }
        try queue.remove(later)
        again.group = try queue.joined(merged, with: later).group
        again.edit = merged.edit
        if merged.kind != operation.kind { again.kind = merged.kind }
        // The operation is resent unchanged. If the following edit was made to an older version, it
        // stays based on that version.
        if changed.basisVersion == operation.basisVersion {
            again.basisVersion = merged.basisVersion
        }
        again.sendsWholeRow = again.kind != .delete
        again.revives = changed.revives && again.kind == .update
        try queue.put(again)
        return true
    }

    /// Stores the change of an operation if the next operation on the same row belongs to another
    /// group.
    ///
    /// The change is then still known if the operation is sent in another form.
    func keepEdit(
        of operation: QueuedOperation,
        in again: inout QueuedOperation
    ) throws {
        guard again.kind != .delete else {
            again.edit = nil
            return
        }
        let local = try store.row(id: .string(operation.itemID), in: operation.table)
        let row = operation.frozen?.sentRow ?? operation.result(local: local)
        if again.sendsWholeRow {
            again.edit = row.map(RowMerge.payload)
        } else {
            again.seal(row)
        }
    }

    /// Bases the operation on the server's row, and sets the local row to `joined` with the edits
    /// made since `sent` applied.
    private func rebase(
        _ operation: QueuedOperation,
        _ later: QueuedOperation?,
        from sent: Row,
        to joined: Row,
        onto row: Row
    ) throws {
        let newest = ServerState.later(operation.basis.latest, .row(row))
        var again = operation
        again.resetAttempts()
        again.kind = operation.kind == .delete ? .delete : .update
        again.basis = RowBasis(base: row, latest: newest == .row(row) ? nil : newest)
        again.basisVersion = nil
        again.sendsWholeRow = false
        again.revives = false
        again.conflicts = operation.conflicts + 1
        if let later, again.kind != .delete, operation.isChained(to: later) || later.edit != nil {
            again.edit = RowMerge.changes(from: row, to: joined)
        }
        if let later, operation.isChained(to: later) {
            try queue.put(again)
            guard again.kind != .delete else { return }
            return try queue.rebaseFollowing(operation, from: sent, onto: joined)
        }
        if let later, let merged = QueueRules.merge(rejected: again, behind: later) {
            try queue.remove(later)
            again = try queue.joined(merged, with: later)
            again.conflicts = operation.conflicts + 1
        }
        try queue.put(again)
        guard again.kind != .delete,
            let local = try store.row(id: .string(operation.itemID), in: operation.table)
        else { return }
        var rebased = RowMerge.rebase(local: local, from: sent, onto: joined)
        if again.basisVersion != nil { rebased.takeState(of: local) }
        try store.put([rebased], in: operation.table)
    }

    /// Merges the following operation into a rejected one, which is then resent.
    func collapse(
        _ operation: QueuedOperation,
        _ later: QueuedOperation
    ) throws -> SettlementResult {
        guard let merged = QueueRules.merge(rejected: operation, behind: later) else {
            return try drop(operation, later, operation.basis)
        }
        if operation.kind == .insert, merged.kind == .delete {
            try queue.ownStates.endInsert(operation)
        }
        try queue.remove(later)
        try queue.put(try queue.joined(merged, with: later))
        return .released
    }

    /// Removes a rejected insert whose row was deleted locally after it was sent.
    ///
    /// The delete that follows the insert applies to the server's row with the same id, if there is
    /// one. That row may be the result of this insert, changed by another writer after the response
    /// was lost.
    private func drop(
        _ operation: QueuedOperation,
        _ later: QueuedOperation,
        _ basis: RowBasis
    ) throws -> SettlementResult {
        try queue.remove(operation)
        try queue.ownStates.endInsert(operation)
        guard case .row(let row) = basis.lastKnown else {
            try queue.remove(later)
            return .dropped
        }
        var delete = later
        delete.basis = RowBasis(base: row)
        try queue.put(delete)
        return .dropped
    }

    // MARK: - Parked

    /// Parks an operation that the server rejected, with an error that is kept in the store.
    ///
    /// If the row was edited while the request was in flight, the edit releases the operation
    /// immediately.
    func park(
        _ rejected: QueuedOperation,
        _ later: QueuedOperation?,
        _ server: ServerState?,
        _ text: ParkText
    ) throws -> SettlementResult {
        var operation = rejected
        if let server { operation.basis.latest = ServerState.later(operation.basis.latest, server) }
        if let later, operation.isChained(to: later) {
            // The changes that other transactions made to the row wait for this operation.
            let before = operation
            try keepEdit(of: before, in: &operation)
        } else if let later {
            // Whatever happened to the insert, the response contains the current state of the row
            // on the server.
            let isKnown = server != nil && operation.kind == .insert && later.kind == .delete
            return isKnown
                ? try drop(operation, later, operation.basis) : try collapse(operation, later)
        }
        operation.state = .parked
        try queue.put(operation)
        try queue.removeErrors(of: operation.id)
        let local = try store.row(id: .string(operation.itemID), in: operation.table)
        var error = StoredError(
            id: text.errorID,
            operation: operation,
            statusCode: text.status,
            message: text.message,
            item: local,
            serverItem: server?.row
        )
        error.conditions = text.conditions
        error.brokenRule = text.brokenRule
        error.reference = text.reference
        try store.put([error.row], in: SystemTables.errors)
        return .parked
    }
}

extension JSONRowReader {
    /// Returns the row without `deleted`, because local tables have no tombstones.
    static func withoutDeleted(_ row: Row) -> Row {
        guard row[SystemColumn.deleted] != nil else { return row }
        var result = row
        result[SystemColumn.deleted] = nil
        return result
    }
}
