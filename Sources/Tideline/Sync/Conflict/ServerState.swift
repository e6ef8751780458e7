// ServerState: what the client last learned of a row on the server.

import Foundation
package import TidelineCore

/// A row on the server, or the news that it is gone.
package enum ServerState: Sendable, Hashable {
    case row(Row)
    /// Deleted; the tombstone's version where it is known.
    ///
    /// `row` is what the tombstone holds, where an answer showed it; it is not kept.
    case deleted(version: String?, row: Row? = nil)

    /// From a row as the server writes it: a tombstone has `deleted` set.
    package init(_ row: Row) {
        self =
            row[SystemColumn.deleted] == true ? .deleted(version: row.version, row: row) : .row(row)
    }

    package var row: Row? {
        if case .row(let row) = self { row } else { nil }
    }

    package var version: String? {
        switch self {
        case .row(let row): row.version
        case .deleted(let version, _): version
        }
    }

    private var updatedAt: Date? {
        if case .date(let date) = row?[SystemColumn.updatedAt] { date } else { nil }
    }

    /// The later of a state that is known and one that is told now; the latter where it cannot be
    /// seen.
    package static func later(_ known: ServerState?, _ told: ServerState) -> ServerState {
        guard let known else { return told }
        if let first = known.updatedAt, let second = told.updatedAt, first > second {
            return known
        }
        return told
    }

    /// The later of the state that an answer to an operation tells and the one that a pull told while
    /// the operation was in the queue.
    ///
    /// The answer to a repeat may be the one that was stored for the first attempt, and the row
    /// another one since. Where that cannot be seen the pull's state counts: if the answer is the
    /// later one, the next pull brings it. A request that was sent once has its answer from after
    /// everything that was known when it was sent.
    package static func newest(
        after answer: ServerState,
        to operation: QueuedOperation
    ) -> ServerState {
        guard let pulled = operation.basis.latest, operation.outcomeUnknown,
            operation.attempts > 1
        else {
            return later(operation.basis.latest, answer)
        }
        if pulled.updatedAt != nil, answer.updatedAt != nil { return later(pulled, answer) }
        guard let version = pulled.version else { return pulled }
        let isBasis = operation.frozen?.ifMatch == OperationRequest.quoted(version)
        return isBasis || version == answer.version ? answer : pulled
    }
}
