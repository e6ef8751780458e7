// RowBasis: the known server state of a row with pending operations.

package import TidelineCore

/// The server state of a row with pending operations.
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
