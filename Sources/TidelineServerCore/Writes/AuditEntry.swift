// AuditEntry: the user and the columns of a change, for tables that are audited. Pure.
//
// An entry is written in the transaction of the change: every change by a request has an entry, and every entry a
// change. The entry names the columns that changed, never their values.

import TidelineCore

/// The author of a write, as far as the server knows it.
package struct WriteAuthor: Hashable, Sendable {
    /// The `sub` of the token; nil without one.
    package var user: String?
    /// The installation id that the request contains, which is not verified.
    package var device: String?
    /// Whether the write came through the dashboard.
    package var isDashboard = false

    package init(user: String? = nil, device: String? = nil, isDashboard: Bool = false) {
        self.user = user
        self.device = device
        self.isDashboard = isDashboard
    }

    init(_ call: TableCall) {
        let device = call.request.headers[RecentDevices.field]
        self.init(
            user: call.user?.id,
            device: device.flatMap { RecentDevices.isUsable($0) ? $0 : nil },
            isDashboard: call.isDashboard
        )
    }
}

/// A change of a row in the audit log.
package struct AuditEntry: Hashable, Sendable {
    /// The usual size of an entry on the disk, in bytes.
    static let usualBytes = 200

    /// The kind of a change; a newer server may have stored other kinds than these.
    package struct Action: RawRepresentable, Hashable, Sendable {
        package let rawValue: String

        package init(rawValue: String) { self.rawValue = rawValue }

        package static let insert = Self(rawValue: "insert")
        package static let update = Self(rawValue: "update")
        package static let delete = Self(rawValue: "delete")
        package static let undelete = Self(rawValue: "undelete")
    }

    /// The commit timestamp of the change, which is the row's new version.
    package var timestamp: Int64
    package var table: String
    package var id: String
    package var action: Action
    package var author: WriteAuthor
    /// The columns whose values changed; empty for a new row.
    package var columns: [String]

    /// Creates an entry from its stored values.
    package init(
        timestamp: Int64,
        table: String,
        id: String,
        action: String,
        author: WriteAuthor,
        columnsText: String
    ) {
        self.timestamp = timestamp
        self.table = table
        self.id = id
        self.action = Action(rawValue: action)
        self.author = author
        columns = columnsText.split(separator: ",").map(String.init)
    }

    /// Creates the entry of a change; nil if nothing changes, or if the table is not audited.
    package init?(
        _ change: WritePlan.Change,
        by operation: WriteOperation,
        in table: Table,
        timestamp: Int64
    ) {
        guard table.definition.audit else { return nil }
        self.timestamp = timestamp
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

    /// The names of the columns as a database stores them; they contain no commas.
    package var columnsText: String { columns.joined(separator: ",") }
}

/// A query for audit entries, which are returned newest first.
package struct AuditQuery: Hashable, Sendable {
    /// Only entries of this table, in any letter case; nil for all.
    package var table: String?
    /// Only entries of the row with this id; nil for all.
    package var id: String?
    /// Only entries of this user; nil for all.
    package var user: String?
    package var countMax = 100

    package init(table: String? = nil, id: String? = nil, user: String? = nil) {
        self.table = table
        self.id = id
        self.user = user
    }
}
