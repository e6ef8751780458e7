// LogRules: the changes of a table that are logged, and the values that the log stores.

import TidelineCore

/// The log settings of a table: whether and how its changes are logged.
package struct LogRules: Sendable {
    /// Whether every change of a row is logged, because a hook decides which callers see the row.
    package let takesUpdates: Bool
    private let owner: Int?

    package init(_ table: Table) {
        takesUpdates = table.hooks?.rowFilter != nil
        owner = table.ownerIndex
    }

    /// Returns whether a row may have left a visibility filter by this change.
    ///
    /// A tombstone was already reported as removed.
    package func isNeeded(for old: RowImage, _ new: RowImage) -> Bool {
        guard !old.isDeleted else { return false }
        return takesUpdates || owner.map { old.values[$0] != new.values[$0] } ?? false
    }

    /// Returns the part of a row that is logged.
    package func loggedPart(_ image: RowImage) -> RowImage {
        guard !takesUpdates else { return image }
        var part = image
        for place in image.values.indices where place != owner { part.values[place] = .null }
        return part
    }
}
