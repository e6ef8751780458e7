// ServerState: the last known state of a row on the server.

import Foundation
package import TidelineCore

/// The state of a row on the server: the row, or its deletion.
package enum ServerState: Sendable, Hashable {
    case row(Row)
    /// Deleted, with the tombstone's version if it is known.
    ///
    /// `row` is the content of the tombstone, if a response showed it; it is not stored.
    case deleted(version: String?, row: Row? = nil)

    /// The state in a row as the server writes it: a tombstone has `deleted` set.
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

    /// Returns the later of a known state and a new one; the new one if their order cannot
    /// be determined.
    package static func later(_ known: ServerState?, _ told: ServerState) -> ServerState {
        guard let known else { return told }
        if let first = known.updatedAt, let second = told.updatedAt, first > second {
            return known
        }
        return told
    }

    /// Returns the later of the state in a response to an operation and the state that a pull brought while
    /// the operation was in the queue.
    ///
    /// The response to a repeated request may be the replayed answer to the first attempt, and the row may
    /// have changed since. If that cannot be determined, the pull's state counts: if the response is the
    /// later one, the next pull brings it. The response to a request that was sent once is later than
    /// every state that was known when it was sent.
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
