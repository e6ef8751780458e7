// RowCheck: what no server takes of a record is refused when the app stores it, and not at the push.

import TidelineCore

enum RowCheck {
    /// Refuses values that no table holds, and the mark of a deleted row.
    static func check(_ row: Row, table: String, id: String? = nil) throws {
        for (name, value) in row {
            if case .string(let text) = value, text.utf8.contains(0) {
                throw SyncError.recordDoesNotFit(
                    table: table,
                    id: id ?? row.id,
                    column: name,
                    reason: "has a text with the character U+0000, which no table holds"
                )
            }
        }
        try checkIsLive(row, table: table)
    }

    /// Refuses the mark of a deleted row: it is the server's.
    static func checkIsLive(_ row: Row, table: String) throws {
        guard row[SystemColumn.deleted] == .bool(true) else { return }
        throw SyncError.recordDoesNotFit(
            table: table,
            id: row.id,
            column: SystemColumn.deleted,
            reason: "is true, which only a delete makes it: call 'delete' instead"
        )
    }
}
