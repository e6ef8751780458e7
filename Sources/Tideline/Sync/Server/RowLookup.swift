// RowLookup: what a look at one row of the server showed, and what that says of an answer that
// did not tell.

import TidelineCore

/// What a look at one row showed.
package enum RowLookup: Sendable, Hashable {
    case found(ServerState)
    /// The table is there, and no row with that id, not even a tombstone.
    case absent
    /// The look itself was refused.
    case failed(PushAnswer)

    /// What an unclear answer to an operation meant, now that the row was looked up.
    package func verdict(
        _ operation: QueuedOperation,
        after answer: PushAnswer
    ) -> PushAnswer.Verdict {
        let isGone = answer.status == 404 || answer.status == 410
        switch self {
        case .found(.row(let row)):
            // The row is there as it was expected: what answered 404 was not the table.
            if isGone, let version = row.version,
                operation.frozen?.ifMatch == OperationRequest.quoted(version)
            {
                return .retry
            }
            return .conflict(.row(row))
        case .found(let deleted):
            return operation.kind == .delete ? .accepted(deleted) : .conflict(deleted)
        case .absent:
            guard isGone else { return .rejected }
            switch operation.kind {
            case .delete: return .accepted(.deleted(version: nil))
            case .update: return .conflict(.deleted(version: nil))
            case .insert: return .rejected
            }
        case .failed(let refusal):
            switch refusal.verdict(for: .insert) {
            case .unauthorized: return .unauthorized
            case .rejected: return .rejected
            case .accepted, .conflict, .retry, .undeleted, .unclear: return .retry
            }
        }
    }
}
