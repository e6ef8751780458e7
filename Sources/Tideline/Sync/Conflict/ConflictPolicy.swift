// ConflictPolicy, ConflictRules: what happens when the server's row is not the one that a change
// was based on. The rules are pure.

package import TidelineCore

/// Who wins a conflict.
public struct ConflictPolicy: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case fail
        case serverWins
        case clientWins
    }

    package let kind: Kind

    /// The operation is parked, and the error surfaces with both rows.
    public static let fail = ConflictPolicy(kind: .fail)

    /// The server's row replaces the local change; edits made after it was sent stay.
    public static let serverWins = ConflictPolicy(kind: .serverWins)

    /// The local row is sent again, whole, based on the server's row.
    public static let clientWins = ConflictPolicy(kind: .clientWins)
}

/// What a conflict comes to.
package enum ConflictOutcome: Sendable, Hashable {
    /// The server holds what was sent already: an earlier attempt arrived, or both agree.
    case alreadyApplied(ServerState)
    /// The server's row becomes the local one.
    case takeServer(ServerState)
    /// The operation, changed like this, is sent again on top of the server's row.
    case sendAgain(QueuedOperation)
    /// The operation is parked.
    case park
}

package enum ConflictRules {
    /// Decides a conflict.
    ///
    /// `payload` is what the operation sent, nil for a delete. `isFirstAttempt` is false when an
    /// earlier attempt of the same bytes may have reached the server.
    package static func outcome(
        _ operation: QueuedOperation,
        payload: Row?,
        server: ServerState,
        isFirstAttempt: Bool,
        policy: ConflictPolicy,
        limits: SyncLimits
    ) -> ConflictOutcome {
        if isApplied(operation, payload: payload, server: server) { return .alreadyApplied(server) }
        // An insert whose id belongs to a tombstone brings that row back. After a lost answer only
        // if the tombstone holds something else: it may be of this very insert, deleted since.
        if operation.kind == .insert, case .deleted(.some, let tombstone) = server,
            isFirstAttempt || !(tombstone.map { RowMerge.holds($0, payload ?? Row()) } ?? true)
        {
            return .sendAgain(onTop(operation, server))
        }
        switch policy.kind {
        case .fail:
            return .park
        case .serverWins:
            return .takeServer(server)
        case .clientWins:
            guard operation.conflicts < limits.conflictsMax else { return .park }
            return .sendAgain(onTop(operation, server))
        }
    }

    /// Whether the server's row is what the operation wanted, so that there is nothing to settle.
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
        again.thaw()
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
            // A tombstone whose version is unknown (410 has no body) is met again by an insert,
            // whose 409 tells it.
            again.kind = version == nil ? .insert : .update
            again.revives = version != nil
            again.sendsWholeRow = true
        }
        return again
    }
}
