// ServerState: what the client last learned of a row on the server.

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
}

/// The server's side of a row with pending operations.
///
/// `base` is what the local edits started from. `latest` is newer: it arrived while operations were
/// pending, and waits for their end.
package struct RowBasis: Sendable, Hashable {
    package var base: Row?
    package var latest: ServerState?

    package init(base: Row? = nil, latest: ServerState? = nil) {
        self.base = base
        self.latest = latest
    }

    /// The newest server row that is known.
    package var lastKnown: ServerState? { latest ?? base.map(ServerState.row) }
}
