// ConflictRules: decides how a conflict is resolved.
//
// Pure; the decision table is in docs/sync.md.

package import TidelineCore

/// The resolution of a conflict between an operation and the server's row.
package enum ConflictOutcome: Sendable, Hashable {
    /// The server already has the values that were sent, because an earlier attempt arrived, or
    /// because both sides made the same change.
    case alreadyApplied(ServerState)
    /// The server's row replaces the local one.
    case takeServer(ServerState)
    /// The modified operation is resent on top of the server's row.
    case sendAgain(QueuedOperation)
    /// No attempt took effect, and the server's row is unchanged, so there is no conflict.
    ///
    /// The operation is retried with a new request.
    case retry(QueuedOperation)
    /// An earlier form of the operation arrived and resulted in this row; later changes are sent on
    /// top of it.
    case rebase(Row)
    /// A row that merges both changes is sent on top of the server's row.
    case merged(Row, onto: Row)
    /// The app's handler decides.
    case ask(ServerState)
    /// The operation is parked because both sides changed these columns to different values.
    ///
    /// `faults` gives the reason for each column that cannot hold the value of its rule.
    case contested([String], faults: [String: String])
    /// The operation is parked.
    case park
}

/// The rules for responses whose row differs from the base row of a change.
package enum ConflictRules {
    /// Decides how to resolve a conflict.
    ///
    /// - Parameters:
    ///   - operation: The operation that is in conflict.
    ///   - payload: The row that the operation sent; nil for a delete.
    ///   - server: The server's state of the row.
    ///   - wasRead: Whether the server's row comes from a follow-up read, not from a response to
    ///     the operation.
    ///   - isFirstAnswer: Whether the server recognizes repeated requests and reports that no
    ///     attempt took effect.
    ///   - isSentElsewhere: Whether a copy of the store sent the operation in another form. The
    ///     server's row may then contain that form and newer edits.
    ///   - isRestored: Whether the server was restored from a backup after the change was made, and
    ///     has no row or an older state than the base version.
    ///   - policy: The conflict policy of the table.
    ///   - schema: The table's definition, if it is known.
    ///   - limits: The limits of the client.
    /// - Returns: The resolution.
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
        // Equal values may come from one change that a proxy or the network stack sent twice. Only
        // a server that recognizes repeated requests can show that there are two changes.
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
        // The response that reported the conflict did not come from the server, so no policy
        // applies.
        if wasRead, !isSentElsewhere, isUntouched(operation, by: server) {
            return .retry(withNewRequest(operation))
        }
        // An insert whose id belongs to a tombstone undeletes that row. If the outcome is unknown
        // and the tombstone has values that an attempt sent, it may result from this insert, so the
        // policy applies instead.
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
            // The store that this one was copied from may have sent the operation, and newer edits
            // since then.
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

    /// Returns how to resolve an operation if a restored server has an older state of its row, or
    /// no row.
    ///
    /// No other writer has changed the row since the restore, so there is nothing to merge with and
    /// no newer state to accept.
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

    /// Returns whether a tombstone results from this insert, which arrived and was deleted later.
    ///
    /// A copy of the store, or an attempt whose response was lost, may have sent the insert. This
    /// is assumed if the tombstone has the values that were sent, and was created after every
    /// commit that the device knew when the app inserted the row. Otherwise, the app may have
    /// inserted the row again on purpose.
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
    /// A delete, a row that was deleted and inserted again, and an edit without a stored base row
    /// are not merged, because their changes are not known.
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
            if let violation = brokenRule(row, server, schema) {
                guard violation.columns.count == 1 else {
                    return .contested(violation.columns, faults: [:])
                }
                let column = violation.columns[0]
                return .contested([column], faults: [column: "breaks a rule of the table"])
            }
            return isCertain ? .merged(row, onto: server) : .park
        }
    }

    /// Returns the rule that a merged row breaks with a value that is not the server's.
    private static func brokenRule(
        _ row: Row,
        _ server: Row,
        _ schema: TableSchema?
    ) -> RuleViolation? {
        guard let rules = schema.map(RowRules.init), !rules.isEmpty else { return nil }
        return rules.check(row, changing: Set(RowMerge.changes(from: server, to: row).names))
    }

    /// Returns whether the columns that the operation changed, and their earlier values, are known.
    private static func isEdit(_ operation: QueuedOperation) -> Bool {
        operation.kind == .update && !operation.sendsWholeRow && operation.knownBase != nil
    }

    /// Returns whether it is certain that no attempt took effect.
    ///
    /// Otherwise, if a column of the server's row has its base value, an attempt may have changed
    /// it, and another writer may have changed it back.
    private static func isCertain(_ operation: QueuedOperation, isFirstAnswer: Bool) -> Bool {
        !operation.outcomeUnknown || isFirstAnswer && operation.unknownSent == nil
    }

    /// Returns whether a tombstone may belong to one of the rows that were sent.
    private static func isOf(_ sent: [Row?], _ tombstone: Row?) -> Bool {
        guard let tombstone else { return true }
        return sent.contains { $0.map { RowMerge.holds(tombstone, $0) } ?? false }
    }

    /// Returns whether the server's row is still in the state that the operation was based on.
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

    /// Returns the operation with a new request, because no attempt took effect.
    private static func withNewRequest(_ operation: QueuedOperation) -> QueuedOperation {
        var again = operation
        again.resetAttempts()
        again.conflicts = operation.conflicts
        return again
    }

    /// Returns whether the server's row already has the result of the operation.
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

    /// Returns the operation in the form in which it is sent on top of the server's row.
    package static func onTop(
        _ operation: QueuedOperation,
        _ server: ServerState
    ) -> QueuedOperation {
        var again = operation
        again.resetAttempts()
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
            // If the version of a tombstone is unknown (a 410 may have no body), the operation
            // becomes an insert. The server responds to it with a 409 that contains the version.
            again.kind = version == nil ? .insert : .update
            again.revives = version != nil
            again.sendsWholeRow = true
        }
        return again
    }
}
