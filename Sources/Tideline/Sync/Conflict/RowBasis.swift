// RowBasis: the known server states of a row with pending operations.

package import TidelineCore

/// The known server states of a row with pending operations.
///
/// `base` is the base row of the local edits. `latest` is a newer row that arrived while operations
/// were pending, and applies once they are complete.
package struct RowBasis: Sendable, Hashable {
    package var base: Row?
    package var latest: ServerState?

    package init(base: Row? = nil, latest: ServerState? = nil) {
        self.base = base
        self.latest = latest
    }

    /// The newest known state of the row on the server.
    package var lastKnown: ServerState? { latest ?? base.map(ServerState.row) }
}
