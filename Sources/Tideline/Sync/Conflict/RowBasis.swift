// RowBasis: the known server state of a row with pending operations.

package import TidelineCore

/// The server state of a row with pending operations.
///
/// `base` is the base row of the local edits. `latest` is a newer row that arrived while operations were
/// pending, and is used when they are complete.
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
