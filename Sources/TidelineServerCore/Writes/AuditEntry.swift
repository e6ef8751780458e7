// AuditEntry: who changed what, for tables that are audited. Pure.
//
// An entry is written in the transaction of the change, so there is no change without one and no
// entry without a change. It says which columns changed, and never their values.

import TidelineCore

/// One change of one row.
package struct AuditEntry: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable {
        case insert
        case update
        case delete
        case undelete
    }

    /// The time of the change in microseconds, which is the row's new version.
    package var stamp: Int64
    package var table: String
    package var id: String
    package var action: Action
    /// The `sub` of who changed it; nil without a token.
    package var author: String?
    /// The columns whose values changed; none for a new row, which has all.
    package var columns: [String]

    package init(
        stamp: Int64,
        table: String,
        id: String,
        action: Action,
        author: String?,
        columns: [String]
    ) {
        self.stamp = stamp
        self.table = table
        self.id = id
        self.action = action
        self.author = author
        self.columns = columns
    }

    /// What is to be kept of a change; nil where nothing changes, and for tables that are not audited.
    package init?(
        _ change: WritePlan.Change,
        by operation: WriteOperation,
        in table: Table,
        stamp: Int64
    ) {
        guard table.definition.audit else { return nil }
        self.stamp = stamp
        self.table = table.name
        author = operation.author
        switch change {
        case .nothing: return nil
        case .insert(let image):
            id = image.id
            action = .insert
            columns = []
        case .update(let image, let places, let old):
            id = old.id
            switch (old.isDeleted, image.isDeleted) {
            case (false, true): action = .delete
            case (true, false): action = .undelete
            default: action = .update
            }
            columns = places.filter { image.values[$0] != old.values[$0] }
                .map { table.columns[$0].name }
        case .remove(let old):
            id = old.id
            action = .delete
            columns = []
        }
    }
}

/// Which entries are asked for; the newest come first.
package struct AuditQuery: Hashable, Sendable {
    /// Of this table, letter case aside; nil for all.
    package var table: String?
    /// Of the row with this id; nil for all.
    package var id: String?
    /// By this user; nil for all.
    package var author: String?
    /// The most entries.
    package var countMax = 100

    package init(table: String? = nil, id: String? = nil, author: String? = nil) {
        self.table = table
        self.id = id
        self.author = author
    }
}

extension AuditEntry {
    /// How a database keeps the names of columns, which have no commas.
    package var columnsText: String { columns.joined(separator: ",") }

    /// An entry as it was kept; nil for one of a newer server.
    package init?(
        stamp: Int64,
        table: String,
        id: String,
        action: String,
        author: String?,
        columnsText: String
    ) {
        guard let action = Action(rawValue: action) else { return nil }
        self.init(
            stamp: stamp,
            table: table,
            id: id,
            action: action,
            author: author,
            columns: columnsText.split(separator: ",").map(String.init)
        )
    }
}
