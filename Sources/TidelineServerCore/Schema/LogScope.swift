// LogScope: changes of rows that may have left a visibility filter. The database stores the scope from one start to the
// next.
//
// A server without the row filter, such as the plain command on the database of an app, does not log
// the changes that the app's callers need. The horizon rises when the filter is configured again.

import TidelineCore

/// The kinds of changes that a table's change log records.
package enum LogScope: Hashable, Sendable {
    /// Only permanent deletes, by id.
    case nothing
    /// Also changes of the owner, which this column contains.
    case owner(String)
    /// Every change, with all columns.
    case all

    package init(_ table: TableDefinition, isFiltered: Bool) {
        if isFiltered {
            self = .all
        } else {
            self = table.owner.map { .owner($0.lowercased()) } ?? .nothing
        }
    }

    /// Parses the stored scope; nil if no server of this version wrote it.
    package init?(_ text: String) {
        if text == Self.nothing.text {
            self = .nothing
        } else if text == Self.all.text {
            self = .all
        } else {
            guard text.hasPrefix(Self.ownerPrefix) else { return nil }
            self = .owner(String(text.dropFirst(Self.ownerPrefix.count)))
        }
    }

    private static let ownerPrefix = "owner "

    package var text: String {
        switch self {
        case .nothing: "nothing"
        case .owner(let column): Self.ownerPrefix + column
        case .all: "all"
        }
    }

    /// Whether a log with this scope contains everything that a log with the other scope does.
    package func covers(_ other: LogScope) -> Bool {
        self == .all || other == .nothing || self == other
    }
}
