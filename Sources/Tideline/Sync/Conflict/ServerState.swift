// ServerState: the last known state of a row on the server.

import Foundation
package import TidelineCore

/// The state of a row on the server: the row, or its deletion.
package enum ServerState: Sendable, Hashable {
    case row(Row)
    /// The row is deleted; the version is that of the tombstone, if it is known.
    ///
    /// `row` is the content of the tombstone, if a response contained it; it is not stored.
    case deleted(version: String?, row: Row? = nil)

    /// The deletion of a row that a pull reported without the tombstone.
    package static let pulledDeletion = ServerState.deleted(
        version: nil,
        row: [removedName: true]
    )

    /// The name of a JSON member that cannot be the name of a column.
    private static let removedName = "@removed"

    /// Whether the deletion comes from a pull without the tombstone, not from the response to a
    /// write.
    package var isPulledDeletion: Bool {
        guard case .deleted(version: nil, let row?) = self else { return false }
        return row[Self.removedName] == true
    }

    /// The state in its stored form; for a tombstone, only its version and origin are stored.
    package var stored: Row {
        switch self {
        case .row(let row): return row
        case .deleted(let version, _):
            var row: Row = ["deleted": true]
            row["version"] = version.map(Value.string)
            if isPulledDeletion { row[Self.removedName] = true }
            return row
        }
    }

    /// Creates the state from a row of a response; a tombstone has `deleted` set.
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

    /// Returns the later of a known state and a reported one, or the reported one if their order
    /// cannot be determined.
    package static func later(_ known: ServerState?, _ reported: ServerState) -> ServerState {
        guard let known else { return reported }
        if let first = known.updatedAt, let second = reported.updatedAt, first > second {
            return known
        }
        return reported
    }

    /// Returns the later of the state in a response to an operation and a state that was pulled
    /// while the operation was queued.
    ///
    /// The response may be the replayed answer to an earlier attempt, and the row may have changed
    /// since then. This device may not know of that attempt if its file was replaced with an older
    /// copy. Therefore the times are compared. If the times are equal or unknown, the following
    /// rules apply:
    ///
    /// - If the request had `If-Match`, the row in the response replaced the state that `If-Match`
    ///   names. Any other pulled state is later than both.
    /// - For a delete, or without `If-Match`, the response is later if the request was sent once.
    ///   If it was repeated, the pulled state is used; if the response is in fact later, the next
    ///   pull fetches its state.
    package static func newest(
        after answer: ServerState,
        to operation: QueuedOperation
    ) -> ServerState {
        guard let pulled = operation.basis.latest else { return answer }
        // The server does not have the row of an update, so the update is resent as an insert. Its
        // response is later.
        if operation.kind == .insert, case .deleted(version: nil, _) = pulled,
            !pulled.isPulledDeletion
        {
            return answer
        }
        if let first = pulled.updatedAt, let second = answer.updatedAt, first != second {
            return first > second ? pulled : answer
        }
        if let version = pulled.version {
            if version == answer.version { return answer }
            let named = operation.frozen?.ifMatch
            if named == OperationRequest.quoted(version) { return answer }
            if named != nil, operation.kind != .delete { return pulled }
        }
        return operation.outcomeUnknown && operation.attempts > 1 ? pulled : answer
    }
}
