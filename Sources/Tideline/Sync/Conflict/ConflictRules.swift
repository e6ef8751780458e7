// ConflictRules: the decision about a response with another row than the one that a change was based on.
//
// Pure; the table is in docs/SYNC.md.

package import TidelineCore

/// The decision about a conflict.
package enum ConflictOutcome: Sendable, Hashable {
    /// The server already has the values that were sent: an earlier attempt arrived, or both sides agree.
    case alreadyApplied(ServerState)
    /// The server's row becomes the local one.
    case takeServer(ServerState)
    /// The operation, changed like this, is sent again on top of the server's row.
    case sendAgain(QueuedOperation)
    /// No attempt took effect, and the server's row is unchanged, so this is not a conflict. The operation is
    /// retried with a new request.
    case tryAnew(QueuedOperation)
    /// An earlier form of the operation arrived, and this row is its result: the changes made since are
    /// sent on top.
    case rebase(Row)
    /// The row that both changes make is sent on top of the server's.
    case merged(Row, onto: Row)
    /// The app's handler decides.
    case ask(ServerState)
    /// The operation is parked: both sides changed these columns, to different values; `faults` says by
    /// column why it cannot hold the value of its rule.
    case contested([String], faults: [String: String])
    /// The operation is parked.
    case park
}

package enum ConflictRules {
    /// Decides a conflict.
    ///
    /// `payload` is the row that the operation sent, nil for a delete. `wasRead`: the server's row was not in
    /// a response to the operation, but was read because the outcome is unknown.
    /// `isFirstAnswer`: the server recognizes repeated requests, and says that no attempt took effect.
    /// `isSentElsewhere`: a copy of the store sent the operation in another form, so the server's row may
    /// contain it, and newer edits. `isRestored`: the server was restored from a backup since the change was
    /// made, and has an older state of the row than the change was based on, or none.
    package static func outcome(
        _ operation: QueuedOperation,
        payload: Row?,
        server: ServerState,
        wasRead: Bool = false,
        isFirstAnswer: Bool = false,
        isSentElsewhere: Bool = false,
        isRestored: Bool = false,
        policy: ConflictPolicy,
        schema: TableSchema? = nil,
        limits: SyncLimits
    ) -> ConflictOutcome {
        let mayGoAgain = operation.conflicts < limits.conflictsMax
        if isRestored {
            return onRestored(operation, server, policy, mayGoAgain: mayGoAgain)
        }
        // Equal values may come from one change that a lower layer sent twice. Only a server that
        // recognizes repeated requests can show that they are two changes.
        let addsUp =
            isFirstAnswer && !wasRead && operation.unknownSent == nil && mayGoAgain
            && isEdit(operation) && policy.addsUp(columnsOf: payload)
        if isApplied(operation, payload: payload, server: server), !addsUp {
            return .alreadyApplied(server)
        }
        let earlier = operation.unknownSent.map(RowMerge.payload)
        if operation.outcomeUnknown, let earlier, case .row(let row) = server,
            RowMerge.holds(row, earlier)
        {
            return .rebase(row)
        }
        // Whatever responded instead of the server, no policy has anything to decide.
        if wasRead, !isSentElsewhere, isUntouched(operation, by: server) {
            return .tryAnew(anew(operation))
        }
        // An insert whose id belongs to a tombstone brings that row back. With an unknown outcome
        // only if the tombstone holds something else: it may be of this very insert, deleted since.
        // One that was edited since an attempt is more than what the tombstone holds.
        if isInsertDeletedSince(operation, payload, server) {
            return .alreadyApplied(server)
        }
        if operation.kind == .insert, case .deleted(.some, let tombstone) = server,
            !operation.outcomeUnknown
                || !isOf([payload, earlier], tombstone)
        {
            return .sendAgain(onTop(operation, server))
        }
        switch policy.kind {
        case .fail:
            return .park
        case .serverWins:
            return .takeServer(server)
        case .clientWins:
            // The original of a copied store may have sent it, and newer edits since.
            if operation.isInherited || isSentElsewhere { return .park }
            return mayGoAgain ? .sendAgain(onTop(operation, server)) : .park
        case .custom:
            return mayGoAgain ? .ask(server) : .park
        case .merge(let rules):
            guard mayGoAgain, case .row(let row) = server else { return .park }
            return merged(
                operation,
                row,
                rules,
                schema,
                isCertain: !isSentElsewhere && isCertain(operation, isFirstAnswer: isFirstAnswer),
                addsUp: addsUp
            )
        }
    }

    /// Decides about an operation whose row a restored server has in an older state, or not at all.
    ///
    /// No other writer has changed the row since, so there is nothing to merge with and no newer state to accept.
    private static func onRestored(
        _ operation: QueuedOperation,
        _ server: ServerState,
        _ policy: ConflictPolicy,
        mayGoAgain: Bool
    ) -> ConflictOutcome {
        guard mayGoAgain else { return .park }
        switch policy.kind {
        case .fail: return .park
        case .custom: return .ask(server)
        case .serverWins, .clientWins, .merge: return .sendAgain(onTop(operation, server))
        }
    }

    /// Returns whether a tombstone comes from this very insert, which arrived and was deleted since: sent by a
    /// copy of the store, or by an attempt whose response was lost.
    ///
    /// It holds the values that were sent, and is later than every commit that the device knew when the app
    /// inserted the row: otherwise the app may have inserted it again on purpose.
    private static func isInsertDeletedSince(
        _ operation: QueuedOperation,
        _ payload: Row?,
        _ server: ServerState
    ) -> Bool {
        guard operation.kind == .insert, case .deleted(.some, let tombstone?) = server,
            let payload, RowMerge.holds(tombstone, payload)
        else { return false }
        guard let known = operation.knownUntil else { return true }
        guard case .date(let created) = tombstone[SystemColumn.createdAt] else { return false }
        return Timestamp(created).milliseconds > known
    }

    /// Merges the changes of an operation with those of another writer.
    ///
    /// A delete has nothing to merge. Neither has a row that was deleted and inserted again, or an edit of a
    /// state that is not stored, because its changes are not known.
    private static func merged(
        _ operation: QueuedOperation,
        _ server: Row,
        _ rules: [String: MergeRule],
        _ schema: TableSchema?,
        isCertain: Bool,
        addsUp: Bool
    ) -> ConflictOutcome {
        guard operation.kind == .insert || isEdit(operation), let mine = operation.frozen?.sentRow
        else {
            return .park
        }
        switch RowMerge.join(
            mine: mine,
            base: operation.knownBase,
            theirs: server,
            rules: rules,
            schema: schema,
            addsUp: addsUp
        ) {
        case .contested(let columns, let faults): return .contested(columns, faults: faults)
        case .joined(let row, isTheirs: true): return .alreadyApplied(.row(row))
        case .joined(let row, isTheirs: false):
            return isCertain ? .merged(row, onto: server) : .park
        }
    }

    /// Whether the columns that the operation changed, and their earlier values, are known.
    private static func isEdit(_ operation: QueuedOperation) -> Bool {
        operation.kind == .update && !operation.sendsWholeRow && operation.knownBase != nil
    }

    /// Whether no attempt took effect.
    ///
    /// If one did, a value of the base in the server's row may be a change that was reverted since.
    private static func isCertain(_ operation: QueuedOperation, isFirstAnswer: Bool) -> Bool {
        !operation.outcomeUnknown || isFirstAnswer && operation.unknownSent == nil
    }

    /// Whether a tombstone may be of a row that was sent.
    private static func isOf(_ sent: [Row?], _ tombstone: Row?) -> Bool {
        guard let tombstone else { return true }
        return sent.contains { $0.map { RowMerge.holds(tombstone, $0) } ?? false }
    }

    /// Whether the server's row is still in the state that the operation was based on.
    private static func isUntouched(_ operation: QueuedOperation, by server: ServerState) -> Bool {
        switch (operation.kind, server) {
        case (.insert, .deleted(version: nil, row: nil)): return true
        case (.insert, _): return false
        case (_, .row(let row)):
            guard let tag = operation.frozen?.ifMatch, let version = row.version else {
                return false
            }
            return tag == OperationRequest.quoted(version)
        case (_, .deleted(let version?, _)):
            return operation.revives
                && operation.frozen?.ifMatch == OperationRequest.quoted(version)
        case (_, .deleted): return false
        }
    }

    /// The same operation with a new request: it is known that no attempt took effect.
    private static func anew(_ operation: QueuedOperation) -> QueuedOperation {
        var again = operation
        again.startAnew()
        again.conflicts = operation.conflicts
        return again
    }

    /// Whether the server's row already has the result of the operation, so that there is nothing to resolve.
    private static func isApplied(
        _ operation: QueuedOperation,
        payload: Row?,
        server: ServerState
    ) -> Bool {
        switch (operation.kind, server) {
        case (.delete, .deleted): true
        case (.delete, .row), (_, .deleted): false
        case (_, .row(let row)): payload.map { RowMerge.holds(row, $0) } ?? false
        }
    }

    /// The operation as one that is sent on top of the server's row.
    package static func onTop(
        _ operation: QueuedOperation,
        _ server: ServerState
    ) -> QueuedOperation {
        var again = operation
        again.startAnew()
        again.conflicts = operation.conflicts + 1
        again.basisVersion = server.version
        switch (operation.kind, server) {
        case (.delete, _):
            break
        case (_, .row):
            again.kind = .update
            again.revives = false
            again.sendsWholeRow = true
        case (_, .deleted(let version, _)):
            // If the version of a tombstone is unknown (410 has no body), the operation becomes an insert,
            // whose 409 contains the version.
            again.kind = version == nil ? .insert : .update
            again.revives = version != nil
            again.sendsWholeRow = true
        }
        return again
    }
}
